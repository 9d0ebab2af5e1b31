"""When a committed offset is old enough to be forgotten (KIP-211, GroupMetadata.removeExpiredOffsets)."""

from odradek.broker.groups.offsets import NO_EXPIRY, CommittedOffset, OffsetTable, TopicPartition
from odradek.broker.groups.roster import Roster
from odradek.broker.groups.states import GroupState
from odradek.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE


def expired(roster: Roster, offsets: OffsetTable, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """The partitions whose offsets have expired.

    A group without members keeps its offsets for the retention since it became empty; a stable group of consumers keeps
    those of the topics that it reads, and others since their commit; a group that never had members (offsets committed
    by hand) since their commit; in all other groups nothing expires. A client's own retention overrides the time.
    """
    if roster.protocol_type is None:
        kept: frozenset[str] = frozenset()
        since_ms = None
    elif roster.state is GroupState.EMPTY:
        kept = frozenset()
        since_ms = roster.state_since_ms if roster.state_since_ms >= 0 else None
    elif (
        roster.state is GroupState.STABLE
        and roster.protocol_type == CONSUMER_PROTOCOL_TYPE
        and roster.subscribed_topics is not None
    ):
        kept = roster.subscribed_topics
        since_ms = None
    else:
        return []
    return [
        partition
        for partition, committed in offsets.items()
        if partition[0] not in kept
        and not offsets.is_staged(partition)
        and _is_over(committed, now_ms, retention_ms, since_ms)
    ]


def _is_over(committed: CommittedOffset, now_ms: int, retention_ms: int, since_ms: int | None) -> bool:
    if committed.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms
