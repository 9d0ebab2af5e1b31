"""Obeying settings that change in ZooKeeper while the broker runs (KIP-226).

Each setting that may be changed live names its applier where it is declared; the subject that obeys it registers one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from odradek.broker.assembly import Assembly, set_rates
from odradek.broker.config import BrokerConfig
from odradek.broker.log.log_manager import LogManager
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.security.scram_credentials import Credentials
from odradek.broker.settings.catalog import BROKER_SETTINGS, known_setting
from odradek.broker.settings.layers import Layers
from odradek.security.scram import ScramIdentity
from odradek.zk_schema.znodes.configs import IPS, USERS, desanitize

Apply = Callable[[BrokerConfig], object]

APPLIERS: Final[frozenset[str]] = frozenset(one.live for one in BROKER_SETTINGS.values() if one.live)
"""Names of all appliers. `each-use` has nothing to do: its settings are read at each use, or at the next start."""


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
        """Call the appliers whose settings differ. One that is not registered yet begins with the new settings
        anyway."""
        called = {applier for name in _names(before, after.layers) if (applier := _changed(name, before, after.layers))}
        for applier in sorted(called & self._appliers.keys()):
            self._appliers[applier](after)

    def apply_again(self, applier: str, config: BrokerConfig) -> None:
        """Call an applier although no setting differs."""
        self._appliers[applier](config)


def _names(*layers: Layers) -> set[str]:
    """Collect what was set while the broker ran, before or after, which is all that can differ."""
    return {name for one in layers for name in (*one.dynamic_default, *one.dynamic_broker)}


def _changed(name: str, before: Layers, after: Layers) -> str:
    """Return the applier of a setting if its value differs; "" if not."""
    setting = known_setting(name)
    return setting.live if setting is not None and before.given(name) != after.given(name) else ""


class SettingChanges:
    """Settings of this broker as they are now, and what is done when they, or those of others, have changed.

    A part that is not there yet when a setting changes begins with the new one.
    """

    def __init__(self, config: BrokerConfig, sockets: SocketServer) -> None:
        self.config = config
        self.credentials = Credentials()
        """SCRAM credentials of users."""
        self._sockets = sockets
        self._live = LiveSettings()
        self._live.register("sockets", sockets.configure)
        self._logs: LogManager | None = None
        self._assembly: Assembly | None = None
        self._entities: dict[str, Mapping[str, str]] = {}
        """Settings of users, clients and addresses that were read before there was anybody to obey them."""

    def register(self, applier: str, apply: Apply) -> None:
        """Have `apply` called with all settings when one of those that name this applier has changed."""
        self._live.register(applier, apply)

    def obeyed_by_logs(self, logs: LogManager) -> None:
        """Have the logs obey changes from now on."""
        self._logs = logs
        self._live.register("logs", partial(_configure_logs, logs))

    def obeyed_by(self, assembly: Assembly) -> None:
        """Have the broker's objects, which were just made with the present settings, obey changes from now on."""
        self._assembly = assembly
        services, live = assembly.services, self._live
        live.register("each-use", lambda config: None)  # `services.config` is what is read at each use
        live.register("controller", services.controller.configure)
        live.register("throttles", partial(set_rates, assembly.throttling))
        live.register("fetchers", lambda config: assembly.fetchers.resize(config.num_replica_fetchers))
        assert not live.missing, live.missing
        for entity, settings in self._entities.items():
            self._quota_changed(assembly, entity, settings)

    def broker_changed(self, config: BrokerConfig) -> None:
        """Obey dynamic settings of this broker, or of all, that ZooKeeper has now (KIP-226)."""
        before, self.config = self.config.layers, config
        if self._assembly is not None:
            self._assembly.services.config = config
        self._live.apply(before, config)

    def own_told(self) -> None:
        """Read the files of keys and certificates anew: others may be in them, though the paths are as they were
        (DynamicBrokerConfig.reloadUpdatedFilesWithoutConfigChange)."""
        self._live.apply_again("tls", self.config)

    def topic_changed(self, topic: str) -> None:
        """Obey the settings of a topic, which have changed."""
        if self._assembly is not None and self._logs is not None:
            self._logs.configure(topic)
            if self._logs.config_of(topic).unclean_leader_election_enable:
                self._assembly.services.controller.unclean_election_enabled(topic)

    def entity_changed(self, entity: str, settings: Mapping[str, str]) -> None:
        """Obey changed settings of a user, client or address: SCRAM credentials, if it is a user, and quotas."""
        kind, _, name = entity.partition("/")
        if kind == USERS and "/" not in name:
            self.credentials.set_user(desanitize(name), settings)
        if self._assembly is None:
            self._entities[entity] = settings
        else:
            self._quota_changed(self._assembly, entity, settings)

    def find_scram(self, mechanism: str, name: str, token: bool) -> ScramIdentity | None:
        """Find the user, or with `token` the delegation token, that a SCRAM client has to prove to be."""
        if not token:
            return self.credentials.find(mechanism, name)
        return None if self._assembly is None else self._assembly.services.tokens.find(mechanism, name)

    def _quota_changed(self, assembly: Assembly, entity: str, settings: Mapping[str, str]) -> None:
        """Set an entity's quotas. With the first quota everything is measured, with the last one gone nothing more."""
        kind, _, name = entity.partition("/")
        if kind == IPS:
            assert self._sockets.address_rates is not None
            self._sockets.address_rates.set_address(name, settings)
            return
        quotas = assembly.services.quotas
        before = quotas.any
        quotas.set_entity(entity, settings)
        if quotas.any is not before:
            assembly.dispatcher.forget_routes()


def _configure_logs(logs: LogManager, config: BrokerConfig) -> None:
    logs.configure_broker(config)
    logs.configure_all()
