"""AlterPartition: API key 56, versions 0-3, flexible from 0. From a leader to the controller.

Proposes a new ISR. It is accepted when leader epoch and partition epoch (the version of the state's znode) are the
current ones and every new member is alive and not shutting down.

1   leader recovery state: the leader says that it has recovered after an unclean election (KIP-704)
2   topic ids instead of names; INELIGIBLE_REPLICA may be answered (KIP-841)
3   the ISR with the broker epoch of each member, so that a restarted broker cannot come in on its old self's account
    (KIP-903)

FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION for another partition epoch, INVALID_REQUEST, NEW_LEADER_ELECTED;
STALE_BROKER_EPOCH for the request as a whole.
"""

from odradek.protocol.fields import INT8, INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field


class BrokerState(Struct):
    broker_id: int = field(INT32, "3+")
    broker_epoch: int = field(INT64, "3+", default=-1)


class PartitionData(Struct):
    partition_index: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    new_isr: list[int] = field(Array(INT32), "0-2")
    new_isr_with_epochs: list[BrokerState] = field(Array(BrokerState), "3+")
    leader_recovery_state: int = field(INT8, "1+")
    partition_epoch: int = field(INT32, "0+")


class TopicData(Struct):
    topic_name: str = field(STRING, "0-1")
    topic_id: bytes = field(UUID, "2+")
    partitions: list[PartitionData] = field(Array(PartitionData), "0+")


class AlterPartitionRequest(Message):
    API_KEY = 56
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 0

    broker_id: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "0+", default=-1)
    topics: list[TopicData] = field(Array(TopicData), "0+")


class ResponsePartitionData(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    leader_id: int = field(INT32, "0+")
    leader_epoch: int = field(INT32, "0+")
    isr: list[int] = field(Array(INT32), "0+")
    leader_recovery_state: int = field(INT8, "1+")
    partition_epoch: int = field(INT32, "0+")


class ResponseTopicData(Struct):
    topic_name: str = field(STRING, "0-1")
    topic_id: bytes = field(UUID, "2+")
    partitions: list[ResponsePartitionData] = field(Array(ResponsePartitionData), "0+")


class AlterPartitionResponse(Message):
    API_KEY = 56
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    topics: list[ResponseTopicData] = field(Array(ResponseTopicData), "0+")
