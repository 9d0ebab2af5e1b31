"""Where a follower cuts its log because its leader's is another."""

from collections.abc import Callable, Iterable

from odradek.broker.log.batches import Batch
from odradek.broker.log.log import Log
from odradek.protocol.record_batch import MAGIC_V2

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


def may_lack_markers(batches: Iterable[Batch], offset: int) -> bool:
    """Tell whether markers of transactions may be gone from what a leader sends of its log from `offset` on.

    So it is where compaction has taken or emptied a whole batch. A follower that was away for longer than
    delete.retention.ms, and has records of a transaction that the leader has not any more, does not learn its end. The
    transaction would stay open there, and readers of committed data stop at it for ever; or end with the marker of the
    next one of its producer, so that records that were aborted would count as committed. Kafka's followers do not
    notice.
    """
    for batch in batches:
        if batch.magic == MAGIC_V2 and (batch.base_offset > offset or not batch.record_count):
            return True
        offset = batch.last_offset + 1
    return False


def drop_open_transactions(log: Log) -> None:
    """Truncate a log to where no transaction is open, so that whatever is left has its marker.

    To the beginning of those that are open is not enough: markers behind that go as well, of transactions that began
    before it. Where some are always open, all goes. Raises KafkaError: StorageFailure, CORRUPT_MESSAGE.
    """
    for _ in range(CUTS_MAX):
        begun = log.producers.first_ongoing_offset
        if begun is None:
            return
        if begun <= log.log_start_offset:
            break
        log.truncate_to(begun)
    log.truncate_fully_and_start_at(log.log_start_offset)
