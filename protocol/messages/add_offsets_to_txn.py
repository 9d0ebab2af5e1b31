"""AddOffsetsToTxn: API key 25, versions 0-4, flexible from 3. To the transaction coordinator.

Puts the offsets partition of a group into a producer's transaction, before TxnOffsetCommit.

1   the client does its own throttling
2   PRODUCER_FENCED may be answered; below it is INVALID_PRODUCER_EPOCH
3   flexible
4   TRANSACTION_ABORTABLE may be answered
"""

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
