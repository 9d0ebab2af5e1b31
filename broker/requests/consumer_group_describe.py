"""ConsumerGroupDescribe (key 69), version 0: groups of the consumer protocol in which the broker assigns (KIP-848).

A ZooKeeper cluster has none: each group is answered UNSUPPORTED_VERSION, whatever the client may do.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

REQUEST = ConsumerGroupDescribeRequest
VERSIONS = (0, 0)


def handle(broker: Services, request: ConsumerGroupDescribeRequest, context: RequestContext) -> Outcome:
    groups = [DescribedGroup(group_id=one, error_code=ErrorCode.UNSUPPORTED_VERSION) for one in request.group_ids]
    return Reply(ConsumerGroupDescribeResponse(groups=groups))
