"""Static members (KIP-345, KIP-814): a member that restarts takes its old place, and the generation goes on.

It comes without a member id but with its `group.instance.id`, gets a new id, and the old id is fenced. While nothing
else has changed, the group's record is written with the new id and then the member is answered with the generation in
force; when that cannot be written, the old id is put back.
"""

from odradek.broker.groups.group_effects import (
    NO_LEADER,
    UNKNOWN_MEMBER,
    JoinCallback,
    JoinRequest,
    JoinResult,
    StaticMemberWrite,
    StoreGroup,
    SyncResult,
)
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState, Member
from odradek.broker.groups.outbox import Outbox
from odradek.broker.groups.rebalance import Rebalance
from odradek.protocol.errors import ErrorCode


class StaticMembers:
    """The rules for a group's static members."""

    def __init__(self, group: GroupMetadata, outbox: Outbox, rebalance: Rebalance) -> None:
        self._group = group
        self._outbox = outbox
        self._rebalance = rebalance

    def replace(self, request: JoinRequest, old_member_id: str, callback: JoinCallback, now_ms: int) -> None:
        """Replace a static member that has restarted: the request has its instance id and no member id."""
        assert request.instance_id is not None, request
        group = self._group
        member = group.members[old_member_id]
        write = StaticMemberWrite(
            instance_id=request.instance_id,
            old_member_id=old_member_id,
            new_member_id=request.fresh_member_id,
            old_protocols=member.protocols,
            old_rebalance_timeout_ms=member.rebalance_timeout_ms,
            old_session_timeout_ms=member.session_timeout_ms,
            old_leader=group.leader or NO_LEADER,
            callback=callback,
            skip_assignment_known=request.skip_assignment_known,
        )
        self._rename(request.instance_id, old_member_id, request.fresh_member_id)
        group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        member.join_callback = callback
        self._outbox.restart_session(member)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            self._outbox.add(StoreGroup({m.member_id: m.assignment for m in group.members.values()}, write))
        else:
            self._rebalance.prepare_if_possible(now_ms, f"static member {request.instance_id} came back")

    def stored(self, write: StaticMemberWrite, error: ErrorCode) -> None:
        """Handle the end of writing a record with the new member id: answer, or put the old member back."""
        group = self._group
        member = group.members.get(write.new_member_id)
        if member is None or member.join_callback is not write.callback or group.state is not GroupState.STABLE:
            return  # answered already, or to be answered by the rebalance that has begun since
        if error is not ErrorCode.NONE:
            self._put_back(member, write, error)
            return
        if write.skip_assignment_known:
            result = group.join_result(member, skip_assignment=group.leader == member.member_id)
        else:
            # Told of the leader's old id, a restarted leader takes itself for a follower and does not assign anew.
            result = group.join_result(member, leader=write.old_leader)
        self._outbox.answer_join(member, result)
        self._outbox.restart_session(member)

    def _put_back(self, member: Member, write: StaticMemberWrite, error: ErrorCode) -> None:
        group = self._group
        refusal = JoinResult(
            error, UNKNOWN_MEMBER, group.generation, group.protocol_type, group.protocol_name, write.old_leader
        )
        self._outbox.answer_join(member, refusal)
        group.update_member(member, write.old_protocols, write.old_rebalance_timeout_ms, write.old_session_timeout_ms)
        self._rename(write.instance_id, write.new_member_id, write.old_member_id)
        self._outbox.restart_session(member)

    def _rename(self, instance_id: str, old_member_id: str, new_member_id: str) -> None:
        member = self._group.members[old_member_id]
        self._outbox.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self._outbox.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self._outbox.stop_session(old_member_id)
        self._group.rename(instance_id, old_member_id, new_member_id)
