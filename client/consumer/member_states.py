"""Tables of a membership: its states, their order, the meaning of a coordinator's answers, and its steps and turns.

OUTSIDE ─ PREPARING ─ JOINING ─ COUNTING ─ SYNCING ─ ADOPTING ─ STABLE
   ↑          ↑ the application  │  only the leader     ↑ the application  │
   │          │ gives up         └────────────↑         │ gets its own     │
   └──────────┴────────────────────────────────────────────────────────────┘

No I/O. A step is what the driver does on the loop, a turn what the application does inside `poll`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.client.consumer.assignors.assignment import Assignor
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
"""States in which a member owns its partitions in the present generation, so that it sends heartbeats and may commit.
It does so during a turn as well, so that callbacks may take as long as max.poll.interval.ms."""

DECIDED = HOLDING | {State.SYNCING}
"""States in which a leader's assignment counts."""


class Outcome(Enum):
    """Meaning of an answer for the membership."""

    GOOD = "go on"
    REJOIN = "the group rebalances: join again with the same member id"
    OUTDATED = "the generation is over: its partitions are lost, join again with the same member id"
    FORGOTTEN = "the group no longer knows this member: its partitions are lost, join as a new one"
    COORDINATOR = "the coordinator is another broker, or not available: look it up"
    AGAIN = "ask again after a pause"
    FATAL = "asking again would not help"


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
    """Return what an error means. One that is not in the table, such as FENCED_INSTANCE_ID, is FATAL, unless it is
    retriable."""
    return OUTCOMES.get(error, Outcome.AGAIN if error in RETRIABLE else Outcome.FATAL)


def outcome_of_heartbeat(error: ErrorCode) -> Outcome:
    """Return what an error of a Heartbeat means. UNKNOWN_SERVER_ERROR says nothing about the member, which keeps its
    partitions: the next heartbeat or the end of the session decides (Java: HeartbeatThread, failHeartbeat)."""
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
    rack: str | None = None


def member_settings(config: ConsumerSettings) -> MemberSettings:
    """Return the membership's settings of a consumer that has a group.id."""
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
        config.client_rack or None,
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
    """Turn of the application before joining: it gives up `revoked`; `lost` belong to others already."""

    revoked: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Turn of the application after joining: it gives up `revoked`, then takes `added`, and then has `all`."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    all: tuple[TopicPartition, ...]


Turn = Prepare | Adopt
