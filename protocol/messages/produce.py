"""Produce (key 0), versions 0-11, flexible from 9+."""

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
