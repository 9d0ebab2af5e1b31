"""AlterConfigs: API key 33, versions 0-2, flexible from 2. To any broker; for a broker's own settings to that broker.

Replaces all dynamic settings of a resource: what the request does not name goes back to its default.
IncrementalAlterConfigs is what newer clients use.

1   the client does its own throttling
2   flexible
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AlterableConfig(Struct):
    name: str = field(STRING, "0+")
    value: str | None = field(STRING, "0+", nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    configs: list[AlterableConfig] = field(Array(AlterableConfig), "0+")


class AlterConfigsRequest(Message):
    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource), "0+")
    validate_only: bool = field(BOOL, "0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")


class AlterConfigsResponse(Message):
    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = field(INT32, "0+")
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse), "0+")
