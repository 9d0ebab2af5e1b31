"""SaslHandshake: API key 17, versions 0-1, never flexible.

On a connection that is not authenticated yet, or shall be again.

Chooses a SASL mechanism. UNSUPPORTED_SASL_MECHANISM comes with the list of those that are enabled.

0   what follows are the mechanism's own tokens, each behind an int32 size and without any header of Kafka
1   what follows are SaslAuthenticate requests

Never flexible, so that old brokers and clients understand each other here.
"""

from odradek.protocol.fields import INT16, STRING, Array, Message, field


class SaslHandshakeRequest(Message):
    API_KEY = 17
    VERSIONS = (0, 1)

    mechanism: str = field(STRING, "0+")


class SaslHandshakeResponse(Message):
    API_KEY = 17
    VERSIONS = (0, 1)

    error_code: int = field(INT16, "0+")
    mechanisms: list[str] = field(Array(STRING), "0+")
