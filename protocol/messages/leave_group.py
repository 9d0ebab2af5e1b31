"""LeaveGroup: API key 13, versions 0-5, flexible from 4. To the group's coordinator.

Takes members out of their group at once, without waiting for their session timeouts.

1   throttle time
2   the client does its own throttling
3   several members, by member id or by group instance id (tools remove static members), with an error for each
4   flexible
5   reason, for the coordinator's log
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class MemberIdentity(Struct):
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    reason: str | None = field(STRING, "5+", nullable="5+", default=None)


class LeaveGroupRequest(Message):
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    group_id: str = field(STRING, "0+")
    member_id: str = field(STRING, "0-2")
    members: list[MemberIdentity] = field(Array(MemberIdentity), "3+")


class MemberResponse(Struct):
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+")
    error_code: int = field(INT16, "3+")


class LeaveGroupResponse(Message):
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0+")
    members: list[MemberResponse] = field(Array(MemberResponse), "3+")
