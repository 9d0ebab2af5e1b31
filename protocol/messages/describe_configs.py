"""DescribeConfigs (key 32), versions 0-4, flexible from 4+."""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    configuration_keys: list[str] | None = field(Array(STRING), "0+", nullable="0+")


class DescribeConfigsRequest(Message):
    API_KEY = 32
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource), "0+")
    include_synonyms: bool = field(BOOL, "1+")
    include_documentation: bool = field(BOOL, "3+")


class DescribeConfigsSynonym(Struct):
    name: str = field(STRING, "1+")
    value: str | None = field(STRING, "1+", nullable="0+")
    source: int = field(INT8, "1+")


class DescribeConfigsResourceResult(Struct):
    name: str = field(STRING, "0+")
    value: str | None = field(STRING, "0+", nullable="0+")
    read_only: bool = field(BOOL, "0+")
    is_default: bool = field(BOOL, "0")
    config_source: int = field(INT8, "1+", default=-1)
    is_sensitive: bool = field(BOOL, "0+")
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym), "1+")
    config_type: int = field(INT8, "3+")
    documentation: str | None = field(STRING, "3+", nullable="0+")


class DescribeConfigsResult(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    resource_type: int = field(INT8, "0+")
    resource_name: str = field(STRING, "0+")
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult), "0+")


class DescribeConfigsResponse(Message):
    API_KEY = 32
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = field(INT32, "0+")
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult), "0+")
