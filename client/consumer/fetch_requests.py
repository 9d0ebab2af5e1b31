"""Fetch requests: which ones to send, and what their answers mean for each partition. No I/O.

The consumer, the ConsumerConnector and the Spark source send them and act on the verdicts. Brokers too old to compare
leader epochs in a Fetch are asked where epochs end (OffsetForLeaderEpoch, KIP-320).
"""

from collections.abc import Mapping, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from odradek.client.consumer.chunks import CHUNKS_PER_PARTITION, Chunk
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientError, CorruptRecords
from odradek.client.metadata import ClusterView, TopicInfo
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Changes, FetchSessionHandler
from odradek.protocol.messages.fetch import (
    CONSUMER_REPLICA_ID,
    READ_COMMITTED,
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

LAST_VERSION_WITH_NAMES = 12


class FetchSettings(Protocol):
    """Settings that apply to all partitions of a request; Kafka's names."""

    @property
    def fetch_max_wait_ms(self) -> int: ...
    @property
    def fetch_min_bytes(self) -> int: ...
    @property
    def max_partition_fetch_bytes(self) -> int: ...
    @property
    def isolation(self) -> int: ...


class Asked(NamedTuple):
    """Offset at which a partition was asked for, and the version of its position then."""

    offset: int
    version: int
    last_epoch: int = -1
    """Leader epoch of the record before the offset, for the leader to compare (KIP-595); -1 if it is not known."""
    leader_epoch: int = -1
    """Current leader epoch, as in the metadata."""
    topic_id: bytes = ZERO_UUID


@dataclass(frozen=True, slots=True)
class FetchCall:
    """A request to one broker."""

    node_id: int
    request: FetchRequest
    asked: Mapping[TopicPartition, Asked]
    """All partitions that it asks for; in a session, the request names only those that are new or have changed."""
    names: Mapping[bytes, str]
    """Names of topics by their ids."""
    highest_version: int | None

    @property
    def names_all(self) -> bool:
        """Tell whether the answer has all partitions, and not only those with news, as within a session."""
        return self.request.session_epoch <= INITIAL_EPOCH


def plan_fetches(
    positions: Positions,
    chunks: Mapping[TopicPartition, Sized],
    view: ClusterView,
    sessions: dict[int, FetchSessionHandler[TopicPartition, Asked]],
    asking: AbstractSet[int],
    settings: ConsumerSettings,
    now_ms: float,
) -> list[FetchCall]:
    """Plan a request to every broker that is not in `asking`, for all its partitions with room for another answer.

    The plan is noted in the `sessions` with these brokers; a broker without a session gets one.
    """
    by_node: dict[int, dict[TopicPartition, Asked]] = {}
    topics, nodes = view.topics, view.nodes
    topic: TopicInfo | None = None
    for place, state in positions.partitions.items():
        if state.asked_of in asking:
            continue
        state.asked_of = -1  # that broker has answered; the next Fetch to it may be about others
        if state.paused or not state.located or (state.retry_at_ms > now_ms and state.failed_in is None):
            continue
        if chunks and len(chunks.get(place, ())) >= CHUNKS_PER_PARTITION:
            continue
        name, number = place
        if topic is None or topic.name != name:
            topic = topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            continue
        leader, leader_epoch = topic.partitions[number].leader, topic.partitions[number].leader_epoch
        if leader not in nodes or (state.retry_at_ms > now_ms and state.failed_in == leader_epoch):
            continue
        reader = leader if state.replica < 0 else state.reader(leader, now_ms, nodes)
        if reader in asking:
            continue
        if state.high_watermark < 0 and reader in sessions and place in sessions[reader].known:
            sessions[reader].begin_anew()  # the broker sent the high watermark before, and would not send it again
        topic_id = topic.topic_id
        if state.topic_id != topic_id:
            state.look_at(topic_id)
        state.asked_of = reader
        wanted = by_node.get(reader)
        if wanted is None:
            wanted = by_node[reader] = {}
        wanted[place] = Asked(state.fetch_offset, state.version, state.fetch_epoch, leader_epoch, topic_id)
    return [_call_in_session(node, wanted, sessions, settings) for node, wanted in by_node.items()]


def _call_in_session(
    node_id: int,
    wanted: Mapping[TopicPartition, Asked],
    sessions: dict[int, FetchSessionHandler[TopicPartition, Asked]],
    settings: ConsumerSettings,
) -> FetchCall:
    session = sessions.get(node_id)
    if session is None:
        session = sessions[node_id] = FetchSessionHandler()
    changes = session.changes_to(wanted)
    with_ids = has_ids(changes.named if session.by_topic_id else wanted)
    replaced = any(place in changes.named for place, _ in changes.forgotten)
    if with_ids != session.by_topic_id or replaced:
        session.identify(by_topic_id=with_ids)
        session.begin_anew()  # with names (Fetch 12), a broker would forget the new topic together with the old one
        changes = session.changes_to(wanted)
    session.tell(changes)
    request = _request(changes, session.id, session.epoch, settings, settings.fetch_max_bytes, settings.client_rack)
    return FetchCall(node_id, request, wanted, session.names, None if with_ids else LAST_VERSION_WITH_NAMES)


def has_ids(asked: Mapping[TopicPartition, Asked]) -> bool:
    """Tell whether all topics can be asked for by their ids."""
    return all(one.topic_id != ZERO_UUID for one in asked.values())


def without_leader(positions: Positions, view: ClusterView) -> bool:
    """Tell whether some partition has no known leader, so that fresh metadata is needed."""
    return any(view.leader_of(topic_partition) is None for topic_partition in positions.partitions)


def fetch_call(
    node_id: int, asked: Mapping[TopicPartition, Asked], settings: FetchSettings, most_bytes: int
) -> FetchCall:
    """Return a request for these partitions, without a session; the answer has at most `most_bytes`."""
    request = _request(Changes(dict(asked), []), NO_SESSION, FINAL_EPOCH, settings, most_bytes)
    names = {one.topic_id: topic for (topic, _), one in asked.items()}
    return FetchCall(node_id, request, asked, names, None if has_ids(asked) else LAST_VERSION_WITH_NAMES)


def last_request(session: FetchSessionHandler[TopicPartition, Asked]) -> FetchRequest:
    """Return the request that ends a session."""
    return FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=0,
        session_id=session.id,
        session_epoch=FINAL_EPOCH,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )


