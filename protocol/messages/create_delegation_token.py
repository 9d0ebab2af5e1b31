"""CreateDelegationToken: API key 38, versions 0-3, flexible from 2. To the controller.

Makes a token with which others may authenticate as its owner.

1   the client does its own throttling
2   flexible
3   an owner other than who asks (KIP-373)

Refused with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on connections without authentication, and on those that were
authenticated by a token; DELEGATION_TOKEN_AUTH_DISABLED where there is no master key.
"""

from odradek.protocol.fields import BYTES, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class CreatableRenewers(Struct):
    principal_type: str = field(STRING, "0+")
    principal_name: str = field(STRING, "0+")


class CreateDelegationTokenRequest(Message):
    API_KEY = 38
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    owner_principal_type: str | None = field(STRING, "3+", nullable="3+")
    owner_principal_name: str | None = field(STRING, "3+", nullable="3+")
    renewers: list[CreatableRenewers] = field(Array(CreatableRenewers), "0+")
    max_lifetime_ms: int = field(INT64, "0+")


class CreateDelegationTokenResponse(Message):
    API_KEY = 38
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    error_code: int = field(INT16, "0+")
    principal_type: str = field(STRING, "0+")
    principal_name: str = field(STRING, "0+")
    token_requester_principal_type: str = field(STRING, "3+")
    token_requester_principal_name: str = field(STRING, "3+")
    issue_timestamp_ms: int = field(INT64, "0+")
    expiry_timestamp_ms: int = field(INT64, "0+")
    max_timestamp_ms: int = field(INT64, "0+")
    token_id: str = field(STRING, "0+")
    hmac: bytes = field(BYTES, "0+")
    throttle_time_ms: int = field(INT32, "0+")
