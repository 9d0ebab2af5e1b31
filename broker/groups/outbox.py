"""Where a group leaves its effects until the shell takes them."""

from collections import deque

from odradek.broker.groups.effects import (
    NO_LEADER,
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinResult,
    JoinTicket,
    StartTimer,
    StopTimer,
    SyncResult,
    TimerKind,
)
from odradek.broker.groups.roster import Member, Roster
from odradek.protocol.errors import ErrorCode


class Outbox:
    """The effects of one group, in the order in which they must happen, and the ways they are usually made."""

    def __init__(self) -> None:
        self.effects: deque[Effect] = deque()

    def add(self, effect: Effect) -> None:
        """The shell carries it out after all earlier ones."""
        self.effects.append(effect)

    def refuse_join(self, ticket: JoinTicket, member_id: str, error: ErrorCode) -> None:
        """Answer a JoinGroup that did not become part of the group."""
        self.effects.append(AnswerJoin(ticket, JoinResult(error, member_id)))

    def answer_join(self, member: Member, result: JoinResult) -> None:
        """Answer the member's JoinGroup if one waits."""
        if member.join_ticket is not None:
            self.effects.append(AnswerJoin(member.join_ticket, result))
            member.join_ticket = None

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer the member's SyncGroup; False when none waits."""
        if member.sync_ticket is None:
            return False
        self.effects.append(AnswerSync(member.sync_ticket, result))
        member.sync_ticket = None
        return True

    def restart_session(self, member: Member) -> None:
        """The member was heard of, or was just answered: its session begins anew."""
        self.effects.append(StartTimer(TimerKind.SESSION, member.member_id, member.session_timeout_ms))

    def stop_session(self, member_id: str) -> None:
        """Nobody of that id is expected any more."""
        self.effects.append(StopTimer(TimerKind.SESSION, member_id))


def generation_result(
    roster: Roster, member: Member, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinResult:
    """The answer to a member of the generation in force; the leader alone is told of all members.

    `leader`: the id to name as the leader, when it is not the real one (see `static_members`).
    """
    told_leader = leader if leader is not None else roster.leader or NO_LEADER
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=roster.generation,
        protocol_type=roster.protocol_type,
        protocol_name=roster.protocol_name,
        leader=told_leader,
        skip_assignment=skip_assignment,
        members=roster.member_list() if told_leader == member.member_id else (),
    )


def assignment_result(roster: Roster, member: Member) -> SyncResult:
    """The answer to a member that may have its assignment."""
    return SyncResult(ErrorCode.NONE, roster.protocol_type, roster.protocol_name, member.assignment)
