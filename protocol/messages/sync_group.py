"""SyncGroup: API key 14, versions 0-5, flexible from 4. To the group's coordinator.

The leader brings the assignment, every member gets its own part. The followers' answers wait for the leader's request.

1   throttle time
2   the client does its own throttling
3   group instance id
4   flexible
5   protocol type and name, in both directions; INCONSISTENT_GROUP_PROTOCOL when they are not the group's

Assignments are opaque bytes; a member for whom the leader brought nothing gets empty bytes, never null.
"""

from odradek.protocol.fields import BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(STRING, "0+")
    assignment: bytes = field(BYTES, "0+")


class SyncGroupRequest(Message):
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    group_id: str = field(STRING, "0+")
    generation_id: int = field(INT32, "0+")
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment), "0+")


class SyncGroupResponse(Message):
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0+")
    protocol_type: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = field(STRING, "5+", nullable="5+", default=None)
    assignment: bytes = field(BYTES, "0+")
