"""AddOffsetsToTxn (key 25), versions 0-4, flexible from 3+."""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Message, field


class AddOffsetsToTxnRequest(Message):
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    group_id: str = field(STRING, "0+")


class AddOffsetsToTxnResponse(Message):
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
