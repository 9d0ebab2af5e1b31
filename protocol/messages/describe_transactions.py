"""DescribeTransactions: API key 65, version 0, flexible from 0. To the transaction coordinator.

State, producer, timeout, start time (-1: none) and partitions of transactional ids. TRANSACTIONAL_ID_NOT_FOUND.
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DescribeTransactionsRequest(Message):
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    transactional_ids: list[str] = field(Array(STRING), "0+")


class TopicData(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class TransactionState(Struct):
    error_code: int = field(INT16, "0+")
    transactional_id: str = field(STRING, "0+")
    transaction_state: str = field(STRING, "0+")
    transaction_timeout_ms: int = field(INT32, "0+")
    transaction_start_time_ms: int = field(INT64, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    topics: list[TopicData] = field(Array(TopicData), "0+")


class DescribeTransactionsResponse(Message):
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    transaction_states: list[TransactionState] = field(Array(TransactionState), "0+")
