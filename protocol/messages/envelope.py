"""Envelope: API key 58, version 0, flexible from 0. From a broker to the controller.

Another request with the principal and address of its client, forwarded. In ZooKeeper mode it occurs only while a
cluster migrates.
"""

from odradek.protocol.fields import BYTES, INT16, Message, field


class EnvelopeRequest(Message):
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    request_data: bytes = field(BYTES, "0+")
    request_principal: bytes | None = field(BYTES, "0+", nullable="0+")
    client_host_address: bytes = field(BYTES, "0+")


class EnvelopeResponse(Message):
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    response_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    error_code: int = field(INT16, "0+")
