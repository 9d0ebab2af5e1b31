"""IncrementalAlterConfigs: API key 44, versions 0-1, flexible from 1.

To any broker; for a broker's own settings to that broker.

Changes single settings: 0 set, 1 delete, 2 append to a list, 3 subtract from it.

1   flexible

The same setting twice for one resource is INVALID_REQUEST. Resource types as in DescribeConfigs.
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AlterableConfig(Struct):
    name: str = field(STRING, "0+")
    config_operation: int = field(INT8, "0+")
    value: str | None = field(STRING, "0+", nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    configs: list[AlterableConfig] = field(Array(AlterableConfig), "0+")


class IncrementalAlterConfigsRequest(Message):
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource), "0+")
    validate_only: bool = field(BOOL, "0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")


class IncrementalAlterConfigsResponse(Message):
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    throttle_time_ms: int = field(INT32, "0+")
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse), "0+")
