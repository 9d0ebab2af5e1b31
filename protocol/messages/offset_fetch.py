"""OffsetFetch (key 9), versions 0-9, flexible from 6+."""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: str = field(STRING, "0-7")
    partition_indexes: list[int] = field(Array(INT32), "0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = field(STRING, "8+")
    partition_indexes: list[int] = field(Array(INT32), "8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(STRING, "8+")
    member_id: str | None = field(STRING, "9+", nullable="9+", default=None)
    member_epoch: int = field(INT32, "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(Array(OffsetFetchRequestTopics), "8+", nullable="8+")


class OffsetFetchRequest(Message):
    API_KEY = 9
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    group_id: str = field(STRING, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(Array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(BOOL, "7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(INT32, "0-7")
    committed_offset: int = field(INT64, "0-7")
    committed_leader_epoch: int = field(INT32, "5-7", default=-1)
    metadata: str | None = field(STRING, "0-7", nullable="0-7")
    error_code: int = field(INT16, "0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = field(STRING, "0-7")
    partitions: list[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition), "0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(INT32, "8+")
    committed_offset: int = field(INT64, "8+")
    committed_leader_epoch: int = field(INT32, "8+", default=-1)
    metadata: str | None = field(STRING, "8+", nullable="8+")
    error_code: int = field(INT16, "8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field(STRING, "8+")
    partitions: list[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions), "8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(STRING, "8+")
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics), "8+")
    error_code: int = field(INT16, "8+")


class OffsetFetchResponse(Message):
    API_KEY = 9
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = field(INT32, "3+")
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(INT16, "2-7")
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), "8+")
