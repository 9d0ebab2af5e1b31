"""Carries changes of settings to those who obey them while the broker runs (KIP-226).

Each setting that may be changed live names its applier where it is declared; the subject that obeys it registers one.
"""

from collections.abc import Callable
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.settings.catalog import BROKER_SETTINGS, known_setting
from odradek.broker.settings.layers import Layers

Apply = Callable[[BrokerConfig], object]

APPLIERS: Final[frozenset[str]] = frozenset(one.live for one in BROKER_SETTINGS.values() if one.live)
"""Names of all appliers; `each-use` is where handlers and the next start read the settings from."""


class LiveSettings:
    """The appliers of one broker. Each is called with all settings when one of its own has changed."""

    def __init__(self) -> None:
        self._appliers: dict[str, Apply] = {}

    def register(self, applier: str, apply: Apply) -> None:
        """Have `apply` called for the settings that name this applier."""
        assert applier in APPLIERS, applier
        self._appliers[applier] = apply

    @property
    def missing(self) -> frozenset[str]:
        """Appliers that settings name and nobody has registered yet."""
        return APPLIERS - self._appliers.keys()

    def apply(self, before: Layers, after: BrokerConfig) -> None:
        """Call the appliers whose settings differ. Whoever is not registered yet begins with the new settings
        anyway."""
        called = {applier for name in _names(before, after.layers) if (applier := _changed(name, before, after.layers))}
        for applier in sorted(called & self._appliers.keys()):
            self._appliers[applier](after)


def _names(*layers: Layers) -> set[str]:
    """Collect what was set while the broker ran, before or after, which is all that can differ."""
    return {name for one in layers for name in (*one.dynamic_default, *one.dynamic_broker)}


def _changed(name: str, before: Layers, after: Layers) -> str:
    """The applier of a setting whose value differs; "" when it does not."""
    setting = known_setting(name)
    return setting.live if setting is not None and before.given(name) != after.given(name) else ""
