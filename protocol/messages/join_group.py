"""JoinGroup (key 11), versions 0-9, flexible from 6+."""

from odradek.protocol.fields import BOOL, BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str = field(STRING, "0+")
    metadata: bytes = field(BYTES, "0+")


class JoinGroupRequest(Message):
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    group_id: str = field(STRING, "0+")
    session_timeout_ms: int = field(INT32, "0+")
    rebalance_timeout_ms: int = field(INT32, "1+", default=-1)
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_type: str = field(STRING, "0+")
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol), "0+")
    reason: str | None = field(STRING, "8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None)
    metadata: bytes = field(BYTES, "0+")


class JoinGroupResponse(Message):
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = field(INT32, "2+")
    error_code: int = field(INT16, "0+")
    generation_id: int = field(INT32, "0+", default=-1)
    protocol_type: str | None = field(STRING, "7+", nullable="7+", default=None)
    protocol_name: str | None = field(STRING, "0+", nullable="7+")
    leader: str = field(STRING, "0+")
    skip_assignment: bool = field(BOOL, "9+")
    member_id: str = field(STRING, "0+")
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember), "0+")
