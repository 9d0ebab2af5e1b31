"""SaslAuthenticate: API key 36, versions 0-2, flexible from 2. On a connection, after SaslHandshake version 1.

Carries one token of the chosen mechanism in each direction.

1   lifetime of the session in the response: the client authenticates again before it is over (KIP-368); 0 is for ever
2   flexible

SASL_AUTHENTICATION_FAILED comes with a message, and then the connection closes. ILLEGAL_SASL_STATE: no handshake.
"""

from odradek.protocol.fields import BYTES, INT16, INT64, STRING, Message, field


class SaslAuthenticateRequest(Message):
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    auth_bytes: bytes = field(BYTES, "0+")


class SaslAuthenticateResponse(Message):
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    auth_bytes: bytes = field(BYTES, "0+")
    session_lifetime_ms: int = field(INT64, "1+")
