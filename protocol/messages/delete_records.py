"""DeleteRecords: API key 21, versions 0-2, flexible from 2. To the leader.

Moves the log start offset up, in all replicas; -1 is the high watermark. The answer waits until the in-sync replicas
have followed, and brings the lowest of their log start offsets.

1   the client does its own throttling
2   flexible

OFFSET_OUT_OF_RANGE above the high watermark; POLICY_VIOLATION for a topic that is compacted only.
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DeleteRecordsPartition(Struct):
    partition_index: int = field(INT32, "0+")
    offset: int = field(INT64, "0+")


class DeleteRecordsTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition), "0+")


class DeleteRecordsRequest(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    topics: list[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic), "0+")
    timeout_ms: int = field(INT32, "0+")


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(INT32, "0+")
    low_watermark: int = field(INT64, "0+")
    error_code: int = field(INT16, "0+")


class DeleteRecordsTopicResult(Struct):
    name: str = field(STRING, "0+")
    partitions: list[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult), "0+")


class DeleteRecordsResponse(Message):
    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    topics: list[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult), "0+")
