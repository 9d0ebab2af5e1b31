"""StopReplica: API key 5, versions 0-4, flexible from 2. From the controller to a broker.

Stops replicas; with `delete_partition` their logs are deleted too.

1   broker epoch; partitions by topic
2   flexible
3   leader epoch and deletion for each partition (KIP-570). -2 as leader epoch belongs to a topic that is deleted and
    passes every check; an older epoch is FENCED_LEADER_EPOCH
4   whether the controller is a KRaft one

Deletion has an answer for every partition, and the controller repeats what failed when the broker is back.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class StopReplicaPartitionV0(Struct):
    topic_name: str = field(STRING, "0")
    partition_index: int = field(INT32, "0")


class StopReplicaTopicV1(Struct):
    name: str = field(STRING, "1-2")
    partition_indexes: list[int] = field(Array(INT32), "1-2")


class StopReplicaPartitionState(Struct):
    partition_index: int = field(INT32, "3+")
    leader_epoch: int = field(INT32, "3+", default=-1)
    delete_partition: bool = field(BOOL, "3+")


class StopReplicaTopicState(Struct):
    topic_name: str = field(STRING, "3+")
    partition_states: list[StopReplicaPartitionState] = field(Array(StopReplicaPartitionState), "3+")


class StopReplicaRequest(Message):
    API_KEY = 5
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 2

    controller_id: int = field(INT32, "0+")
    is_kraft_controller: bool = field(BOOL, "4+")
    controller_epoch: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "1+", default=-1)
    delete_partitions: bool = field(BOOL, "0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(Array(StopReplicaPartitionV0), "0")
    topics: list[StopReplicaTopicV1] = field(Array(StopReplicaTopicV1), "1-2")
    topic_states: list[StopReplicaTopicState] = field(Array(StopReplicaTopicState), "3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = field(STRING, "0+")
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class StopReplicaResponse(Message):
    API_KEY = 5
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 2

    error_code: int = field(INT16, "0+")
    partition_errors: list[StopReplicaPartitionError] = field(Array(StopReplicaPartitionError), "0+")
