"""CreateAcls: API key 30, versions 0-3, flexible from 2. To any broker; clients use the controller.

Adds access control entries, with a result for each in the order of the request.

1   pattern type; without it, literal. The client does its own throttling
2   flexible
3   resource type 7, user
"""

from odradek.protocol.fields import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AclCreation(Struct):
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    resource_pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    operation: int = field(INT8, "0+")
    permission_type: int = field(INT8, "0+")


class CreateAclsRequest(Message):
    API_KEY = 30
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    creations: list[AclCreation] = field(Array(AclCreation), "0+")


class AclCreationResult(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


class CreateAclsResponse(Message):
    API_KEY = 30
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    results: list[AclCreationResult] = field(Array(AclCreationResult), "0+")
