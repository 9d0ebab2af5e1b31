"""Metadata: API key 3, versions 0-12, flexible from 9. To any broker.

Brokers, controller, and for topics their partitions, leaders and replicas, from what the broker was last told by the
controller. The way in for every client.

1   null topics mean all, none mean none; in version 0 none mean all. Rack, controller id, internal flag
2   cluster id
3   throttle time
4   the client may forbid that topics are made by asking for them
5   offline replicas
6   the client does its own throttling; LISTENER_NOT_FOUND instead of LEADER_NOT_AVAILABLE
7   leader epoch
8   authorized operations as bits, when asked for; -2147483648 is "not asked", 0 is "none"
9   flexible
10  topic ids in the response. The request has a place for them, which is used from 12 on: before, an id or a null
    name is INVALID_REQUEST
11  no authorized operations of the cluster any more: DescribeCluster has them
12  topics by id; an id that nobody has is UNKNOWN_TOPIC_ID with a null name

Never an error of 0 with no partitions: clients take it for a topic that exists. A topic that is being made is
LEADER_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION. Version 0 answers REPLICA_NOT_AVAILABLE when a replica is down,
later ones just list it as offline. Controller id -1: none is elected.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class MetadataRequestTopic(Struct):
    topic_id: bytes = field(UUID, "10+")
    name: str | None = field(STRING, "0+", nullable="10+")


class MetadataRequest(Message):
    API_KEY = 3
    VERSIONS = (0, 12)
    FLEXIBLE_FROM = 9

    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), "0+", nullable="1+")
    allow_auto_topic_creation: bool = field(BOOL, "4+", default=True)
    include_cluster_authorized_operations: bool = field(BOOL, "8-10")
    include_topic_authorized_operations: bool = field(BOOL, "8+")


class MetadataResponseBroker(Struct):
    node_id: int = field(INT32, "0+")
    host: str = field(STRING, "0+")
    port: int = field(INT32, "0+")
    rack: str | None = field(STRING, "1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = field(INT16, "0+")
    partition_index: int = field(INT32, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "7+", default=-1)
    replica_nodes: list[int] = field(Array(INT32), "0+")
    isr_nodes: list[int] = field(Array(INT32), "0+")
    offline_replicas: list[int] = field(Array(INT32), "5+")


class MetadataResponseTopic(Struct):
    error_code: int = field(INT16, "0+")
    name: str | None = field(STRING, "0+", nullable="12+")
    topic_id: bytes = field(UUID, "10+")
    is_internal: bool = field(BOOL, "1+")
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition), "0+")
    topic_authorized_operations: int = field(INT32, "8+", default=-0x8000_0000)


class MetadataResponse(Message):
    API_KEY = 3
    VERSIONS = (0, 12)
    FLEXIBLE_FROM = 9

    throttle_time_ms: int = field(INT32, "3+")
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker), "0+")
    cluster_id: str | None = field(STRING, "2+", nullable="2+", default=None)
    controller_id: int = field(INT32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic), "0+")
    cluster_authorized_operations: int = field(INT32, "8-10", default=-0x8000_0000)
