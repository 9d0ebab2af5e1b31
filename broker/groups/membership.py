"""The state machine of one group, as its shell sees it: requests, timers and ended writes in, effects out.

The rules are those of Kafka 3.9's GroupCoordinator.scala. A method that takes a ticket answers it by an effect, at
once or later; the others return their error. After every call the owner takes the effects from `outbox` and carries
them out in order. Nothing here knows the time except by `now_ms`, the wall clock, which stamps changes of state.

Differences from Kafka, each for the promise that every request is answered exactly once: a request that is overtaken by
a newer one of the same member is answered REBALANCE_IN_PROGRESS; a member that is removed while its SyncGroup waits is
answered UNKNOWN_MEMBER_ID; a static member's write that ends after the next rebalance began leaves the answer to that.
"""

from odradek.broker.groups.attempts import JoinAttempt, SyncAttempt
from odradek.broker.groups.checks import (
    check_commit,
    check_commit_in_transaction,
    check_generation,
    check_member,
    check_sync,
    has_room_for,
)
from odradek.broker.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from odradek.broker.groups.effects import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerSync,
    AssignmentWrite,
    JoinResult,
    JoinTicket,
    StartTimer,
    StaticMemberWrite,
    StopTimer,
    SyncResult,
    SyncTicket,
    TimerKind,
    Write,
)
from odradek.broker.groups.outbox import Outbox, assignment_result, generation_result
from odradek.broker.groups.rebalance import Rebalance
from odradek.broker.groups.roster import Member, Roster
from odradek.broker.groups.states import GroupState
from odradek.broker.groups.static_members import StaticMembers
from odradek.protocol.errors import ErrorCode


