"""UpdateMetadata: API key 6, versions 0-8, flexible from 6. From the controller to every broker.

What a broker's Metadata answers are made from: live brokers with their listeners, and the state of partitions. A
partition whose leader is -2 is gone with its topic.

1   endpoints with a security protocol instead of host and port
2   rack
3   listener names
4   offline replicas
5   broker epoch; partitions by topic
6   flexible
7   topic ids
8   whether the controller is a KRaft one, and whether the request is complete (a tagged field)

Merged by partition: what is not in the request stays as it was, but live brokers are replaced as a whole.
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field

LEADER_DURING_DELETE = -2
"""Leader of a partition that is to be forgotten."""
TYPE_UNKNOWN, TYPE_INCREMENTAL, TYPE_FULL = 0, 1, 2
"""A request holds some partitions, or all; Kafka's controllers in ZooKeeper mode do not say (KIP-866)."""


class UpdateMetadataPartitionState(Struct):
    topic_name: str = field(STRING, "0-4")
    partition_index: int = field(INT32, "0+")
    controller_epoch: int = field(INT32, "0+")
    leader: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    isr: list[int] = field(Array(INT32), "0+")
    zk_version: int = field(INT32, "0+")
    replicas: list[int] = field(Array(INT32), "0+")
    offline_replicas: list[int] = field(Array(INT32), "4+")


class UpdateMetadataTopicState(Struct):
    topic_name: str = field(STRING, "5+")
    topic_id: bytes = field(UUID, "7+")
    partition_states: list[UpdateMetadataPartitionState] = field(Array(UpdateMetadataPartitionState), "5+")


class UpdateMetadataEndpoint(Struct):
    port: int = field(INT32, "1+")
    host: str = field(STRING, "1+")
    listener: str = field(STRING, "3+")
    security_protocol: int = field(INT16, "1+")


class UpdateMetadataBroker(Struct):
    id: int = field(INT32, "0+")
    v0_host: str = field(STRING, "0")
    v0_port: int = field(INT32, "0")
    endpoints: list[UpdateMetadataEndpoint] = field(Array(UpdateMetadataEndpoint), "1+")
    rack: str | None = field(STRING, "2+", nullable="0+")


class UpdateMetadataRequest(Message):
    API_KEY = 6
    VERSIONS = (0, 8)
    FLEXIBLE_FROM = 6

    controller_id: int = field(INT32, "0+")
    is_kraft_controller: bool = field(BOOL, "8+")
    type: int = field(INT8, "8+", tag=0)
    controller_epoch: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(Array(UpdateMetadataPartitionState), "0-4")
    topic_states: list[UpdateMetadataTopicState] = field(Array(UpdateMetadataTopicState, shared=True), "5+")
    live_brokers: list[UpdateMetadataBroker] = field(Array(UpdateMetadataBroker), "0+")


class UpdateMetadataResponse(Message):
    API_KEY = 6
    VERSIONS = (0, 8)
    FLEXIBLE_FROM = 6

    error_code: int = field(INT16, "0+")
