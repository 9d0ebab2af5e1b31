"""DescribeAcls: API key 29, versions 0-3, flexible from 2. To any broker.

The access control entries that a filter matches. SECURITY_DISABLED where there is no authorizer.

1   pattern type (3 literal, 4 prefixed; filters also 1 any, 2 match); the client does its own throttling
2   flexible
3   resource type 7, user

Numbers are Kafka's AclOperation, AclPermissionType, ResourceType; 1 is "any" in filters.
"""

from odradek.protocol.fields import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeAclsRequest(Message):
    API_KEY = 29
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    resource_type_filter: int = field(INT8, "0+")
    resource_name_filter: str | None = field(STRING, "0+", nullable="0+")
    pattern_type_filter: int = field(INT8, "1+", default=3)
    principal_filter: str | None = field(STRING, "0+", nullable="0+")
    host_filter: str | None = field(STRING, "0+", nullable="0+")
    operation: int = field(INT8, "0+")
    permission_type: int = field(INT8, "0+")


class AclDescription(Struct):
    principal: str = field(STRING, "0+")
    host: str = field(STRING, "0+")
    operation: int = field(INT8, "0+")
    permission_type: int = field(INT8, "0+")


class DescribeAclsResource(Struct):
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    pattern_type: int = field(INT8, "1+", default=3)
    acls: list[AclDescription] = field(Array(AclDescription), "0+")


class DescribeAclsResponse(Message):
    API_KEY = 29
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    resources: list[DescribeAclsResource] = field(Array(DescribeAclsResource), "0+")
