"""ListGroups: API key 16, versions 0-5, flexible from 3. To every broker, which lists the groups it coordinates.

1   throttle time
2   the client does its own throttling
3   flexible
4   filter by states, state of each group (KIP-518)
5   filter by types without regard to case, type of each group: "classic" here (KIP-848)
"""

from odradek.protocol.fields import INT16, INT32, STRING, Array, Message, Struct, field


class ListGroupsRequest(Message):
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    states_filter: list[str] = field(Array(STRING), "4+")
    types_filter: list[str] = field(Array(STRING), "5+")


class ListedGroup(Struct):
    group_id: str = field(STRING, "0+")
    protocol_type: str = field(STRING, "0+")
    group_state: str = field(STRING, "4+")
    group_type: str = field(STRING, "5+")


class ListGroupsResponse(Message):
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = field(INT32, "1+")
    error_code: int = field(INT16, "0+")
    groups: list[ListedGroup] = field(Array(ListedGroup), "0+")
