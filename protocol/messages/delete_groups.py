"""DeleteGroups: API key 42, versions 0-2, flexible from 2. To the groups' coordinator.

Removes groups that have no members, with their offsets. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.

1   the client does its own throttling
2   flexible
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class DeleteGroupsRequest(Message):
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    groups_names: list[str] = field(Array(STRING), "0+")


class DeletableGroupResult(Struct):
    group_id: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")


class DeleteGroupsResponse(Message):
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult), "0+")
