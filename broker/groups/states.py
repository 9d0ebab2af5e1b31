"""The states of a group and the legal ways between them.

Empty                no members; perhaps offsets
PreparingRebalance   members are expected to (re)join; answers to JoinGroup are held back
CompletingRebalance  a generation is chosen; the leader's assignment is awaited; answers to SyncGroup are held back
Stable               the assignment is stored and handed out
Dead                 deleted, or moved to another coordinator; the object is of no use any more
"""

from enum import StrEnum


class GroupState(StrEnum):
    """Its value is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""From which states a state may be entered."""
