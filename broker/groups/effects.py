"""What a group asks its shell to do, and the results that its members are answered with.

The shell carries effects out in the order in which they stand. A ticket is whatever a waiting request is answered by;
the group keeps it, hands it back in exactly one `AnswerJoin` or `AnswerSync`, and never calls it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode

NO_GENERATION = -1
UNKNOWN_MEMBER = ""
NO_LEADER = ""


class JoinedMember(NamedTuple):
    """One member as the leader is told of it: the metadata of the chosen protocol is opaque bytes."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to a JoinGroup, without the differences between versions."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_LEADER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to a SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinTicket = Callable[[JoinResult], object]
SyncTicket = Callable[[SyncResult], object]


class TimerKind(Enum):
    """Session timers are one per member (or pending member); the others one per group."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class AnswerJoin(NamedTuple):
    """Answer a JoinGroup."""

    ticket: JoinTicket
    result: JoinResult


class AnswerSync(NamedTuple):
    """Answer a SyncGroup."""

    ticket: SyncTicket
    result: SyncResult


class StartTimer(NamedTuple):
    """Call `Membership.expire` with the same kind and member after `delay_ms`; replaces one that runs already."""

    kind: TimerKind
    member_id: str
    delay_ms: int


class StopTimer(NamedTuple):
    """Forget that timer; harmless when there is none."""

    kind: TimerKind
    member_id: str


class AssignmentWrite(NamedTuple):
    """The leader's assignment for a generation is being written."""

    generation: int
    assignment: dict[str, bytes]


class StaticMemberWrite(NamedTuple):
    """A static member came back under a new member id and is being written; what to go back to when that fails."""

    instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: tuple[tuple[str, bytes], ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    ticket: JoinTicket
    skip_assignment_known: bool


class EmptyWrite(NamedTuple):
    """The group has become empty; nobody waits for the write."""

    generation: int


Write = AssignmentWrite | StaticMemberWrite | EmptyWrite


class StoreGroup(NamedTuple):
    """Append the group's metadata with these assignments as it is now, then call `Membership.stored(write, error)`."""

    assignment: dict[str, bytes]
    write: Write


Effect = AnswerJoin | AnswerSync | StartTimer | StopTimer | StoreGroup