class Membership:
    """One group's rules over its `roster`."""

    def __init__(self, roster: Roster, config: GroupConfig) -> None:
        self.roster = roster
        self.outbox = Outbox()
        self._config = config
        self._rebalance = Rebalance(roster, self.outbox, config)
        self._static = StaticMembers(roster, self.outbox, self._rebalance)

    # requests

    def join(self, attempt: JoinAttempt, ticket: JoinTicket, now_ms: int) -> None:
        """JoinGroup. Answered at once, or when the rebalance it takes part in is complete."""
        roster = self.roster
        if not has_room_for(roster, attempt.member_id, self._config.group_max_size):
            self._rebalance.remove(attempt.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self.outbox.refuse_join(ticket, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif roster.state is GroupState.DEAD:
            self.outbox.refuse_join(ticket, attempt.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not roster.supports(attempt.protocol_type, attempt.protocols):
            self.outbox.refuse_join(ticket, attempt.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif attempt.member_id == UNKNOWN_MEMBER:
            self._join_new(attempt, ticket, now_ms)
        elif attempt.member_id in roster.pending:
            self._join_pending(attempt, ticket, now_ms)
        else:
            self._join_known(attempt, ticket, now_ms)
        self._rebalance.complete_if_all_joined(now_ms)

    def sync(self, attempt: SyncAttempt, ticket: SyncTicket, now_ms: int) -> None:
        """SyncGroup. Answered at once, or when the leader's assignment is stored."""
        roster, outbox = self.roster, self.outbox
        error = check_sync(roster, attempt)
        if error is ErrorCode.NONE and roster.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            outbox.add(AnswerSync(ticket, SyncResult(error)))
            return
        member = roster.members[attempt.member_id]
        self._rebalance.synced(member)
        if roster.state is GroupState.STABLE:
            outbox.add(AnswerSync(ticket, assignment_result(roster, member)))
            outbox.restart_session(member)
            return
        outbox.answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_ticket = ticket
        if roster.leader == member.member_id:
            self._rebalance.store_assignment(attempt.assignments)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat: the member lives; REBALANCE_IN_PROGRESS tells it to join again."""
        error = check_generation(self.roster, member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        self.outbox.restart_session(self.roster.members[member_id])
        if self.roster.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """One entry of LeaveGroup; an instance id without a member id removes that static member (KIP-345)."""
        roster = self.roster
        if roster.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = roster.static_member_id(instance_id) or UNKNOWN_MEMBER
        if member_id not in roster.pending:
            error = check_member(roster, member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._remove(member_id, now_ms)
        return ErrorCode.NONE

    def commit(self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool) -> ErrorCode:
        """Whether a commit is legal now; when it comes from a member, it counts as its heartbeat."""
        check = check_commit_in_transaction if transactional else check_commit
        error = check(self.roster, member_id, instance_id, generation)
        if error is ErrorCode.NONE and member_id in self.roster.members:
            self.outbox.restart_session(self.roster.members[member_id])
        return error

    # what the shell reports

    def expire(self, kind: TimerKind, member_id: str, now_ms: int) -> None:
        """A timer has fired."""
        if self.roster.state is GroupState.DEAD:
            return
        if kind is TimerKind.JOIN:
            self._rebalance.join_timer_fired(now_ms)
        elif kind is TimerKind.SYNC:
            self._rebalance.sync_timer_fired(now_ms)
        else:
            self._session_expired(member_id, now_ms)

    def stored(self, write: Write, error: ErrorCode, now_ms: int) -> None:
        """The append of a `StoreGroup` effect has ended; `error` is already one for clients (see `append_errors`)."""
        if isinstance(write, AssignmentWrite):
            self._rebalance.assignment_stored(write, error, now_ms)
        elif isinstance(write, StaticMemberWrite):
            self._static.stored(write, error)

    def loaded(self, now_ms: int) -> None:
        """The group was read back from the log: members must be heard of within their session timeouts."""
        for member in self.roster.members.values():
            self.outbox.restart_session(member)
        if len(self.roster.members) > self._config.group_max_size:
            self._rebalance.prepare(now_ms)

    def die(self, error: ErrorCode, now_ms: int) -> None:
        """Deleted, or moved away: answer everybody who waits with `error`, stop all timers."""
        roster = self.roster
        for member in roster.members.values():
            self.outbox.answer_join(member, JoinResult(error, member.member_id))
            self.outbox.answer_sync(member, SyncResult(error))
            self.outbox.stop_session(member.member_id)
        for member_id in sorted(roster.pending):
            self.outbox.stop_session(member_id)
        self.outbox.add(StopTimer(TimerKind.JOIN, ""))
        self.outbox.add(StopTimer(TimerKind.SYNC, ""))
        roster.enter(GroupState.DEAD, now_ms)

    # joining

    def _join_new(self, attempt: JoinAttempt, ticket: JoinTicket, now_ms: int) -> None:
        instance_id, fresh_member_id = attempt.instance_id, attempt.fresh_member_id
        old_member_id = None if instance_id is None else self.roster.static_member_id(instance_id)
        if old_member_id is not None:
            self._static.replace(attempt, old_member_id, ticket, now_ms)
        elif instance_id is None and attempt.member_id_required:
            self.roster.pending.add(fresh_member_id)
            self.outbox.add(StartTimer(TimerKind.SESSION, fresh_member_id, attempt.session_timeout_ms))
            self.outbox.refuse_join(ticket, fresh_member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(attempt, fresh_member_id, ticket, now_ms)

    def _join_pending(self, attempt: JoinAttempt, ticket: JoinTicket, now_ms: int) -> None:
        if attempt.instance_id is None:
            self._add(attempt, attempt.member_id, ticket, now_ms)
        else:
            # An id that was given to a dynamic member, claimed by a static one: no client does this.
            self.outbox.refuse_join(ticket, attempt.member_id, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _join_known(self, attempt: JoinAttempt, ticket: JoinTicket, now_ms: int) -> None:
        roster = self.roster
        error = check_member(roster, attempt.member_id, attempt.instance_id)
        if error is not ErrorCode.NONE:
            self.outbox.refuse_join(ticket, attempt.member_id, error)
            return
        member = roster.members[attempt.member_id]
        if member.protocols == attempt.protocols and self._may_stay_in_generation(member):
            self.outbox.add(AnswerJoin(ticket, generation_result(roster, member)))
            return
        self.outbox.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        roster.update_member(member, attempt.protocols, attempt.rebalance_timeout_ms, attempt.session_timeout_ms)
        member.join_ticket = ticket
        self._rebalance.prepare_if_possible(now_ms)

    def _may_stay_in_generation(self, member: Member) -> bool:
        """A repeated JoinGroup changes nothing; the leader of a stable group asks for a rebalance by it."""
        if self.roster.state is GroupState.COMPLETING_REBALANCE:
            return True
        return self.roster.state is GroupState.STABLE and self.roster.leader != member.member_id

    def _add(self, attempt: JoinAttempt, member_id: str, ticket: JoinTicket, now_ms: int) -> None:
        self._rebalance.newcomer()
        member = Member(
            member_id=member_id,
            instance_id=attempt.instance_id,
            client_id=attempt.client_id,
            client_host=attempt.client_host,
            rebalance_timeout_ms=attempt.rebalance_timeout_ms,
            session_timeout_ms=attempt.session_timeout_ms,
            protocol_type=attempt.protocol_type,
            protocols=attempt.protocols,
            join_ticket=ticket,
            is_new=True,
        )
        self.roster.add(member)
        self.outbox.add(StartTimer(TimerKind.SESSION, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS))
        self._rebalance.prepare_if_possible(now_ms)

    # endings

    def _session_expired(self, member_id: str, now_ms: int) -> None:
        member = self.roster.members.get(member_id)
        if member is not None and not member.is_new and (member.join_ticket or member.sync_ticket):
            return  # it waits for us, so it lives; its session starts again with the answer
        if member is not None or member_id in self.roster.pending:
            self._remove(member_id, now_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        was_member = member_id in self.roster.members
        self._rebalance.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if was_member:
            self._rebalance.prepare_if_possible(now_ms)
        self._rebalance.complete_if_all_joined(now_ms)
