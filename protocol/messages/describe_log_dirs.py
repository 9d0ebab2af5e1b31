"""DescribeLogDirs: API key 35, versions 0-4, flexible from 2. To the broker that is asked about.

Sizes of the replicas in each log directory, and how far future replicas (moves between directories) lag behind.

1   the client does its own throttling
2   flexible
3   an error for the whole answer
4   total and usable bytes of the volume (-1 when not known)

Null topics mean all. An offline directory has KAFKA_STORAGE_ERROR and no topics.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DescribableLogDirTopic(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class DescribeLogDirsRequest(Message):
    API_KEY = 35
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 2

    topics: list[DescribableLogDirTopic] | None = field(Array(DescribableLogDirTopic), "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = field(INT32, "0+")
    partition_size: int = field(INT64, "0+")
    offset_lag: int = field(INT64, "0+")
    is_future_key: bool = field(BOOL, "0+")


class DescribeLogDirsTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition), "0+")


class DescribeLogDirsResult(Struct):
    error_code: int = field(INT16, "0+")
    log_dir: str = field(STRING, "0+")
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic), "0+")
    total_bytes: int = field(INT64, "4+", default=-1)
    usable_bytes: int = field(INT64, "4+", default=-1)


class DescribeLogDirsResponse(Message):
    API_KEY = 35
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "3+")
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult), "0+")
