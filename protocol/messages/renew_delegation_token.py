"""RenewDelegationToken: API key 39, versions 0-2, flexible from 2. To the controller.

Moves the expiry of a token up to, at most, the end of its life.

1   the client does its own throttling
2   flexible
"""

from odradek.protocol.fields import BYTES, INT16, INT32, INT64, Message, field


class RenewDelegationTokenRequest(Message):
    API_KEY = 39
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    hmac: bytes = field(BYTES, "0+")
    renew_period_ms: int = field(INT64, "0+")


class RenewDelegationTokenResponse(Message):
    API_KEY = 39
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    error_code: int = field(INT16, "0+")
    expiry_timestamp_ms: int = field(INT64, "0+")
    throttle_time_ms: int = field(INT32, "0+")
