"""Truncation of a follower's log, where it is not, or may not be, the log of its leader."""

import logging
from collections.abc import Callable, Iterable

from odradek.broker.log.batches import Batch, checked_batches
from odradek.broker.log.log import Log
from odradek.broker.replication.partition import Partition
from odradek.journal.journal import Journal
from odradek.protocol.messages.fetch import EpochEndOffset
from odradek.protocol.primitives import Records
from odradek.protocol.record_batch import MAGIC_V2

logger = logging.getLogger(__name__)

UNDEFINED = -1
CUTS_MAX = 100
"""Most cuts in search of an offset at which no transaction is open: each takes some milliseconds."""


def truncation_offset(
    leader_epoch: int,
    leader_end_offset: int,
    *,
    own_end_offset_for: Callable[[int], tuple[int, int]],
    log_end_offset: int,
    high_watermark: int,
) -> int:
    """Return the offset from which the follower's records are not the leader's (KIP-101, KIP-279, KIP-595).

    The high watermark alone is never enough: a follower that cuts there can lose what another leader has acknowledged,
    or keep what nobody else has. Kafka: AbstractFetcherThread.getOffsetTruncationState.

    `leader_epoch` and `leader_end_offset` are the largest epoch not above ours that the leader knows, and where it
    ended there. `own_end_offset_for(epoch)` answers the same question of our own log. Cutting at the result may need
    to be followed by another question (our next fetch asks it by itself, with the epoch that is then our last).
    """
    if leader_end_offset == UNDEFINED:
        return min(high_watermark, log_end_offset)
    if leader_epoch == UNDEFINED:
        return min(leader_end_offset, log_end_offset)
    own_epoch, own_end_offset = own_end_offset_for(leader_epoch)
    if own_end_offset == UNDEFINED:
        return min(leader_end_offset, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, leader_end_offset, log_end_offset)


class FollowerTruncation:
    """Truncates replicas that follow one leader. The journal is told of what was cut.

    All methods raise KafkaError: StorageFailure, CORRUPT_MESSAGE.
    """

    def __init__(self, leader_id: int, journal: Journal | None) -> None:
        self._leader_id, self._journal = leader_id, journal

    def to_common_history(self, partition: Partition, leaders: EpochEndOffset) -> None:
        """Truncate to where our history and the leader's part; `leaders` is what its answer says of that."""
        own = partition.log
        offset = truncation_offset(
            leaders.epoch,
            leaders.end_offset,
            own_end_offset_for=own.end_offset_for_epoch,
            log_end_offset=own.log_end_offset,
            high_watermark=partition.high_watermark,
        )
        if offset < own.log_end_offset:
            logger.info(
                "%s: our log diverges from the leader's at epoch %d offset %d: truncating from %d to %d",
                partition, leaders.epoch, leaders.end_offset, own.log_end_offset, offset,
            )  # fmt: skip
        else:  # we led a later epoch, or know of one, in which nothing was written
            logger.info(
                "%s: our log is the leader's up to epoch %d: nothing is cut at %d", partition, leaders.epoch, offset
            )
        self._truncate(partition, offset)

    def into_range(self, partition: Partition, log_start: int, log_end: int) -> bool:
        """Bring a log whose end was out of the leader's range back into it (Kafka: handleOffsetOutOfRange); tell
        whether it was out of it.

        If our end is above the leader's, an unclean election took place and our surplus goes. If it is below the
        leader's start, the leader has deleted what we lack, and we begin again at its start.
        """
        own_end = partition.log.log_end_offset
        if own_end > log_end:
            logger.warning("%s: ends at %d, the leader at %d: truncating", partition, own_end, log_end)
            self._truncate(partition, log_end)
        elif own_end < log_start:
            logger.info("%s: the leader's log starts at %d: starting over there", partition, log_start)
            partition.start_over_at(log_start)
        return not log_start <= own_end <= log_end

    def _truncate(self, partition: Partition, offset: int) -> None:
        """Truncate; the journal knows how much of it was below our high watermark, and so was perhaps acknowledged."""
        end, acknowledged = partition.log.log_end_offset, partition.high_watermark
        partition.truncate_to(offset)
        if self._journal is not None and offset < end:
            self._journal.note(
                "truncation", f"{partition.topic}-{partition.index}", leader=self._leader_id,
                leader_epoch=partition.leader_epoch, log_end_offset=end, to=offset,
                below_high_watermark=max(0, acknowledged - offset),
            )  # fmt: skip


def truncate_doubtful(partition: Partition, doubtful_until: int, records: Records, leader_high_watermark: int) -> bool:
    """Truncate to where no transaction is open, when markers may be gone from what the leader sends; tell whether that
    was done, and nothing is to be appended.

    Transactions that began before `doubtful_until` may lack their markers. This is done only while our log ends below
    the leader's high watermark: only what is below that is compacted, and no leader counts on such a log yet.
    Raises KafkaError: StorageFailure, CORRUPT_MESSAGE.
    """
    own = partition.log
    begun, end = own.producers.first_ongoing_offset, own.log_end_offset
    if begun is None or begun >= doubtful_until or end >= leader_high_watermark:
        return False
    if not may_lack_markers(checked_batches(memoryview(records), partition.leader_epoch), end):
        return False
    try:
        drop_open_transactions(own)
    finally:  # it may have cut more than once before it failed
        partition.high_watermark = min(partition.high_watermark, own.log_end_offset)
    logger.warning(
        "%s: the leader may have compacted away, behind %d, the marker of what began at %d: copying from %d again",
        partition, end, begun, own.log_end_offset,
    )  # fmt: skip
    return True


def may_lack_markers(batches: Iterable[Batch], offset: int) -> bool:
    """Tell whether markers of transactions may be gone from what a leader sends of its log from `offset` on.

    They may be wherever compaction has removed or emptied a whole batch. A follower that was away for longer than
    delete.retention.ms, and has records of a transaction that the leader no longer has, never learns how it ended. The
    transaction would stay open there, and readers of committed data would stop at it for ever; or the marker of its
    producer's next one would end it, and records that were aborted would count as committed. Kafka's followers do not
    notice.
    """
    for batch in batches:
        if batch.magic == MAGIC_V2 and (batch.base_offset > offset or not batch.record_count):
            return True
        offset = batch.last_offset + 1
    return False


def drop_open_transactions(log: Log) -> None:
    """Truncate a log to where no transaction is open, so that whatever is left has its marker.

    A single cut, where the first open one begins, is not enough: it also removes markers of transactions that began
    before it. Where some transaction is open at every offset, everything goes. Raises KafkaError: StorageFailure,
    CORRUPT_MESSAGE.
    """
    for _ in range(CUTS_MAX):
        begun = log.producers.first_ongoing_offset
        if begun is None:
            return
        if begun <= log.log_start_offset:
            break
        log.truncate_to(begun)
    log.truncate_fully_and_start_at(log.log_start_offset)
