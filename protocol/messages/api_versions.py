"""ApiVersions (key 18), versions 0-4, flexible from 3+."""

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
