"""Requests of a group's members, their results, and the effects (answers, timers, writes) that a group asks for.

Effects are carried out in the order in which they stand (group.py). A callback is what a waiting request is answered
by; the group keeps it, hands it back in exactly one `AnswerJoin` or `AnswerSync`, and never calls it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names with opaque metadata, the member's favourite first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request, without the differences between versions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_member_id: str
    """The id that a new member is to have: `client id - uuid`, or `group.instance.id - uuid`."""
    member_id_required: bool
    """A new dynamic member must come again with the id it is told (version 4 and above, KIP-394)."""
    skip_assignment_known: bool
    """The client understands SkipAssignment (version 9 and above, KIP-814)."""


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A SyncGroup request; type and name are None when the client's version does not send them."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


NO_GENERATION = -1
UNKNOWN_MEMBER = ""
NO_LEADER = ""


class JoinedMember(NamedTuple):
    """A member as the leader is told of it: the metadata of the chosen protocol is opaque bytes."""

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


JoinCallback = Callable[[JoinResult], object]
SyncCallback = Callable[[SyncResult], object]


class TimerKind(Enum):
    """Kind of a timer: SESSION for each member and pending member, the others for the group."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class AnswerJoin(NamedTuple):
    """Answer a JoinGroup."""

    callback: JoinCallback
    result: JoinResult


class AnswerSync(NamedTuple):
    """Answer a SyncGroup."""

    callback: SyncCallback
    result: SyncResult


class StartTimer(NamedTuple):
    """Call `GroupStateMachine.expire` with this kind and member after `delay_ms`; replaces one that runs already."""

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
    callback: JoinCallback
    skip_assignment_known: bool


class EmptyWrite(NamedTuple):
    """The group has become empty; nobody waits for the write."""

    generation: int


Write = AssignmentWrite | StaticMemberWrite | EmptyWrite


class StoreGroup(NamedTuple):
    """Append the group's metadata as it is now with these assignments, then call `GroupStateMachine.stored`."""

    assignment: dict[str, bytes]
    write: Write


class Note(NamedTuple):
    """Have the journal say what has happened to the group."""

    change: str
    facts: dict[str, str | int | None]


Effect = AnswerJoin | AnswerSync | StartTimer | StopTimer | StoreGroup | Note
