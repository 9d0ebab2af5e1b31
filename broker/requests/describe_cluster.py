"""DescribeCluster (key 60), versions 0 and 1: the live brokers and the controller (KIP-700).

A client is authorized to all operations, unless an authorizer says otherwise.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.security.acls import ALL_BITS
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.zk_schema.znodes.acls import ResourceType

REQUEST = DescribeClusterRequest
VERSIONS = (0, 1)

BROKERS, CONTROLLERS = 1, 2


def handle(broker: Services, request: DescribeClusterRequest, context: RequestContext) -> Outcome:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return Reply(
            DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="This is a broker: endpoint type 1 is the only one it can describe.",
            )
        )
    nodes = broker.metadata.nodes(context.listener)
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=broker.identity.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=[DescribeClusterBroker(broker_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_BITS[ResourceType.CLUSTER]
    return Reply(response)
