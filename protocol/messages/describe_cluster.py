"""DescribeCluster: API key 60, versions 0-1, flexible from 0. To any broker.

Cluster id, controller and brokers, and what the client may do with the cluster.

1   endpoint type: 1 brokers, 2 controllers. A broker answers 2 with MISMATCHED_ENDPOINT_TYPE (KIP-919)

Authorized operations are bits; -2147483648 is "not asked".
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeClusterRequest(Message):
    API_KEY = 60
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    include_cluster_authorized_operations: bool = field(BOOL, "0+")
    endpoint_type: int = field(INT8, "1+", default=1)


class DescribeClusterBroker(Struct):
    broker_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(INT32, "0+")
    rack: str | None = field(STRING, "0+", nullable="0+", default=None)


class DescribeClusterResponse(Message):
    API_KEY = 60
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    endpoint_type: int = field(INT8, "1+", default=1)
    cluster_id: str = field(STRING, "0+")
    controller_id: int = field(INT32, "0+", default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker), "0+")
    cluster_authorized_operations: int = field(INT32, "0+", default=-0x8000_0000)
