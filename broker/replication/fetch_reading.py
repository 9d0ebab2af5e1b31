"""Reading what a Fetch asks for: several partitions within one request's limits (KIP-74).

A leader serves followers and consumers. A follower's fetch also says how far it has come, which moves the high
watermark and the ISR. A replica that only follows serves consumers too, up to the high watermark it knows: from
version 11 on (KIP-392), and debugging ones (replica id -2, Kafka's ReplicaVerificationTool) in any version. With
`replica.selector.class` a leader sends consumers to the replica in their rack, and answers followers at once when the
high watermark has moved, so that those can serve what is new.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from odradek.broker.log.local_log import LogSlice
from odradek.broker.replication import conversion
from odradek.broker.replication.conversion import Unconverted
from odradek.broker.replication.fetch_sessions import CachedPartition, OpenedFetch
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.replication.replica_selection import LEADER
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    FIRST_VERSION_FROM_FOLLOWERS,
    FIRST_VERSION_WITH_BATCHES,
    FIRST_VERSION_WITH_LEADER_HINT,
    FIRST_VERSION_WITH_TOPIC_IDS,
    FIRST_VERSION_WITH_ZSTD,
    LAST_VERSION_WITH_HARD_LIMIT,
    LAST_VERSION_WITHOUT_STORAGE_ERROR,
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)
from odradek.protocol.primitives import ZERO_UUID, Records
from odradek.protocol.steps import Steps
from odradek.protocol.topic_names import PartitionKey
from odradek.world.files import FileRange

AT_ONCE: Final = 100
"""Number of partitions that are read without a pause: a millisecond, several if a file must be opened for each."""

NO_FAILURES_OF_BROKER = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR})
"""Refusals of a read that Kafka does not count as failed requests. Source: ReplicaManager.readFromLog."""


MayRead: TypeAlias = Callable[[CachedPartition], bool] | None
"""Tells whether the reader may have a partition; None: every one."""


@dataclass(slots=True)
class FetchParameters:
    """Identity, rights and limits of a Fetch."""

    version: int
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool = False
    """True with isolation level read_committed: the reader gets nothing of open transactions, and is told which were
    aborted (KIP-98)."""
    may_read: MayRead = None
    rack: str = ""
    """Rack of the consumer, if it is to be sent to the nearest replica (KIP-392)."""
    listener: str = ""
    """Name of the listener at which it reaches brokers."""

    as_follower: bool = field(init=False)
    wants_messages: bool = field(init=False)
    """True if the reader is from before Kafka 0.11 and does not know record batches."""

    def __post_init__(self) -> None:
        self.as_follower = self.replica_id >= 0  # looked at for each partition
        self.wants_messages = self.version < FIRST_VERSION_WITH_BATCHES


@dataclass(slots=True)
class PartitionsRead:
    """Partitions of a Fetch that have been read so far."""

    answers: list[tuple[CachedPartition, PartitionData]] = field(default_factory=list)
    total_bytes: int = 0
    urgent: bool = False
    """True if some partition has an error, a diverging epoch, a log start that a follower does not know, or more in a
    later segment: to be answered at once."""
    failed: bool = False
    """True if some partition has an error."""
    unconverted: bool = False
    """True if records are in a format that the reader does not know: `converted` is to come before the answer."""

    def ends(self) -> dict[PartitionKey, tuple[int, int]]:
        """Return the offsets up to which each partition may be read: high watermark and last stable offset."""
        return {
            (wanted.topic, wanted.index): (answer.high_watermark, answer.last_stable_offset)
            for wanted, answer in self.answers
        }


class Room(NamedTuple):
    """Room in the answer for the next partition."""

    max_bytes: int
    whole_first_batch: bool
    """True if the partition gives its first batch whole, even if that is larger."""


def read_partitions(
    replicas: ReplicaManager,
    opened: OpenedFetch,
    parameters: FetchParameters,
    partitions: Iterable[CachedPartition],
    *,
    arrived: bool,
    before: PartitionsRead | None = None,
) -> PartitionsRead:
    """Read these partitions of a request, in turn, while `max_bytes` lasts; the first with data gives one whole batch
    (KIP-74).

    `arrived`: the request has just come, so a follower's progress is noted; it says nothing new in the later rounds of
    a request that waits. `before`: what was read of the request's partitions before these, which are added to it.
    """
    read = PartitionsRead() if before is None else before
    room = None
    answers = []
    for wanted in partitions:
        room = room or _room(read, parameters)
        answer = _read_one(replicas, wanted, parameters, room)
        answers.append((wanted, answer))
        records: Any = answer.records
        if answer.error_code:
            read.urgent = read.failed = True
        elif answer.diverging_epoch is not None:
            read.urgent = True
        elif records:
            read.total_bytes += len(records)
            read.unconverted = read.unconverted or isinstance(records, Unconverted)
            room = None
        elif parameters.rack and answer.preferred_read_replica != LEADER:
            read.urgent = True
        if parameters.as_follower and not read.urgent:
            read.urgent = _is_news_to_follower(replicas, opened, wanted, answer)
    read.answers += answers
    if arrived and parameters.as_follower:
        refused = replicas.note_follower_fetch(parameters.replica_id, parameters.replica_epoch, answers, opened.session)
        read.urgent, read.failed = read.urgent or refused, read.failed or refused
    if read.total_bytes < parameters.min_bytes and not read.urgent:
        read.urgent = any(
            answer.records and _has_later_segment(replicas, wanted, parameters) for wanted, answer in answers
        )
    return read


def _room(read: PartitionsRead, parameters: FetchParameters) -> Room:
    """Return what is left of the request's limit, and of what is converted for one answer.

    Up to version 2 what is over the limit is cut after the conversion, so every partition gives a whole batch to it.
    """
    if not read.total_bytes:
        return Room(parameters.max_bytes, True)
    whole_first_batch = parameters.version <= LAST_VERSION_WITH_HARD_LIMIT
    bounded = read.unconverted and not whole_first_batch
    limit = min(parameters.max_bytes, conversion.CONVERTED_BYTES_MAX) if bounded else parameters.max_bytes
    return Room(max(limit - read.total_bytes, 0), whole_first_batch)


def _is_news_to_follower(
    replicas: ReplicaManager, opened: OpenedFetch, wanted: CachedPartition, answer: PartitionData
) -> bool:
    """Tell whether a follower must hear at once where its leader's log begins, or, if followers serve consumers, how
    far the high watermark is."""
    serves = replicas.selector is not None and opened.session is not None
    if serves and answer.high_watermark > wanted.high_watermark_sent:
        return True
    sent, begins = wanted.log_start_sent, answer.log_start_offset
    return sent >= 0 and begins > wanted.log_start_offset and begins != sent


def read_in_steps(
    replicas: ReplicaManager, opened: OpenedFetch, parameters: FetchParameters, partitions: Sequence[CachedPartition]
) -> Steps[PartitionsRead]:
    """Read the partitions of a request that has just come, `AT_ONCE` of them in a step.

    Operations that wait for a follower's progress are tried once for each step; none of them may call this.
    """
    read = PartitionsRead()
    for first in range(0, len(partitions), AT_ONCE):
        some = partitions[first : first + AT_ONCE]
        replicas.purgatory.hold_touches()
        try:
            read_partitions(replicas, opened, parameters, some, arrived=True, before=read)
        finally:
            replicas.purgatory.release_touches()
        yield
    return read


def converted(read: PartitionsRead, replicas: ReplicaManager, parameters: FetchParameters) -> Steps[PartitionsRead]:
    """Convert records whose format the reader does not know. A conversion that fails is an error of its partition."""
    answers, failed = [], read.failed
    for wanted, answer in read.answers:
        records: Any = answer.records
        if isinstance(records, Unconverted):
            try:
                answer.records = yield from records.convert()
            except KafkaError as refused:
                failed = True
                answer = _refused_read(
                    replicas.partitions.get((wanted.topic, wanted.index)), wanted, refused, parameters
                )
        answers.append((wanted, answer))
    total = sum(len(answer.records or b"") for _, answer in answers)
    return PartitionsRead(answers, total, read.urgent or failed, failed)


def _has_later_segment(replicas: ReplicaManager, wanted: CachedPartition, parameters: FetchParameters) -> bool:
    """Tell whether there is more to read in a later segment, beyond one answer. Source: DelayedFetch.scala."""
    partition = replicas.partitions[wanted.topic, wanted.index]
    log = partition.log
    if parameters.as_follower:
        end = log.log_end_offset
    else:
        end = partition.last_stable_offset if parameters.committed else partition.high_watermark
    return log.segment_number(wanted.fetch_offset) < log.segment_number(end)


def _read_one(
    replicas: ReplicaManager, wanted: CachedPartition, parameters: FetchParameters, room: Room
) -> PartitionData:
    version = parameters.version
    if parameters.may_read is not None and not parameters.may_read(wanted):
        return _refusal(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not wanted.topic and (wanted.topic_id != ZERO_UUID or version >= FIRST_VERSION_WITH_TOPIC_IDS):
        return _refusal(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = replicas.partitions.get((wanted.topic, wanted.index))
    if partition is None:
        return _refusal(wanted, replicas.why_absent(wanted.topic, wanted.index), version)
    partition.counters.fetch_requests += 1
    error = _why_not_read(replicas, partition, wanted, parameters)
    if error is not ErrorCode.NONE:
        return _refusal(wanted, error, version, partition)
    try:
        return _read(replicas, partition, wanted, parameters, room)
    except KafkaError as refused:
        return _refused_read(partition, wanted, refused, parameters)


def _why_not_read(
    replicas: ReplicaManager, partition: Partition, wanted: CachedPartition, parameters: FetchParameters
) -> ErrorCode:
    """Return NONE if this reader may have records of this replica: by version, topic id and leadership."""
    version, as_follower = parameters.version, parameters.as_follower
    if version < FIRST_VERSION_WITH_ZSTD and not partition.offline:  # comes before all else, as in KafkaApis.scala
        config = partition.log.config
        if config.compression_type == "zstd":
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if parameters.wants_messages and not as_follower and not config.message_downconversion_enable:
            return ErrorCode.UNSUPPORTED_VERSION
    if wanted.topic_id not in (partition.topic_id, ZERO_UUID) and version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    debugging = parameters.replica_id == DEBUGGING_REPLICA_ID
    or_follower = not as_follower and (version >= FIRST_VERSION_FROM_FOLLOWERS or debugging)
    if partition.check_leadership(wanted.leader_epoch, or_follower=or_follower) is not ErrorCode.NONE:
        return replicas.why_not_served(partition, wanted.leader_epoch)
    return ErrorCode.NONE


def _read(
    replicas: ReplicaManager, partition: Partition, wanted: CachedPartition, parameters: FetchParameters, room: Room
) -> PartitionData:
    """Answer with records, with where the reader's log diverges, or with the replica to read from.

    Raises KafkaError.
    """
    if wanted.last_fetched_epoch >= 0:
        diverging = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
        if diverging is not None:
            return _answer(partition, b"", EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]))
    if parameters.rack and partition.is_leader and replicas.selector is not None:
        nearest = replicas.selector.select(partition, parameters.rack, parameters.listener, wanted.fetch_offset)
        if nearest != LEADER:
            answer = _answer(partition, b"")
            answer.preferred_read_replica = nearest
            return answer
    records, aborted = _records(partition, wanted, parameters, room)
    outside = parameters.as_follower and parameters.replica_id not in partition.committed_isr
    if outside and replicas.throttling.serving.holds_back(partition):
        records = b""
    return _answer(partition, records, aborted=aborted)


def _refused_read(
    partition: Partition | None, wanted: CachedPartition, refused: KafkaError, parameters: FetchParameters
) -> PartitionData:
    if partition is None:
        return _refusal(wanted, refused.code, parameters.version)
    partition.counters.failed_fetch_requests += refused.code not in NO_FAILURES_OF_BROKER
    return _refusal(
        wanted, _error_for_reader(refused.code, partition, parameters.replica_id), parameters.version, partition
    )


def _error_for_reader(error: ErrorCode, partition: Partition, replica_id: int) -> ErrorCode:
    """Return NOT_LEADER_OR_FOLLOWER for a consumer that is ahead of a follower, to which old metadata has led it.

    With Kafka's OFFSET_OUT_OF_RANGE it would jump to where `auto.offset.reset` says."""
    if error is ErrorCode.OFFSET_OUT_OF_RANGE and replica_id == CONSUMER_REPLICA_ID and not partition.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error


