"""The states of a membership, what may follow what, what a coordinator's answers mean, and what others are asked to do.

OUTSIDE ─ PREPARING ─ JOINING ─ COUNTING ─ SYNCING ─ ADOPTING ─ STABLE
   ↑          ↑ the application  │  only the leader     ↑ the application  │
   │          │ gives up         └────────────↑         │ gets its own     │
   └──────────┴────────────────────────────────────────────────────────────┘

No I/O: steps are for the driver on the loop, turns for the application inside `poll`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.client.consumer.assignors import Assignor
from odradek.client.consumer.config import ConsumerSettings, assignors, cooperative
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest


class State(Enum):
    """State of a member within its group."""

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
"""States on the way into a generation."""

HOLDING = frozenset({State.PREPARING, State.ADOPTING, State.STABLE})
"""States in which a member's partitions are its own in the present generation, so that it sends heartbeats and may
commit; also while the application has the turn, whose callbacks may so take as long as max.poll.interval.ms."""

DECIDED = HOLDING | {State.SYNCING}
"""A leader's decision stands."""


class Outcome(Enum):
    """Meaning of an answer for the membership."""

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
    """Return what an error means; FATAL is what is not in the table and may not pass, as FENCED_INSTANCE_ID."""
    return OUTCOMES.get(error, Outcome.AGAIN if error in RETRIABLE else Outcome.FATAL)


def outcome_of_heartbeat(error: ErrorCode) -> Outcome:
    """Return what an error of a Heartbeat means. A broker's own fault says nothing of the member, and its partitions
    stay its own: the next heartbeat tells, or the end of the session (Java: HeartbeatThread, failHeartbeat)."""
    return Outcome.AGAIN if error is ErrorCode.UNKNOWN_SERVER_ERROR else outcome_of(error)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings that a membership obeys."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    max_poll_interval_ms: int
    heartbeat_interval_ms: int
    retry_backoff_ms: float
    assignors: Sequence[Assignor]
    cooperative: bool


def member_settings(config: ConsumerSettings) -> MemberSettings:
    """Settings of a consumer that has a group."""
    assert config.group_id is not None
    strategies = assignors(config)
    return MemberSettings(
        config.group_id,
        config.group_instance_id,
        config.session_timeout_ms,
        config.max_poll_interval_ms,
        config.heartbeat_interval_ms,
        config.retry_backoff_ms,
        strategies,
        cooperative(strategies),
    )


# -- for the driver ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Step: wait until a monotonic time, or until something is reported."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Step: look the coordinator up, then `coordinator_found` or `failed`."""


@dataclass(frozen=True, slots=True)
class Join:
    """Step: send the JoinGroup to the coordinator, then `joined` or `failed`."""

    request: JoinGroupRequest


@dataclass(frozen=True, slots=True)
class Count:
    """Step: get the partition counts of these topics, then `counted`; this member is the leader."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sync:
    """Step: send the SyncGroup, then `synced` or `failed`."""

    request: SyncGroupRequest


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Step: send the Heartbeat, then `beaten` or `failed`."""

    request: HeartbeatRequest


@dataclass(frozen=True, slots=True)
class Leave:
    """Step: send the LeaveGroup, then `left`; the answer does not matter."""

    request: LeaveGroupRequest
    reason: str


Step = WaitUntil | FindCoordinator | Join | Count | Sync | Heartbeat | Leave


# -- for the application -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Turn of the application before joining: `revoked` are given up, `lost` belong to others already."""

    revoked: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Turn of the application after joining: first give up `revoked`, then take `added`; `all` is what it has then."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    all: tuple[TopicPartition, ...]


Turn = Prepare | Adopt
