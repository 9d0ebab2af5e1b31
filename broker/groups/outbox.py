"""Effects that the rules of a group ask for, in the order in which they must happen."""

from collections import deque

from odradek.broker.groups.group_effects import (
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinCallback,
    JoinResult,
    Note,
    StartTimer,
    StopTimer,
    SyncResult,
    TimerKind,
)
from odradek.broker.groups.group_metadata import Member
from odradek.protocol.errors import ErrorCode


class Outbox:
    """The effects of one group, in the order in which they must happen, and the ways they are usually made."""

    def __init__(self) -> None:
        self.effects: deque[Effect] = deque()

    def add(self, effect: Effect) -> None:
        """Add an effect, which is carried out after all earlier ones."""
        self.effects.append(effect)

    def note(self, change: str, **facts: str | int | None) -> None:
        """Have the journal say that this has happened."""
        self.effects.append(Note(change, facts))

    def refuse_join(self, callback: JoinCallback, member_id: str, error: ErrorCode) -> None:
        """Answer a JoinGroup that did not become part of the group."""
        self.effects.append(AnswerJoin(callback, JoinResult(error, member_id)))

    def answer_join(self, member: Member, result: JoinResult) -> None:
        """Answer the member's JoinGroup if one waits."""
        if member.join_callback is not None:
            self.effects.append(AnswerJoin(member.join_callback, result))
            member.join_callback = None

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer the member's SyncGroup; False when none waits."""
        if member.sync_callback is None:
            return False
        self.effects.append(AnswerSync(member.sync_callback, result))
        member.sync_callback = None
        return True

    def restart_session(self, member: Member) -> None:
        """Begin a member's session anew: it was heard of, or was just answered."""
        self.effects.append(StartTimer(TimerKind.SESSION, member.member_id, member.session_timeout_ms))

    def stop_session(self, member_id: str) -> None:
        """Stop the session timer of a member that is not expected any more."""
        self.effects.append(StopTimer(TimerKind.SESSION, member_id))
