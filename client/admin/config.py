"""Settings of the administrative client."""

from dataclasses import dataclass

from odradek.client.config import CommonConfig, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(CommonConfig):
    """Kafka's names, types and defaults (AdminClientConfig)."""

    default_api_timeout_ms: int = setting(60_000, at_least=0)
