"""EndTxn: API key 26, versions 0-4, flexible from 3. To the transaction coordinator.

Commits or aborts. The answer comes when the decision is in the transaction log; markers follow it.

1   the client does its own throttling
2   PRODUCER_FENCED may be answered; below it is INVALID_PRODUCER_EPOCH
3   flexible
4   TRANSACTION_ABORTABLE may be answered

The same decision again succeeds; the other one is INVALID_TXN_STATE.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Message, field


class EndTxnRequest(Message):
    API_KEY = 26
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    transactional_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    committed: bool = field(BOOL, "0+")


class EndTxnResponse(Message):
    API_KEY = 26
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
