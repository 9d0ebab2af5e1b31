"""SyncGroup (key 14), versions 0 to 5: the leader brings the assignment, every member fetches its own.

The answer is held back until the leader's assignment is stored. From version 5 the member says which protocol it
believes was chosen, and is told (KIP-559).
"""

from odradek.broker.groups.group_effects import SyncRequest, SyncResult
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.coordinator_answers import LaterReply
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST = SyncGroupRequest
VERSIONS = (0, 5)

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(broker: Services, request: SyncGroupRequest, context: RequestContext) -> Outcome:
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and not says_protocol:
        return Reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    sync = SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: one.assignment for one in request.assignments},
    )
    reply = LaterReply[SyncGroupResponse]()
    broker.groups.sync(request.group_id, sync, lambda result: reply.give(_response(result)))
    return reply.outcome()


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
