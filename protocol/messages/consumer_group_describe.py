"""ConsumerGroupDescribe: API key 69, version 0, flexible from 0. To the groups' coordinator.

Describes groups of the next consumer protocol (KIP-848), of which a ZooKeeper-mode broker has none: it
advertises the API, and answers every group with UNSUPPORTED_VERSION.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class ConsumerGroupDescribeRequest(Message):
    API_KEY = 69
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    group_ids: list[str] = field(Array(STRING), "0+")
    include_authorized_operations: bool = field(BOOL, "0+")


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+")
    topic_name: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions), "0+")


class Member(Struct):
    member_id: str = field(STRING, "0+")
    instance_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = field(INT32, "0+")
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    subscribed_topic_names: list[str] = field(Array(STRING), "0+")
    subscribed_topic_regex: str | None = field(STRING, "0+", nullable="0+", default=None)
    assignment: Assignment = field(Assignment, "0+")
    target_assignment: Assignment = field(Assignment, "0+")


class DescribedGroup(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    group_id: str = field(STRING, "0+")
    group_state: str = field(STRING, "0+")
    group_epoch: int = field(INT32, "0+")
    assignment_epoch: int = field(INT32, "0+")
    assignor_name: str = field(STRING, "0+")
    members: list[Member] = field(Array(Member), "0+")
    authorized_operations: int = field(INT32, "0+", default=-0x8000_0000)


class ConsumerGroupDescribeResponse(Message):
    API_KEY = 69
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    groups: list[DescribedGroup] = field(Array(DescribedGroup), "0+")
