"""JoinGroup: API key 11, versions 0-9, flexible from 6. To the group's coordinator.

Enters a group, or enters it again for the next generation. The answer waits until all members are there or the
rebalance timeout is over; the leader's answer lists the members with their metadata, the others' lists nobody.

1   rebalance timeout; in version 0 it is the session timeout
2   throttle time
3   the client does its own throttling
4   a new member is first refused with MEMBER_ID_REQUIRED and the id it shall use, so that lost answers leave no ghosts
5   group instance id: a member that comes back under it does not start a rebalance (KIP-345)
6   flexible
7   protocol type in the response; protocol name nullable there
8   reason, for the coordinator's log (KIP-800)
9   the leader may be told to leave the assignment alone (`skip_assignment`, for a static leader that returns)

Below 7 the protocol name is "" and never null. Metadata is opaque, may be empty, and is never null.
"""

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
