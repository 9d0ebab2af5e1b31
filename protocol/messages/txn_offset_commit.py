"""TxnOffsetCommit: API key 28, versions 0-4, flexible from 3. To the group's coordinator.

Offsets that count when the transaction commits. Until then they are pending, and keep the group from expiring.

1   the client does its own throttling
2   leader epoch of the last consumed record
3   flexible; generation, member and group instance id are checked: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID (KIP-447). Generation -1 with no member: no check
4   TRANSACTION_ABORTABLE may be answered
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32, "0+")
    committed_offset: int = field(INT64, "0+")
    committed_leader_epoch: int = field(INT32, "2+", default=-1)
    committed_metadata: str | None = field(STRING, "0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition), "0+")


class TxnOffsetCommitRequest(Message):
    API_KEY = 28
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    transactional_id: str = field(STRING, "0+")
    group_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    generation_id: int = field(INT32, "3+", default=-1)
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic), "0+")


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition), "0+")


class TxnOffsetCommitResponse(Message):
    API_KEY = 28
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "0+")
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic), "0+")
