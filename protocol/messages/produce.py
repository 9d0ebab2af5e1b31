"""Produce: API key 0, versions 0-11, flexible from 9. To the leader of each partition.

Appends record batches. `acks` says when the answer comes: 1 when the leader has written, -1 when the whole in-sync
replica set has, 0 never: such a request has no response at all, and an error closes its connection instead. Any other
number is INVALID_REQUIRED_ACKS with base offset -1 (clients of 0.8 used larger ones; KIP-1 ended that).

1   throttle time in the response
2   log append time in the response: -1 unless the topic stamps its records itself. Records may be of magic 1
3   transactional id; records are of magic 2, and each partition's are exactly one batch
4   KAFKA_STORAGE_ERROR may be answered
5   log start offset in the response (-1 with an error)
6   the client does its own throttling; before, the broker delayed the answer
7   zstd may be used; below 7 it is UNSUPPORTED_COMPRESSION_TYPE
8   the records that were at fault, by index, and a message (KIP-467)
9   flexible
10  current leader and its endpoint with NOT_LEADER_OR_FOLLOWER, so that the client need not ask for metadata (KIP-951)
11  TRANSACTION_ABORTABLE may be answered; below it is INVALID_TXN_STATE

The answer has one entry for every partition of the request and no other. Null records and an empty batch are refused;
a duplicate of one of the producer's last five batches gets the offset of the first and no error.
"""

from odradek.protocol.fields import INT16, INT32, INT64, RECORDS, STRING, Array, Message, Struct, field
from odradek.protocol.primitives import Records


class PartitionProduceData(Struct):
    index: int = field(INT32, "0+")
    records: Records = field(RECORDS, "0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = field(STRING, "0+")
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData), "0+")


class ProduceRequest(Message):
    API_KEY = 0
    VERSIONS = (0, 11)
    FLEXIBLE_FROM = 9

    transactional_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    acks: int = field(INT16, "0+")
    timeout_ms: int = field(INT32, "0+")
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData), "0+")


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(INT32, "8+")
    batch_index_error_message: str | None = field(STRING, "8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "10+", default=-1)
    leader_epoch: int = field(INT32, "10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    base_offset: int = field(INT64, "0+")
    log_append_time_ms: int = field(INT64, "2+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = field(STRING, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = field(STRING, "0+")
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse), "0+")


class NodeEndpoint(Struct):
    node_id: int = field(INT32, "10+")
    host: str = field(STRING, "10+")
    port: int = field(INT32, "10+")
    rack: str | None = field(STRING, "10+", nullable="10+", default=None)


class ProduceResponse(Message):
    API_KEY = 0
    VERSIONS = (0, 11)
    FLEXIBLE_FROM = 9

    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse), "0+")
    throttle_time_ms: int = field(INT32, "1+")
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "10+", tag=0)
