"""Whether a request is legal now. Nothing here changes anything (the validate… functions of GroupCoordinator.scala)."""

from odradek.broker.groups.attempts import JoinAttempt, SyncAttempt
from odradek.broker.groups.config import LONGEST_TEXT, GroupConfig
from odradek.broker.groups.effects import UNKNOWN_MEMBER
from odradek.broker.groups.roster import Roster
from odradek.broker.groups.states import GroupState
from odradek.protocol.errors import ErrorCode


def check_attempt(attempt: JoinAttempt, config: GroupConfig) -> ErrorCode:
    """What is wrong with a JoinGroup whatever the group is like."""
    shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest_ms <= attempt.session_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    texts = [attempt.client_id, attempt.instance_id or "", attempt.protocol_type]
    texts.extend(name for name, _ in attempt.protocols)
    if any(len(text) > LONGEST_TEXT for text in texts):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def has_room_for(roster: Roster, member_id: str, group_max_size: int) -> bool:
    """While a rebalance gathers members, the first `group.max.size` to join stay; later only members may come back."""
    member = roster.members.get(member_id)
    if roster.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    if roster.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.join_ticket is not None) or roster.joined_count() < group_max_size
    return member is not None or len(roster.members) < group_max_size


def check_member(roster: Roster, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether they name a member; a static member that another process has replaced is fenced (KIP-345)."""
    if instance_id is not None:
        current = roster.static_member_id(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in roster.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_generation(roster: Roster, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Whether they name a member of the generation in force."""
    if roster.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = check_member(roster, member_id, instance_id)
    if error is ErrorCode.NONE and generation != roster.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def check_sync(roster: Roster, attempt: SyncAttempt) -> ErrorCode:
    """Member, generation and, where the version sends them, the protocol that the member believes was chosen."""
    error = check_generation(roster, attempt.member_id, attempt.instance_id, attempt.generation)
    if error is not ErrorCode.NONE:
        return error
    if attempt.protocol_type not in (None, roster.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if attempt.protocol_name not in (None, roster.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def check_commit(roster: Roster, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """A member may commit except between two generations; anybody without a generation may while the group is empty."""
    if roster.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if roster.state is GroupState.EMPTY and generation < 0:
        return ErrorCode.NONE
    if generation < 0 and member_id == UNKNOWN_MEMBER and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(roster, member_id, instance_id, generation)
    if error is ErrorCode.NONE and roster.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def check_commit_in_transaction(roster: Roster, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """The same for TxnOffsetCommit: legal between two generations too, and for one who does not say who it is."""
    if roster.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and (roster.state is GroupState.EMPTY or (member_id == UNKNOWN_MEMBER and instance_id is None)):
        return ErrorCode.NONE
    return check_generation(roster, member_id, instance_id, generation)
