"""LeaveGroup (key 13), versions 0 to 5: members go, and the rest is rebalanced at once.

Below version 3 it names one member, and that member's error is the answer's; from 3 on it names many (also static
members by their instance id alone), each with an error of its own.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

REQUEST = LeaveGroupRequest
VERSIONS = (0, 5)

FIRST_VERSION_WITH_MANY_MEMBERS = 3


def handle(broker: Services, request: LeaveGroupRequest, context: RequestContext) -> Outcome:
    many = context.api_version >= FIRST_VERSION_WITH_MANY_MEMBERS
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
    error, errors = broker.groups.leave(
        request.group_id,
        [(member.member_id, member.group_instance_id) for member in leaving],
        [member.reason or "" for member in leaving],
    )
    if not many:
        return Reply(LeaveGroupResponse(error_code=error or errors[0]))
    members = [
        MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=one)
        for member, one in zip(leaving, errors, strict=False)
    ]
    return Reply(LeaveGroupResponse(error_code=error, members=members))
