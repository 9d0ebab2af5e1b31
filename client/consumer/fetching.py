"""Which fetches to send, and what their answers mean. Pure: shells send them and obey the verdicts."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Protocol

from odradek.client.config import READ_COMMITTED
from odradek.client.consumer.chunks import CHUNKS_PER_PARTITION, Chunk
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientError, CorruptRecords
from odradek.client.metadata import ClusterView
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, MalformedMessage, error_code
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
STALE_VIEW = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Ask again after a pause and a look at the metadata."""
ASK_AGAIN = (STALE_VIEW | RETRIABLE) - {ErrorCode.CORRUPT_MESSAGE}
"""Likewise. A batch that a broker finds damaged will be damaged the next time too."""


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


@dataclass(frozen=True, slots=True)
class FetchCall:
    """One request to one broker."""

    node_id: int
    request: FetchRequest
    asked: Mapping[TopicPartition, Asked]
    highest_version: int | None


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class NothingNew:
    """There is nothing there yet: the log ends at `high_watermark`, as far as consumers are told."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """What was asked for is not in the log, or not any more."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """After a pause, when the metadata is fresh."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Refused:
    """For the application: asking again brings the same."""

    error: Exception


Verdict = Arrived | NothingNew | OutOfRange | AskAgain | Refused


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
        leader = view.leader_of(topic_partition)
        if leader is not None and may_ask(leader):
            by_node.setdefault(leader, {})[topic_partition] = Asked(state.fetch_offset, state.version)
    most_bytes = settings.fetch_max_bytes
    return [fetch_call(node_id, asked, view, settings, most_bytes) for node_id, asked in by_node.items()]


def without_leader(positions: Positions, view: ClusterView) -> bool:
    """Whether some partition has no leader that is known: look at the metadata again."""
    return any(view.leader_of(topic_partition) is None for topic_partition in positions.partitions)


def fetch_call(
    node_id: int,
    asked: Mapping[TopicPartition, Asked],
    view: ClusterView,
    settings: FetchSettings,
    most_bytes: int,
) -> FetchCall:
    """One request for these partitions, whose topics are known; its answer has at most so many bytes."""
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


def judge(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    """What one partition's part of an answer means. `limit`: the setting that bounds it, with its value."""
    error = error_code(data.error_code)
    if error == ErrorCode.NONE:
        return _arrived(topic_partition, asked, data, isolation, limit)
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in ASK_AGAIN:
        return AskAgain(error)
    return Refused(KafkaError(error, f"{topic_partition}: cannot be read at offset {asked.offset}"))


def _arrived(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    records = memoryview(data.records or b"")
    aborted = None
    if isolation == READ_COMMITTED:
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
    end = data.high_watermark if data.high_watermark > asked.offset else None
    try:
        chunk = Chunk(topic_partition, records, asked.offset, asked.version, aborted, end)
    except MalformedMessage as error:
        return Refused(CorruptRecords(f"{topic_partition} from offset {asked.offset}: damaged records: {error}"))
    if not chunk.empty:
        return Arrived(chunk)
    if not len(records):
        return NothingNew(data.high_watermark)
    return Refused(ClientError(f"{topic_partition} at offset {asked.offset}: the batch there is larger than {limit}"))
