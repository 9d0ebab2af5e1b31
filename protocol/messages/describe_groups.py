"""DescribeGroups (key 15), versions 0-5, flexible from 5+."""

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