def _request(
    changes: Changes[TopicPartition, Asked],
    session_id: int,
    session_epoch: int,
    settings: FetchSettings,
    most_bytes: int,
    rack: str = "",
) -> FetchRequest:
    """Return a FetchRequest. `rack` is the consumer's, which lets leaders name another replica to read from."""
    topics: dict[str, FetchTopic] = {}
    for (name, number), asked in changes.named.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=asked.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.offset,
                last_fetched_epoch=asked.last_epoch,
                partition_max_bytes=settings.max_partition_fetch_bytes,
            )
        )
    return FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=most_bytes,
        isolation_level=settings.isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=changes.forgotten_topics(),
        rack_id=rack,
    )


def partitions_of(call: FetchCall, answer: FetchResponse) -> dict[TopicPartition, PartitionData]:
    """Return the parts of an answer by partition, without partitions that were not asked for."""
    found: dict[TopicPartition, PartitionData] = {}
    for topic in answer.responses:
        name = topic.topic or call.names.get(bytes(topic.topic_id), "")
        for one in topic.partitions:
            topic_partition = TopicPartition(name, one.partition_index)
            if topic_partition in call.asked:
                found[topic_partition] = one
    return found


def out_of_step(call: FetchCall, answer: FetchResponse, found: Mapping[TopicPartition, PartitionData]) -> str:
    """Return in words how the answer shows that broker and client differ about the session; "" when it does not."""
    strangers = sum(len(topic.partitions) for topic in answer.responses) - len(found)
    if strangers:
        return f"{strangers} partitions in the answer were not asked for"
    missing = len(call.asked) - len(found)
    if not missing or not call.names_all or answer.throttle_time_ms:  # when throttled, an answer has none (KIP-219)
        return ""
    return f"{missing} partitions are missing in the answer"


ASK_AGAIN = RETRIABLE - {ErrorCode.CORRUPT_MESSAGE} | {ErrorCode.UNKNOWN_SERVER_ERROR}
"""Errors after which to ask again, after a pause and with fresh metadata. A batch that a broker finds damaged will be
damaged the next time, too. An unexpected error, or one that is newer than our table, may not recur (Java's
FetchCollector asks again too)."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Verdict: there are records."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class NothingNew:
    """Verdict: there are no records yet; for consumers the log ends at `high_watermark`."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Verdict: the offset that was asked for is not in the log, or no longer."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """Verdict: from `offset` on, the leader's log differs from what was read; before that its epoch is `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Verdict: the leader names a replica to read from (KIP-392)."""

    replica: int


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Verdict: ask again after a pause, with fresh metadata."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Refused:
    """Verdict: the application gets the error; asking again would give the same."""

    error: Exception


Verdict = Arrived | NothingNew | OutOfRange | Diverged | ReadFrom | AskAgain | Refused


def judge(topic_partition: TopicPartition, asked: Asked, data: PartitionData, isolation: int, limit: str) -> Verdict:
    """Return what one partition's part of an answer means. `limit` names the setting that bounds it, with its value."""
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
    return _judge_error(topic_partition, asked, error)


def _judge_error(topic_partition: TopicPartition, asked: Asked, error: ErrorCode) -> Verdict:
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
        said = f"{topic_partition} from offset {asked.offset}: damaged records: {error}"
        return Refused(CorruptRecords(said, topic_partition=topic_partition, offset=asked.offset))
    if not chunk.empty:
        return Arrived(chunk)
    return Refused(ClientError(f"{topic_partition} at offset {asked.offset}: the batch there is larger than {limit}"))


UNDEFINED = -1


def unvalidated(call: FetchCall, positions: Positions) -> dict[TopicPartition, Asked]:
    """Return those of a call's partitions whose last epoch is known and whose position the leader has not confirmed."""
    found = {}
    for topic_partition, asked in call.asked.items():
        state = positions.partitions.get(topic_partition)
        if state is not None and asked.last_epoch >= 0 and state.valid_in != asked.leader_epoch:
            found[topic_partition] = asked
    return found


def epochs_request(asked: Mapping[TopicPartition, Asked]) -> OffsetForLeaderEpochRequest:
    """Return a request that asks where the epochs of these partitions' last records end."""
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
    """Return a verdict for each partition of an answer: None if its position is confirmed (Java:
    maybeCompleteValidation).

    A position whose epoch the leader does not know is out of range: all records of that epoch are gone.
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
                verdicts[topic_partition] = _judge_error(topic_partition, question, error)
            elif UNDEFINED in (one.end_offset, one.leader_epoch):
                verdicts[topic_partition] = OutOfRange()
            elif one.end_offset < question.offset or one.leader_epoch < question.last_epoch:
                verdicts[topic_partition] = Diverged(min(one.end_offset, question.offset), one.leader_epoch)
            else:
                verdicts[topic_partition] = None
    return verdicts
