"""DescribeConfigs: API key 32, versions 0-4, flexible from 4.

To any broker; for a broker's or its loggers' own settings to that broker.

Settings of topics (resource type 2), brokers (4) and broker loggers (8), with where each value comes from.

1   synonyms when asked for: every place where the value could have been set, in the order of precedence. The source of
    the value instead of the flag that it is the default
2   the client does its own throttling
3   type of the value and, when asked for, its documentation
4   flexible

Null keys mean all. An empty broker name is the cluster's dynamic default. Sensitive values are null. Sources: 1 topic,
2 broker (dynamic), 3 cluster default (dynamic), 4 broker file, 5 built-in default, 6 broker logger. Types: 1 boolean,
2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
"""

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
