"""Changes of settings that the admin client refuses before it asks anybody, and those that it leaves to the broker."""

import asyncio
from typing import Any

import pytest

from odradek.client.admin import configs
from odradek.client.admin.values import ConfigEntry, ConfigResource, ConfigSource
from odradek.client.errors import ConfigError

LISTED = ConfigEntry("log.retention.ms", "5", ConfigSource.DEFAULT_CONFIG, False, False, ())


@pytest.mark.parametrize(
    ("kind", "owner", "name", "known"),
    [
        ("BROKER", "1", "log.retention.ms", True),
        ("BROKER", "1", "log.retention.sm", False),
        ("BROKER", "1", "follower.replication.throttled.rate", True),
        ("BROKER", "1", "listener.name.inside.ssl.keystore.location", True),
        ("BROKER", "", "log.retention.hours", True),
        ("TOPIC", "t", "follower.replication.throttled.rate", False),
    ],
)
def test_a_setting_that_is_not_listed_may_be_there_all_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, owner: str, name: str, known: bool
) -> None:
    resource = ConfigResource(kind, owner)

    async def describe(cluster: Any, resources: list[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry]]:
        return {one: [LISTED] for one in resources}

    monkeypatch.setattr(configs, "describe_configs", describe)
    changes: Any = {resource: [(name, 0, "1")]}
    if known:
        asyncio.run(configs.check_known(None, changes))  # type: ignore[arg-type]
    else:
        with pytest.raises(ConfigError, match=name):
            asyncio.run(configs.check_known(None, changes))  # type: ignore[arg-type]
