"""Heartbeat (key 12), versions 0 to 4: a member lives; REBALANCE_IN_PROGRESS in the answer asks it to join again."""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: HeartbeatRequest, context: RequestContext) -> Outcome:
    error = broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return Reply(HeartbeatResponse(error_code=error))
