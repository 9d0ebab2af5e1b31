"""ListOffsets (key 2), versions 0-9, flexible from 6+."""

from odradek.protocol.fields import INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32, "0+")
    current_leader_epoch: int = field(INT32, "4+", default=-1)
    timestamp: int = field(INT64, "0+")
    max_num_offsets: int = field(INT32, "0", default=1)


class ListOffsetsTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition), "0+")


class ListOffsetsRequest(Message):
    API_KEY = 2
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    replica_id: int = field(INT32, "0+")
    isolation_level: int = field(INT8, "2+")
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic), "0+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    old_style_offsets: list[int] = field(Array(INT64), "0")
    timestamp: int = field(INT64, "1+", default=-1)
    offset: int = field(INT64, "1+", default=-1)
    leader_epoch: int = field(INT32, "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING, "0+")
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse), "0+")


class ListOffsetsResponse(Message):
    API_KEY = 2
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = field(INT32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse), "0+")
