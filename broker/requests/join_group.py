"""JoinGroup (key 11), versions 0 to 9: become, or stay, a member of a group.

The answer is held back until the group's members have gathered (at most the longest rebalance timeout, which in version
0 is the session timeout). From version 4 a new member without an id is told one and joins again with it; from 5 members
may be static; from 9 a restarted static leader is told to skip the assignment.
"""

from odradek.broker.groups.group_effects import JoinRequest, JoinResult
from odradek.broker.network.outcomes import Outcome, RequestContext
from odradek.broker.requests.coordinator_answers import LaterReply
from odradek.broker.services import Services
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

REQUEST = JoinGroupRequest
VERSIONS = (0, 9)

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_THAT_NEEDS_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def handle(broker: Services, request: JoinGroupRequest, context: RequestContext) -> Outcome:
    version = context.api_version
    instance_id = request.group_instance_id
    has_rebalance_timeout = version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    join = JoinRequest(
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        fresh_member_id=broker.groups.fresh_member_id(context.client_id if instance_id is None else instance_id),
        member_id_required=version >= FIRST_VERSION_THAT_NEEDS_MEMBER_ID,
        skip_assignment_known=version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )
    reply = LaterReply[JoinGroupResponse]()
    broker.groups.join(request.group_id, join, lambda result: reply.give(_response(result, version)))
    return reply.outcome()


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    missing_protocol = None if version >= FIRST_VERSION_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name or missing_protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
