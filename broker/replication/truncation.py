"""Where a follower cuts its log because its leader's is another."""

from collections.abc import Callable

UNDEFINED = -1


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


def lacks_marker(
    first_ongoing_offset: int,
    *,
    asked_offset: int,
    log_end_offset: int,
    leader_high_watermark: int,
    leader_last_stable_offset: int,
) -> bool:
    """Tell whether a follower keeps a transaction open whose marker the leader has compacted away.

    So it is with a follower that was away for longer than delete.retention.ms: it has the records, all of which newer
    ones have replaced or an abort has undone, and what it copies tells it nothing of the end. If it led, readers of
    committed data would stop there for ever. Kafka's followers do not notice.

    `first_ongoing_offset` is where the first open transaction of our log begins, which ends at `log_end_offset` since
    an answer to a fetch from `asked_offset`. The leader's offsets are those of that answer: a transaction before its
    last stable offset has ended, with a marker below its high watermark. The answer must be the one that leads up to
    the high watermark: then all markers that exist are here, and the leader does not count on our log yet, since its
    watermark lay above what we had asked for, so that truncating takes nothing from what is replicated.
    """
    return first_ongoing_offset < leader_last_stable_offset and asked_offset < leader_high_watermark <= log_end_offset
