"""LeaderAndIsr (key 4), versions 0-7, flexible from 4+."""

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
