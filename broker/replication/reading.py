"""Reading several partitions within one fetch's limits (KIP-74)."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from odradek.broker.log.local_log import LogSlice
from odradek.broker.replication import conversion
from odradek.broker.replication.fetch_sessions import CachedPartition
from odradek.broker.replication.partition import NO_EPOCH, Partition
from odradek.broker.replication.throttling import Throttle
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, PartitionData
from odradek.protocol.primitives import ZERO_UUID, Records
from odradek.world.files import FileRange

CONSUMER = -1
LAST_VERSION_WITHOUT_STORAGE_ERROR = 5
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_WITH_LEADER_HINT = 16
FIRST_VERSION_WITH_TOPIC_IDS = 13


class FetchParameters(NamedTuple):
    """Who fetches, and within which limits."""

    version: int
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool = False
    """Isolation level read_committed: nothing of open transactions, and told which were aborted (KIP-98)."""

    @property
    def as_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def wants_messages(self) -> bool:
        """A reader of before Kafka 0.11, who does not know record batches."""
        return self.version < conversion.FIRST_VERSION_WITH_BATCHES


class PartitionsRead(NamedTuple):
    """One round over the partitions."""

    answers: list[tuple[CachedPartition, PartitionData]]
    total_bytes: int
    failed: bool
    """Some partition has an error or a diverging epoch: to be answered at once."""


def read_partitions(
    partition_of: Callable[[str, int], Partition | ErrorCode],
    wanted: Iterable[CachedPartition],
    parameters: FetchParameters,
    throttle: Throttle,
) -> PartitionsRead:
    """Read each partition in turn while `max_bytes` lasts; the first one that has anything gives one whole batch.

    `throttle`: what followers may read; a partition that it holds back is answered as if it had nothing new.
    """
    answers = []
    total, left, failed = 0, parameters.max_bytes, False
    first = True
    for partition in wanted:
        answer = _read_one(partition_of, partition, parameters, throttle, left, first)
        answers.append((partition, answer))
        if answer.error_code or answer.diverging_epoch is not None:
            failed = True
            continue
        assert answer.records is not None
        size = len(answer.records)
        if size:
            # when what is over the limit is cut in the end, every partition gives a whole batch to be converted
            first = parameters.version <= conversion.LAST_VERSION_WITH_HARD_LIMIT
            total += size
            left = max(left - size, 0)
            if not first and not isinstance(answer.records, FileRange):
                left = min(left, max(conversion.CONVERTED_BYTES_MAX - total, 0))
    return PartitionsRead(answers, total, failed)


def _read_one(
    partition_of: Callable[[str, int], Partition | ErrorCode],
    wanted: CachedPartition,
    parameters: FetchParameters,
    throttle: Throttle,
    left: int,
    whole_first_batch: bool,
) -> PartitionData:
    if not wanted.topic and wanted.topic_id != ZERO_UUID:
        return _refusal(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = partition_of(wanted.topic, wanted.index)
    if isinstance(partition, ErrorCode):
        return _refusal(wanted, partition, parameters.version)
    if wanted.topic_id not in (partition.topic_id, ZERO_UUID) and parameters.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return _refusal(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
    error = partition.check_leadership(wanted.leader_epoch)
    if error is not ErrorCode.NONE:
        return _refusal(wanted, error, parameters.version, partition)
    if parameters.version < FIRST_VERSION_WITH_ZSTD and partition.log.config.compression_type == "zstd":
        return _refusal(wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if parameters.wants_messages and not (parameters.as_follower or partition.log.config.message_downconversion_enable):
        return _refusal(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        if wanted.last_fetched_epoch != NO_EPOCH:
            diverging = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
            if diverging is not None:
                return _answer(partition, b"", EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]))
        records, aborted = _records(partition, wanted, parameters, min(wanted.max_bytes, left), whole_first_batch)
    except KafkaError as refused:
        return _refusal(wanted, refused.code, parameters.version, partition)
    if parameters.as_follower and parameters.replica_id not in partition.committed_isr:
        records = b"" if throttle.holds_back(partition) else records
    return _answer(partition, records, aborted=aborted)


def _records(
    partition: Partition, wanted: CachedPartition, parameters: FetchParameters, max_bytes: int, whole_first_batch: bool
) -> tuple[FileRange | bytes, list[AbortedTransaction] | None]:
    """In a format that the reader knows; and which transactions in them were aborted. Raises KafkaError."""
    offset, as_follower, committed = wanted.fetch_offset, parameters.as_follower, parameters.committed
    found = partition.read(
        offset, max_bytes, as_follower=as_follower, whole_first_batch=whole_first_batch, committed=committed
    )
    if parameters.wants_messages:
        version = parameters.version
        return conversion.as_messages(
            partition, found, offset, wanted.max_bytes, version, as_follower=as_follower
        ), None
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
    records: Records,
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
    """Records are empty, never null: clients trip over null (KAFKA-18646)."""
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
