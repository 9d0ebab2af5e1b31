"""The state machine of one consumer group: requests, timers and ended writes go in, effects come out.

The rules are those of Kafka 3.9's GroupCoordinator.scala. A method that takes a callback answers it by an effect, at
once or later; the others return their error. After every call the owner takes the effects from `outbox` and carries
them out in order. Nothing here knows the time except by `now_ms`, the wall clock, which stamps changes of state.

Differences from Kafka, each for the promise that every request is answered exactly once: a request that is overtaken by
a newer one of the same member is answered REBALANCE_IN_PROGRESS; a member that is removed while its SyncGroup waits is
answered UNKNOWN_MEMBER_ID; a static member whose write ends after the next rebalance began is answered by that one.
"""

from odradek.broker.coordination.partition_count import LONGEST_TEXT
from odradek.broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerSync,
    AssignmentWrite,
    JoinCallback,
    JoinRequest,
    JoinResult,
    StartTimer,
    StaticMemberWrite,
    StopTimer,
    SyncCallback,
    SyncRequest,
    SyncResult,
    TimerKind,
    Write,
)
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.groups.outbox import Outbox
from odradek.broker.groups.rebalance import Rebalance
from odradek.broker.groups.static_members import StaticMembers
from odradek.broker.settings.coordinator_settings import GroupSettings
from odradek.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Longest wait in a rebalance of a member that has never been answered (GroupCoordinator.NewMemberJoinTimeoutMs)."""


class GroupStateMachine:
    """Rules of one group, over the facts in `group`. Once the group is dead, its owner asks nothing of it any more.

    The end of a write that was under way then may still be reported by `stored`.
    """

    def __init__(self, group: GroupMetadata, config: GroupSettings) -> None:
        self.group = group
        self.outbox = Outbox()
        self._config = config
        self._rebalance = Rebalance(group, self.outbox, config)
        self._static = StaticMembers(group, self.outbox, self._rebalance)

    # requests

    def join(self, request: JoinRequest, callback: JoinCallback, now_ms: int) -> None:
        """Handle a JoinGroup; it is answered at once, or when the rebalance that it takes part in is complete."""
        group = self.group
        if not has_room_for(group, request.member_id, self._config.group_max_size):
            self._rebalance.remove(request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self.outbox.refuse_join(callback, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(request.protocol_type, request.protocols):
            self.outbox.refuse_join(callback, request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_new(request, callback, now_ms)
        elif request.member_id in group.pending:
            self._join_pending(request, callback, now_ms)
        else:
            self._join_known(request, callback, now_ms)
        self._rebalance.complete_if_all_joined(now_ms)

    def sync(self, request: SyncRequest, callback: SyncCallback, now_ms: int) -> None:
        """Handle a SyncGroup; it is answered at once, or when the leader's assignment is stored."""
        group, outbox = self.group, self.outbox
        error = check_sync(group, request)
        if error is ErrorCode.NONE and group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            outbox.add(AnswerSync(callback, SyncResult(error)))
            return
        member = group.members[request.member_id]
        self._rebalance.synced(member)
        if group.state is GroupState.STABLE:
            outbox.add(AnswerSync(callback, group.sync_result(member)))
            outbox.restart_session(member)
            return
        outbox.answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_callback = callback
        if group.leader == member.member_id:
            self._rebalance.store_assignment(request.assignments)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Handle a Heartbeat: the member lives. Return REBALANCE_IN_PROGRESS to have it join again, or an error."""
        error = check_generation(self.group, member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        self.outbox.restart_session(self.group.members[member_id])
        if self.group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, now_ms: int, reason: str = "") -> ErrorCode:
        """Handle a LeaveGroup for one member; an instance id alone removes that static member (KIP-345)."""
        group = self.group
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = group.static_member_id(instance_id) or UNKNOWN_MEMBER
        if member_id not in group.pending:
            error = check_member(group, member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._remove(member_id, now_ms, "left", reason)
        return ErrorCode.NONE

    def commit(self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool) -> ErrorCode:
        """Check whether a commit is legal now; a member's counts as its heartbeat, unless it is transactional."""
        check = check_commit_in_transaction if transactional else check_commit
        error = check(self.group, member_id, instance_id, generation)
        if error is ErrorCode.NONE and not transactional and member_id in self.group.members:
            self.outbox.restart_session(self.group.members[member_id])
        return error

    # what the shell reports

    def expire(self, kind: TimerKind, member_id: str, now_ms: int) -> None:
        """Handle a timer of the group, or of one member, that has fired."""
        if kind is TimerKind.JOIN:
            self._rebalance.join_timer_fired(now_ms)
        elif kind is TimerKind.SYNC:
            self._rebalance.sync_timer_fired(now_ms)
        else:
            self._session_expired(member_id, now_ms)

    def stored(self, write: Write, error: ErrorCode, now_ms: int) -> None:
        """Handle the end of a `StoreGroup` effect's append; `error` is one for clients (`group.group_error`)."""
        if isinstance(write, AssignmentWrite):
            self._rebalance.assignment_stored(write, error, now_ms)
        elif isinstance(write, StaticMemberWrite):
            self._static.stored(write, error)

    def loaded(self, now_ms: int) -> None:
        """Start the sessions of a group that was read back from the log; rebalance it if it is too large."""
        for member in self.group.members.values():
            self.outbox.restart_session(member)
        if len(self.group.members) > self._config.group_max_size:
            self._rebalance.prepare(now_ms, "more members than group.max.size")

    def die(self, error: ErrorCode, now_ms: int) -> None:
        """End the group, which is deleted or moved away: answer all who wait with `error`, stop all timers."""
        group = self.group
        for member in group.members.values():
            self.outbox.answer_join(member, JoinResult(error, member.member_id))
            self.outbox.answer_sync(member, SyncResult(error))
            self.outbox.stop_session(member.member_id)
        for member_id in sorted(group.pending):
            self.outbox.stop_session(member_id)
        self.outbox.add(StopTimer(TimerKind.JOIN, ""))
        self.outbox.add(StopTimer(TimerKind.SYNC, ""))
        group.enter(GroupState.DEAD, now_ms)

    # joining

    def _join_new(self, request: JoinRequest, callback: JoinCallback, now_ms: int) -> None:
        instance_id, fresh_member_id = request.instance_id, request.fresh_member_id
        old_member_id = None if instance_id is None else self.group.static_member_id(instance_id)
        if old_member_id is not None:
            self._static.replace(request, old_member_id, callback, now_ms)
        elif instance_id is None and request.member_id_required:
            self.group.pending.add(fresh_member_id)
            self.outbox.add(StartTimer(TimerKind.SESSION, fresh_member_id, request.session_timeout_ms))
            self.outbox.refuse_join(callback, fresh_member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(request, fresh_member_id, callback, now_ms)

    def _join_pending(self, request: JoinRequest, callback: JoinCallback, now_ms: int) -> None:
        if request.instance_id is None:
            self._add(request, request.member_id, callback, now_ms)
        else:
            # The id was given to a dynamic member, and now a static one comes with it: no client does this.
            self.outbox.refuse_join(callback, request.member_id, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _join_known(self, request: JoinRequest, callback: JoinCallback, now_ms: int) -> None:
        group = self.group
        error = check_member(group, request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            self.outbox.refuse_join(callback, request.member_id, error)
            return
        member = group.members[request.member_id]
        if member.protocols == request.protocols and self._may_stay_in_generation(member):
            self.outbox.add(AnswerJoin(callback, group.join_result(member)))
            return
        self.outbox.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        member.join_callback = callback
        self._rebalance.prepare_if_possible(now_ms, f"member {member.member_id} joined again")

    def _may_stay_in_generation(self, member: Member) -> bool:
        """Tell whether a repeated JoinGroup changes nothing; from the leader of a stable group it asks to rebalance."""
        if self.group.state is GroupState.COMPLETING_REBALANCE:
            return True
        return self.group.state is GroupState.STABLE and self.group.leader != member.member_id

    def _add(self, request: JoinRequest, member_id: str, callback: JoinCallback, now_ms: int) -> None:
        self._rebalance.expect_newcomer()
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            join_callback=callback,
            is_new=True,
        )
        self.group.add(member)
        self.outbox.add(StartTimer(TimerKind.SESSION, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS))
        self.outbox.note("member joined", member=member_id, client=request.client_id, host=request.client_host)
        self._rebalance.prepare_if_possible(now_ms, f"member {member_id} joined")

    # endings

    def _session_expired(self, member_id: str, now_ms: int) -> None:
        member = self.group.members.get(member_id)
        if member is not None and not member.is_new and (member.join_callback or member.sync_callback):
            return  # it waits for us, so it lives; its session starts again with the answer
        if member is not None or member_id in self.group.pending:
            self._remove(member_id, now_ms, "expired")

    def _remove(self, member_id: str, now_ms: int, how: str, reason: str = "") -> None:
        member = self.group.members.get(member_id)
        self._rebalance.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if member is not None:
            self.outbox.note(
                f"member {how}",
                member=member_id,
                client=member.client_id,
                session_timeout_ms=member.session_timeout_ms,
                reason=reason,
            )
            self._rebalance.prepare_if_possible(now_ms, f"member {member_id} {how}")
        self._rebalance.complete_if_all_joined(now_ms)


def check_join(request: JoinRequest, config: GroupSettings) -> ErrorCode:
    """Return the error of a JoinGroup that is wrong whatever the state of the group; NONE if it is right."""
    shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    texts = [request.client_id, request.instance_id or "", request.protocol_type]
    texts.extend(name for name, _ in request.protocols)
    if any(len(text) > LONGEST_TEXT for text in texts):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def has_room_for(group: GroupMetadata, member_id: str, group_max_size: int) -> bool:
    """Tell whether a member may join, by `group.max.size`.

    While a rebalance gathers members, those that join first stay; after that only members may come back.
    """
    if len(group.members) < group_max_size:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:  # the one case in which all have to be counted
        return (member is not None and member.join_callback is not None) or group.joined_count() < group_max_size
    return member is not None


def check_member(group: GroupMetadata, member_id: str, instance_id: str | None) -> ErrorCode:
    """Check that the ids name a member; a static member that another process has replaced is fenced (KIP-345)."""
    if instance_id is not None:
        current = group.static_member_id(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_generation(group: GroupMetadata, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Check that member id and instance id name a member, and that `generation` is the one in force."""
    error = check_member(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def check_sync(group: GroupMetadata, request: SyncRequest) -> ErrorCode:
    """Check member, generation and, where the version sends it, the protocol that the member believes was chosen."""
    error = check_generation(group, request.member_id, request.instance_id, request.generation)
    if error is not ErrorCode.NONE:
        return error
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def check_commit(group: GroupMetadata, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Check an OffsetCommit: members may commit except between two generations, others only while the group is empty.

    Those others send no generation (-1): consumers that assign partitions to themselves.
    """
    if group.state is GroupState.EMPTY and generation < 0:
        return ErrorCode.NONE
    error = check_generation(group, member_id, instance_id, generation)
    if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def check_commit_in_transaction(
    group: GroupMetadata, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Check a TxnOffsetCommit: unlike OffsetCommit it is legal between two generations, and without any member."""
    if generation < 0 and (group.state is GroupState.EMPTY or (member_id == UNKNOWN_MEMBER and instance_id is None)):
        return ErrorCode.NONE
    return check_generation(group, member_id, instance_id, generation)
