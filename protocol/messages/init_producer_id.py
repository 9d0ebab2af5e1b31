"""InitProducerId: API key 22, versions 0-5, flexible from 2.

To the transaction coordinator; any broker when there is no transactional id.

Gives a producer its id and epoch. For a transactional id it also fences the producer before, and ends that one's
transaction.

1   the client does its own throttling
2   flexible
3   the id and epoch the producer has, to go on after a fatal error with the next epoch: both or neither (KIP-360)
4   PRODUCER_FENCED may be answered; below it is INVALID_PRODUCER_EPOCH
5   TRANSACTION_ABORTABLE may be answered

After epoch 32767 there is a new id. A null transactional id is idempotence only; an empty one is INVALID_REQUEST.
"""

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
