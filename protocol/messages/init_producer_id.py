"""InitProducerId (key 22), versions 0-5, flexible from 2+."""

from odradek.protocol.fields import INT16, INT32, INT64, STRING, Message, field


class InitProducerIdRequest(Message):
    API_KEY = 22
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2

    transactional_id: str | None = field(STRING, "0+", nullable="0+")
    transaction_timeout_ms: int = field(INT32, "0+")
    producer_id: int = field(INT64, "3+", default=-1)
    producer_epoch: int = field(INT16, "3+", default=-1)


class InitProducerIdResponse(Message):
    API_KEY = 22
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    producer_id: int = field(INT64, "0+", default=-1)
    producer_epoch: int = field(INT16, "0+")
