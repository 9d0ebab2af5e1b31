"""The tables of a membership: its states, what may follow what, and what a coordinator's answers mean. Pure.

OUTSIDE ─ PREPARING ─ JOINING ─ COUNTING ─ SYNCING ─ ADOPTING ─ STABLE
   ↑          ↑ the application  │  only the leader     ↑ the application  │
   │          │ gives up         └────────────↑         │ gets its own     │
   └──────────┴────────────────────────────────────────────────────────────┘
"""

from collections.abc import Mapping
from enum import Enum

from odradek.protocol.errors import ErrorCode


class State(Enum):
    """Where a member is."""

    OUTSIDE = "outside"
    PREPARING = "preparing"
    JOINING = "joining"
    COUNTING = "counting"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"
    FATAL = "fatal"


VALID_PREVIOUS: Mapping[State, frozenset[State]] = {
    State.OUTSIDE: frozenset(State),
    State.PREPARING: frozenset({State.OUTSIDE, State.STABLE}),
    State.JOINING: frozenset({State.PREPARING, State.JOINING, State.COUNTING, State.SYNCING}),
    State.COUNTING: frozenset({State.JOINING}),
    State.SYNCING: frozenset({State.JOINING, State.COUNTING}),
    State.ADOPTING: frozenset({State.SYNCING}),
    State.STABLE: frozenset({State.ADOPTING}),
    State.FATAL: frozenset(State),
}

ENTERING = frozenset({State.JOINING, State.COUNTING, State.SYNCING})
"""On the way into a generation."""

HOLDING = frozenset({State.PREPARING, State.ADOPTING, State.STABLE})
"""What it has is its own in the present generation, so it sends heartbeats and may commit; also while the application
has the turn, whose callbacks may so take as long as max.poll.interval.ms."""

DECIDED = HOLDING | {State.SYNCING}
"""A leader's decision stands."""


class Outcome(Enum):
    """What an answer means for the membership."""

    GOOD = "go on"
    REJOIN = "the group rebalances: join again with the same member id"
    OUTDATED = "the generation is over: its partitions are lost, join again with the same member id"
    FORGOTTEN = "the group does not know this member any more: its partitions are lost, join as somebody new"
    COORDINATOR = "the coordinator is another one, or not there: find it"
    AGAIN = "ask again after a pause"
    FATAL = "nothing that asking again would mend"


OUTCOMES: Mapping[ErrorCode, Outcome] = {
    ErrorCode.NONE: Outcome.GOOD,
    ErrorCode.REBALANCE_IN_PROGRESS: Outcome.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Outcome.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Outcome.OUTDATED,
    ErrorCode.UNKNOWN_MEMBER_ID: Outcome.FORGOTTEN,
    ErrorCode.NOT_COORDINATOR: Outcome.COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Outcome.COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Outcome.COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Outcome.AGAIN,
}


def outcome_of(error: ErrorCode) -> Outcome:
    """Every error that is not in the table is FATAL: FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, …"""
    return OUTCOMES.get(error, Outcome.FATAL)
