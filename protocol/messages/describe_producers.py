"""DescribeProducers: API key 61, version 0, flexible from 0. To the leader.

The producer state of partitions: ids, epochs, last sequences, and where an open transaction starts (-1: none).
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class TopicRequest(Struct):
    name: str = field(STRING, "0+")
    partition_indexes: list[int] = field(Array(INT32), "0+")


class DescribeProducersRequest(Message):
    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topics: list[TopicRequest] = field(Array(TopicRequest), "0+")


class ProducerState(Struct):
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT32, "0+")
    last_sequence: int = field(INT32, "0+", default=-1)
    last_timestamp: int = field(INT64, "0+", default=-1)
    coordinator_epoch: int = field(INT32, "0+")
    current_txn_start_offset: int = field(INT64, "0+", default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = field(Array(ProducerState), "0+")


class TopicResponse(Struct):
    name: str = field(STRING, "0+")
    partitions: list[PartitionResponse] = field(Array(PartitionResponse), "0+")


class DescribeProducersResponse(Message):
    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    topics: list[TopicResponse] = field(Array(TopicResponse), "0+")
