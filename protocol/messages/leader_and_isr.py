"""LeaderAndIsr: API key 4, versions 0-7, flexible from 4. From the controller to a broker.

Tells a broker which partitions it leads and follows, with leader epoch, ISR and replicas.

1   new partitions are marked, so that a broker with an offline directory knows that nothing was there
2   broker epoch, against requests meant for an earlier life of the broker; partitions by topic instead of one list
3   replicas that a reassignment adds and removes
4   flexible
5   topic ids, and whether the request is complete (type 1 incremental, 2 full); the response goes by topic id
6   leader recovery state: 1 after an unclean election (KIP-704)
7   whether the controller is a KRaft one (migration, KIP-866)

An older controller epoch is STALE_CONTROLLER_EPOCH, an older broker epoch STALE_BROKER_EPOCH, an older leader epoch of
a partition STALE_CONTROLLER_EPOCH for that partition. An id that differs from the one in partition.metadata is
INCONSISTENT_TOPIC_ID. The version is not negotiated: inter.broker.protocol.version decides.
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = field(STRING, "0-1")
    partition_index: int = field(INT32, "0+")
    controller_epoch: int = field(INT32, "0+")
    leader: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    isr: list[int] = field(Array(INT32), "0+")
    partition_epoch: int = field(INT32, "0+")
    replicas: list[int] = field(Array(INT32), "0+")
    adding_replicas: list[int] = field(Array(INT32), "3+")
    removing_replicas: list[int] = field(Array(INT32), "3+")
    is_new: bool = field(BOOL, "1+")
    leader_recovery_state: int = field(INT8, "6+")


class LeaderAndIsrTopicState(Struct):
    topic_name: str = field(STRING, "2+")
    topic_id: bytes = field(UUID, "5+")
    partition_states: list[LeaderAndIsrPartitionState] = field(Array(LeaderAndIsrPartitionState), "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = field(INT32, "0+")
    host_name: str = field(STRING, "0+")
    port: int = field(INT32, "0+")


class LeaderAndIsrRequest(Message):
    API_KEY = 4
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 4

    controller_id: int = field(INT32, "0+")
    is_kraft_controller: bool = field(BOOL, "7+")
    controller_epoch: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "2+", default=-1)
    type: int = field(INT8, "5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(Array(LeaderAndIsrPartitionState), "0-1")
    topic_states: list[LeaderAndIsrTopicState] = field(Array(LeaderAndIsrTopicState), "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field(Array(LeaderAndIsrLiveLeader), "0+")


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = field(STRING, "0-4")
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = field(UUID, "5+")
    partition_errors: list[LeaderAndIsrPartitionError] = field(Array(LeaderAndIsrPartitionError), "5+")


class LeaderAndIsrResponse(Message):
    API_KEY = 4
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 4

    error_code: int = field(INT16, "0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field(Array(LeaderAndIsrPartitionError), "0-4")
    topics: list[LeaderAndIsrTopicError] = field(Array(LeaderAndIsrTopicError), "5+")
