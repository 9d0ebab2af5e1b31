"""DescribeCluster (key 60), versions 0 and 1: the live brokers and the controller (KIP-700).

The operations that a client is authorized to are all there are: access control is not built.
"""

from odradek.broker.requests.authorized_operations import ALL_OF_CLUSTER
from odradek.broker.requests.outcome import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

REQUEST = DescribeClusterRequest
VERSIONS = (0, 1)

BROKERS = 1


def handle(broker: Services, request: DescribeClusterRequest, context: RequestContext) -> Outcome:
    if request.endpoint_type != BROKERS:
        return Reply(
            DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
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
        response.cluster_authorized_operations = ALL_OF_CLUSTER
    return Reply(response)
