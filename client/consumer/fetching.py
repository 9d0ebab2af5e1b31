"""Which fetches to send. Pure: shells send them, and obey the verdicts on what comes (verdicts.py)."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Protocol

from odradek.client.consumer.chunks import CHUNKS_PER_PARTITION
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.positions import Positions
from odradek.client.metadata import ClusterView
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.primitives import ZERO_UUID

CONSUMER_REPLICA_ID = -1
NO_SESSION_ID, NO_SESSION_EPOCH = 0, -1
LAST_VERSION_WITH_NAMES = 12


class FetchSettings(Protocol):
    """What a request says of all its partitions; Kafka's names."""

    @property
    def fetch_max_wait_ms(self) -> int: ...
    @property
    def fetch_min_bytes(self) -> int: ...
    @property
    def max_partition_fetch_bytes(self) -> int: ...
    @property
    def isolation(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What one partition was asked for, and the version of its position then."""

    offset: int
    version: int
    last_epoch: int = -1
    """Leader epoch of what stands before the offset, for the leader to compare (KIP-595); -1 where not known."""
    leader_epoch: int = -1
    """The leader's, as the metadata say."""


@dataclass(frozen=True, slots=True)
class FetchCall:
    """A request to one broker."""

    node_id: int
    request: FetchRequest
    asked: Mapping[TopicPartition, Asked]
    highest_version: int | None


def plan_fetches(
    positions: Positions,
    chunks: Mapping[TopicPartition, Sized],
    view: ClusterView,
    may_ask: Callable[[int], bool],
    settings: ConsumerSettings,
    now_ms: float,
) -> list[FetchCall]:
    """For every broker that may be asked now: all its partitions that have room for another answer."""
    by_node: dict[int, dict[TopicPartition, Asked]] = {}
    for topic_partition, state in positions.partitions.items():
        held = chunks.get(topic_partition)
        full = held is not None and len(held) >= CHUNKS_PER_PARTITION
        if not state.located or state.paused or state.fetching or full or state.retry_at_ms > now_ms:
            continue
        info = view.partition(topic_partition)
        if info is None or info.leader not in view.nodes:
            continue
        reader = state.reader(info.leader, now_ms, view.nodes)
        if may_ask(reader):
            asked = Asked(state.fetch_offset, state.version, state.fetch_epoch, info.leader_epoch)
            by_node.setdefault(reader, {})[topic_partition] = asked
    most_bytes = settings.fetch_max_bytes
    rack = settings.client_rack
    return [fetch_call(node_id, asked, view, settings, most_bytes, rack) for node_id, asked in by_node.items()]


def without_leader(positions: Positions, view: ClusterView) -> bool:
    """Tell whether some partition has no leader that is known: look at the metadata again."""
    return any(view.leader_of(topic_partition) is None for topic_partition in positions.partitions)


def fetch_call(
    node_id: int,
    asked: Mapping[TopicPartition, Asked],
    view: ClusterView,
    settings: FetchSettings,
    most_bytes: int,
    rack: str = "",
) -> FetchCall:
    """Return one request for these partitions, whose topics are known; its answer has at most so many bytes.

    A leader may send a consumer that names its `rack` to another replica.
    """
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=view.topics[topic].topic_id,
            partitions=[_partition(TopicPartition(topic, number), asked, view, settings) for number in numbers],
        )
        for topic, numbers in by_topic(asked).items()
    ]
    request = FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=most_bytes,
        isolation_level=settings.isolation,
        session_id=NO_SESSION_ID,
        session_epoch=NO_SESSION_EPOCH,
        topics=topics,
        rack_id=rack,
    )
    with_ids = all(topic.topic_id != ZERO_UUID for topic in topics)
    return FetchCall(node_id, request, asked, None if with_ids else LAST_VERSION_WITH_NAMES)


def _partition(
    topic_partition: TopicPartition,
    asked: Mapping[TopicPartition, Asked],
    view: ClusterView,
    settings: FetchSettings,
) -> FetchPartition:
    info = view.partition(topic_partition)
    return FetchPartition(
        partition=topic_partition.partition,
        current_leader_epoch=info.leader_epoch if info is not None else -1,
        fetch_offset=asked[topic_partition].offset,
        last_fetched_epoch=asked[topic_partition].last_epoch,
        partition_max_bytes=settings.max_partition_fetch_bytes,
    )


def partitions_of(call: FetchCall, answer: FetchResponse) -> dict[TopicPartition, PartitionData]:
    """An answer by partition, whether it names topics or gives their ids."""
    names = {topic.topic_id: topic.topic for topic in call.request.topics}
    found: dict[TopicPartition, PartitionData] = {}
    for topic in answer.responses:
        name = topic.topic or names.get(bytes(topic.topic_id), "")
        for one in topic.partitions:
            topic_partition = TopicPartition(name, one.partition_index)
            if topic_partition in call.asked:
                found[topic_partition] = one
    return found
