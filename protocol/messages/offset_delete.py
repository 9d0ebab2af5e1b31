"""OffsetDelete: API key 47, version 0, never flexible. To the group's coordinator.

Forgets the offsets of a group for some partitions. GROUP_SUBSCRIBED_TO_TOPIC where a member still reads the topic,
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP for groups that are not of consumers. Never flexible.
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(INT32, "0+")


class OffsetDeleteRequestTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition), "0+")


class OffsetDeleteRequest(Message):
    API_KEY = 47
    VERSIONS = (0, 0)

    group_id: str = field(STRING, "0+")
    topics: list[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic), "0+")


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class OffsetDeleteResponseTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition), "0+")


class OffsetDeleteResponse(Message):
    API_KEY = 47
    VERSIONS = (0, 0)

    error_code: int = field(INT16, "0+")
    throttle_time_ms: int = field(INT32, "0+")
    topics: list[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic), "0+")
