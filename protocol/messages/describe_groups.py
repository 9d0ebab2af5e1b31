"""DescribeGroups: API key 15, versions 0-5, flexible from 5. To the groups' coordinator.

State, protocol and members of classic groups. A group that does not exist is Dead, with no members and no error.

1   throttle time
2   the client does its own throttling
3   authorized operations, when asked for; -2147483648 is "not asked"
4   group instance ids
5   flexible

Metadata and assignments of members are there only while the group is Stable; else the bytes are empty.
"""

from odradek.protocol.fields import BOOL, BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeGroupsRequest(Message):
    API_KEY = 15
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 5

    groups: list[str] = field(Array(STRING), "0+")
    include_authorized_operations: bool = field(BOOL, "3+")


class DescribedGroupMember(Struct):
    member_id: str = field(STRING, "0+")
    group_instance_id: str | None = field(STRING, "4+", nullable="4+", default=None)
    client_id: str = field(STRING, "0+")
    client_host: str = field(STRING, "0+")
    member_metadata: bytes = field(BYTES, "0+")
    member_assignment: bytes = field(BYTES, "0+")


class DescribedGroup(Struct):
    error_code: int = field(INT16, "0+")
    group_id: str = field(STRING, "0+")
    group_state: str = field(STRING, "0+")
    protocol_type: str = field(STRING, "0+")
    protocol_data: str = field(STRING, "0+")
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember), "0+")
    authorized_operations: int = field(INT32, "3+", default=-0x8000_0000)


class DescribeGroupsResponse(Message):
    API_KEY = 15
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 5

    throttle_time_ms: int = field(INT32, "1+")
    groups: list[DescribedGroup] = field(Array(DescribedGroup), "0+")
