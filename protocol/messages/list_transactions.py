"""ListTransactions: API key 66, versions 0-1, flexible from 0. To every broker, which lists those it coordinates.

Filtered by states and producer ids; states that nobody knows come back in the answer.

1   only those that run for at least so many milliseconds; -1: all (KIP-994)
"""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ListTransactionsRequest(Message):
    API_KEY = 66
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    state_filters: list[str] = field(Array(STRING), "0+")
    producer_id_filters: list[int] = field(Array(INT64), "0+")
    duration_filter: int = field(INT64, "1+", default=-1)


class TransactionState(Struct):
    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    transaction_state: str = field(STRING, "0+")


class ListTransactionsResponse(Message):
    API_KEY = 66
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    unknown_state_filters: list[str] = field(Array(STRING), "0+")
    transaction_states: list[TransactionState] = field(Array(TransactionState), "0+")