def _records(
    partition: Partition, wanted: CachedPartition, parameters: FetchParameters, room: Room
) -> tuple[FileRange | bytes | Unconverted, list[AbortedTransaction] | None]:
    """Return records that the reader can use, and which transactions in them were aborted. Raises KafkaError."""
    offset, committed = wanted.fetch_offset, parameters.committed
    as_follower = parameters.as_follower
    found = partition.read(
        offset,
        min(wanted.max_bytes, room.max_bytes),
        to_the_end=as_follower,
        whole_first_batch=room.whole_first_batch,
        committed=committed,
    )
    if parameters.wants_messages:
        version = parameters.version
        return conversion.as_messages(partition, found, offset, wanted.max_bytes, version, to_the_end=as_follower), None
    aborted = _aborted(partition, offset, found) if committed else None
    if conversion.needs_batches(partition, found, as_follower=as_follower):
        return conversion.as_batches(partition, found), aborted
    return found.records, aborted


def _aborted(partition: Partition, offset: int, found: LogSlice) -> list[AbortedTransaction]:
    if found.segment is None:
        return []
    within = partition.log.aborted_within(offset, found, partition.last_stable_offset)
    return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in within]


def _answer(
    partition: Partition,
    records: Records | Unconverted,
    diverging: EpochEndOffset | None = None,
    aborted: list[AbortedTransaction] | None = None,
) -> PartitionData:
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=aborted,
        diverging_epoch=diverging,
        records=records,
    )


def _refusal(
    wanted: CachedPartition, error: ErrorCode, version: int = 0, partition: Partition | None = None
) -> PartitionData:
    """Answer with an error. Records are empty, never null: clients trip over null (KAFKA-18646)."""
    if error is ErrorCode.KAFKA_STORAGE_ERROR and version <= LAST_VERSION_WITHOUT_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = PartitionData(
        partition_index=wanted.index,
        error_code=error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )
    moved = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    if partition is not None and moved and version >= FIRST_VERSION_WITH_LEADER_HINT:
        answer.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return answer


class DelayedFetch:
    """A Fetch that waits until `min_bytes` can be read, a partition must be answered at once, or the deadline."""

    __slots__ = ("_done", "_min_bytes", "_read")

    def __init__(
        self, read: Callable[[], PartitionsRead], min_bytes: int, done: Callable[[PartitionsRead], None]
    ) -> None:
        self._read, self._min_bytes, self._done = read, min_bytes, done

    def try_complete(self) -> bool:
        read = self._read()
        if read.urgent or read.total_bytes >= self._min_bytes:
            self._done(read)
            return True
        return False

    def expire(self) -> None:
        self._done(self._read())
