"""SaslHandshake (key 17), versions 0-1, flexible from none."""

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
