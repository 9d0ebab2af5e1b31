"""Heartbeat (key 12), versions 0-4, flexible from 4+."""

from odradek.protocol.fields import INT16, INT32, STRING, Message, field


class HeartbeatRequest(Message):
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    group_id: str = field(STRING, "0+")
    generation_id: int = field(INT32, "0+")
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)


class HeartbeatResponse(Message):
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0+")
