"""Fetches: which ones to send, and what their answers mean for each partition. Pure.

Consumer, ConsumerConnector and Spark source send them and obey the verdicts. Brokers that do not compare leader
epochs in a Fetch are asked for the ends of epochs (KIP-320).
"""

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
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.primitives import ZERO_UUID

CONSUMER_REPLICA_ID = -1
NO_SESSION_ID, NO_SESSION_EPOCH = 0, -1
LAST_VERSION_WITH_NAMES = 12


class FetchSettings(Protocol):
    """Parameters that a request has for all its partitions; Kafka's names."""

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
    """Place that a partition was asked for, and the version of its position then."""

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
        if state.fetching or state.paused or state.retry_at_ms > now_ms or not state.located:
            continue
        held = chunks.get(topic_partition)
        if held is not None and len(held) >= CHUNKS_PER_PARTITION:
            continue
        info = view.partition(topic_partition)
        if info is None or info.leader not in view.nodes:
            continue
        reader = state.reader(info.leader, now_ms, view.nodes)
        if may_ask(reader):
            state.look_at(view.topics[topic_partition.topic].topic_id)
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
            partitions=[_partition(number, asked[TopicPartition(topic, number)], settings) for number in numbers],
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


def _partition(number: int, asked: Asked, settings: FetchSettings) -> FetchPartition:
    return FetchPartition(
        partition=number,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.offset,
        last_fetched_epoch=asked.last_epoch,
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


ASK_AGAIN = RETRIABLE - {ErrorCode.CORRUPT_MESSAGE} | {ErrorCode.UNKNOWN_SERVER_ERROR}
"""After a pause and a look at the metadata. A batch that a broker finds damaged will be damaged the next time too; an
unexpected error, or one that is newer than our table, need not come again (Java's FetchCollector asks again too)."""


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
    """The place asked for is not in the log, or not any more."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """The leader's history is another one from `offset` on; before that stands the leader's epoch `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """The leader names a replica to read from (KIP-392)."""

    replica: int


@dataclass(frozen=True, slots=True)
class AskAgain:
    """After a pause, when the metadata is fresh."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Refused:
    """For the application: asking again brings the same."""

    error: Exception


Verdict = Arrived | NothingNew | OutOfRange | Diverged | ReadFrom | AskAgain | Refused


def judge(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    """Return what one partition's part of an answer means. `limit`: the setting that bounds it, with its value."""
    error = error_code(data.error_code)
    diverging = data.diverging_epoch
    if error == ErrorCode.NONE and diverging is not None and diverging.end_offset >= 0:
        return Diverged(diverging.end_offset, diverging.epoch)
    if error == ErrorCode.NONE and data.preferred_read_replica >= 0:
        return ReadFrom(data.preferred_read_replica)
    if error == ErrorCode.NONE:
        return _arrived(topic_partition, asked, data, isolation, limit)
    if error == ErrorCode.OFFSET_OUT_OF_RANGE:
        return OutOfRange()
    if error in ASK_AGAIN:
        return AskAgain(error)
    return Refused(KafkaError(error, f"{topic_partition}: cannot be read at offset {asked.offset}"))


def _arrived(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    if not data.records:
        return NothingNew(data.high_watermark)
    records = memoryview(data.records)
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
    return Refused(ClientError(f"{topic_partition} at offset {asked.offset}: the batch there is larger than {limit}"))


UNDEFINED = -1


def unvalidated(call: FetchCall, positions: Positions) -> dict[TopicPartition, Asked]:
    """Return those of a call's partitions that this leader has not confirmed, where an epoch is known to compare."""
    found = {}
    for topic_partition, asked in call.asked.items():
        state = positions.partitions.get(topic_partition)
        if state is not None and asked.last_epoch >= 0 and state.valid_in != asked.leader_epoch:
            found[topic_partition] = asked
    return found


def epochs_request(asked: Mapping[TopicPartition, Asked]) -> OffsetForLeaderEpochRequest:
    """Return the question where these partitions' last epochs end."""
    topics = [
        OffsetForLeaderTopic(
            topic=topic,
            partitions=[
                OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=asked[TopicPartition(topic, number)].leader_epoch,
                    leader_epoch=asked[TopicPartition(topic, number)].last_epoch,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(asked).items()
    ]
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=topics)


def judge_epochs(
    asked: Mapping[TopicPartition, Asked], answer: OffsetForLeaderEpochResponse
) -> dict[TopicPartition, Verdict | None]:
    """Return what an answer means for its partitions: None for one that is confirmed (Java: maybeCompleteValidation).

    A partition whose epoch the leader does not know is out of range: everything it had is gone.
    """
    verdicts: dict[TopicPartition, Verdict | None] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            topic_partition = TopicPartition(topic.topic, one.partition)
            question = asked.get(topic_partition)
            if question is None:
                continue
            error = error_code(one.error_code)
            if error != ErrorCode.NONE:
                verdicts[topic_partition] = AskAgain(error)
            elif UNDEFINED in (one.end_offset, one.leader_epoch):
                verdicts[topic_partition] = OutOfRange()
            elif one.end_offset < question.offset or one.leader_epoch < question.last_epoch:
                verdicts[topic_partition] = Diverged(min(one.end_offset, question.offset), one.leader_epoch)
            else:
                verdicts[topic_partition] = None
    return verdicts
