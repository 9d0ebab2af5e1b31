"""Static members (KIP-345, KIP-814): one that restarts takes its old place, and the generation goes on.

It comes without a member id but with its `group.instance.id`, gets a new id, and the old id is fenced. While nothing
else has changed, the group's record is written with the new id and then the member is answered with the generation in
force; when that cannot be written, the old id is put back.
"""

from odradek.broker.groups.attempts import JoinAttempt
from odradek.broker.groups.effects import (
    NO_LEADER,
    UNKNOWN_MEMBER,
    JoinResult,
    JoinTicket,
    StaticMemberWrite,
    StoreGroup,
    SyncResult,
)
from odradek.broker.groups.outbox import Outbox, generation_result
from odradek.broker.groups.rebalance import Rebalance
from odradek.broker.groups.roster import Member, Roster
from odradek.broker.groups.states import GroupState
from odradek.protocol.errors import ErrorCode


class StaticMembers:
    """The rules for a group's static members."""

    def __init__(self, roster: Roster, outbox: Outbox, rebalance: Rebalance) -> None:
        self._roster = roster
        self._outbox = outbox
        self._rebalance = rebalance

    def replace(self, attempt: JoinAttempt, old_member_id: str, ticket: JoinTicket, now_ms: int) -> None:
        """A static member has restarted: the attempt has its instance id and no member id."""
        assert attempt.instance_id is not None, attempt
        roster = self._roster
        member = roster.members[old_member_id]
        write = StaticMemberWrite(
            instance_id=attempt.instance_id,
            old_member_id=old_member_id,
            new_member_id=attempt.fresh_member_id,
            old_protocols=member.protocols,
            old_rebalance_timeout_ms=member.rebalance_timeout_ms,
            old_session_timeout_ms=member.session_timeout_ms,
            old_leader=roster.leader or NO_LEADER,
            ticket=ticket,
            skip_assignment_known=attempt.skip_assignment_known,
        )
        self._rename(attempt.instance_id, old_member_id, attempt.fresh_member_id)
        roster.update_member(member, attempt.protocols, attempt.rebalance_timeout_ms, attempt.session_timeout_ms)
        member.join_ticket = ticket
        self._outbox.restart_session(member)
        if roster.state is GroupState.STABLE and roster.select_protocol() == roster.protocol_name:
            self._outbox.add(StoreGroup({m.member_id: m.assignment for m in roster.members.values()}, write))
        else:
            self._rebalance.prepare_if_possible(now_ms)

    def stored(self, write: StaticMemberWrite, error: ErrorCode) -> None:
        """The record with the new member id has been written, or could not be."""
        roster = self._roster
        member = roster.members.get(write.new_member_id)
        if member is None or member.join_ticket is not write.ticket or roster.state is not GroupState.STABLE:
            return  # answered already, or to be answered by the rebalance that has begun since
        if error is not ErrorCode.NONE:
            self._put_back(member, write, error)
            return
        if write.skip_assignment_known:
            result = generation_result(roster, member, skip_assignment=roster.leader == member.member_id)
        else:
            # Told of the leader's old id, a restarted leader takes itself for a follower and does not assign anew.
            result = generation_result(roster, member, leader=write.old_leader)
        self._outbox.answer_join(member, result)
        self._outbox.restart_session(member)

    def _put_back(self, member: Member, write: StaticMemberWrite, error: ErrorCode) -> None:
        roster = self._roster
        refusal = JoinResult(
            error, UNKNOWN_MEMBER, roster.generation, roster.protocol_type, roster.protocol_name, write.old_leader
        )
        self._outbox.answer_join(member, refusal)
        roster.update_member(member, write.old_protocols, write.old_rebalance_timeout_ms, write.old_session_timeout_ms)
        self._rename(write.instance_id, write.new_member_id, write.old_member_id)
        self._outbox.restart_session(member)

    def _rename(self, instance_id: str, old_member_id: str, new_member_id: str) -> None:
        member = self._roster.members[old_member_id]
        self._outbox.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        self._outbox.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self._outbox.stop_session(old_member_id)
        self._roster.rename(instance_id, old_member_id, new_member_id)
