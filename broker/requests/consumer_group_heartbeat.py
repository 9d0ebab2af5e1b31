"""ConsumerGroupHeartbeat (key 68), version 0: the consumer protocol in which the broker assigns (KIP-848).

The coordinator of a ZooKeeper cluster does not speak it: the answer is UNSUPPORTED_VERSION, whatever the client may do.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

REQUEST = ConsumerGroupHeartbeatRequest
VERSIONS = (0, 0)


def handle(broker: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Outcome:
    return Reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
