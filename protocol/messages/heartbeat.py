"""Heartbeat: API key 12, versions 0-4, flexible from 4. To the group's coordinator.

Keeps a member in its group, and tells it when to join again: REBALANCE_IN_PROGRESS. UNKNOWN_MEMBER_ID and
ILLEGAL_GENERATION mean that it is out.

1   throttle time
2   the client does its own throttling
3   group instance id; FENCED_INSTANCE_ID when another member has it
4   flexible
"""

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
