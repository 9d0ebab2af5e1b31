"""UpdateFeatures: API key 57, versions 0-1, flexible from 0. To the controller.

Changes finalized features. A ZooKeeper-mode cluster here has none to change.

1   upgrade type (1 upgrade, 2 safe downgrade, 3 unsafe downgrade) instead of the flag that allows a downgrade;
    `validate_only`
"""

from odradek.protocol.fields import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field(STRING, "0+")
    max_version_level: int = field(INT16, "0+")
    allow_downgrade: bool = field(BOOL, "0")
    upgrade_type: int = field(INT8, "1+", default=1)


class UpdateFeaturesRequest(Message):
    API_KEY = 57
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    timeout_ms: int = field(INT32, "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field(Array(FeatureUpdateKey), "0+")
    validate_only: bool = field(BOOL, "1+")


class UpdatableFeatureResult(Struct):
    feature: str = field(STRING, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")


class UpdateFeaturesResponse(Message):
    API_KEY = 57
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field(Array(UpdatableFeatureResult), "0+")
