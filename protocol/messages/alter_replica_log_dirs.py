"""AlterReplicaLogDirs: API key 34, versions 0-2, flexible from 2. To the broker that holds the replicas.

Moves replicas to another directory of the same broker. For a partition that is not there yet it is remembered where it
shall be made.

1   the client does its own throttling
2   flexible

LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for an offline directory, UNKNOWN_TOPIC_OR_PARTITION; else the answer is 0 as
soon as the move has begun.
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class AlterReplicaLogDir(Struct):
    path: str = field(STRING, "0+")
    topics: list[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic), "0+")


class AlterReplicaLogDirsRequest(Message):
    API_KEY = 34
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    dirs: list[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir), "0+")


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(STRING, "0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult), "0+")


class AlterReplicaLogDirsResponse(Message):
    API_KEY = 34
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    results: list[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult), "0+")
