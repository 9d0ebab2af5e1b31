r"""ApiVersions: API key 18, versions 0-4, flexible from 3. First on a connection, before authentication.

Which APIs and versions the broker serves.

1   throttle time
2   the client does its own throttling
3   flexible request; name and version of the client's software, which must match
    [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? or are INVALID_REQUEST; features as tagged fields in the response
4   features whose lowest version is 0 may be listed; below 4 they are left out, because clients drop the connection

The header of the response has no tag buffer in any version. A version that the broker does not know is answered in
version 0 with UNSUPPORTED_VERSION and this API's own range alone (KIP-511); closing the connection instead would stop
librdkafka and KafkaJS for good. The list is never null, and lowest versions are 0, which old clients depend on.
No finalized features are sent: `finalized_features_epoch` stays -1.
"""

from odradek.protocol.fields import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ApiVersionsRequest(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    client_software_name: str = field(STRING, "3+")
    client_software_version: str = field(STRING, "3+")


class ApiVersion(Struct):
    api_key: int = field(INT16, "0+")
    min_version: int = field(INT16, "0+")
    max_version: int = field(INT16, "0+")


class SupportedFeatureKey(Struct):
    name: str = field(STRING, "3+")
    min_version: int = field(INT16, "3+")
    max_version: int = field(INT16, "3+")


class FinalizedFeatureKey(Struct):
    name: str = field(STRING, "3+")
    max_version_level: int = field(INT16, "3+")
    min_version_level: int = field(INT16, "3+")


class ApiVersionsResponse(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    error_code: int = field(INT16, "0+")
    api_keys: list[ApiVersion] = field(Array(ApiVersion), "0+")
    throttle_time_ms: int = field(INT32, "1+")
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(INT64, "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(BOOL, "3+", tag=3)
