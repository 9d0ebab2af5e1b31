"""AllocateProducerIds: API key 67, version 0, flexible from 0. From a broker to the controller.

A block of a thousand producer ids, which nobody else gets. The controller keeps the last block in
/latest_producer_id_block. An older broker epoch is STALE_BROKER_EPOCH.
"""

from odradek.protocol.fields import INT16, INT32, INT64, Message, field


class AllocateProducerIdsRequest(Message):
    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    broker_id: int = field(INT32, "0+")
    broker_epoch: int = field(INT64, "0+", default=-1)


class AllocateProducerIdsResponse(Message):
    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    producer_id_start: int = field(INT64, "0+")
    producer_id_len: int = field(INT32, "0+")
