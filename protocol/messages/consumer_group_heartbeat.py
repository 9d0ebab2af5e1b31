"""ConsumerGroupHeartbeat: API key 68, version 0, flexible from 0. To the group's coordinator.

The one request of the next consumer protocol (KIP-848), where the broker assigns. A ZooKeeper-mode broker
advertises it and answers UNSUPPORTED_VERSION.
"""

from odradek.protocol.fields import INT16, INT32, STRING, UUID, Array, Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class ConsumerGroupHeartbeatRequest(Message):
    API_KEY = 68
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0+")
    member_epoch: int = field(INT32, "0+")
    instance_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, "0+", default=-1)
    subscribed_topic_names: list[str] | None = field(Array(STRING), "0+", nullable="0+", default=None)
    server_assignor: str | None = field(STRING, "0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), "0+", nullable="0+", default=None)


class ResponseTopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class Assignment(Struct):
    topic_partitions: list[ResponseTopicPartitions] = field(Array(ResponseTopicPartitions), "0+")


class ConsumerGroupHeartbeatResponse(Message):
    API_KEY = 68
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = field(INT32, "0+")
    heartbeat_interval_ms: int = field(INT32, "0+")
    assignment: Assignment | None = field(Assignment, "0+", nullable="0+", default=None)
