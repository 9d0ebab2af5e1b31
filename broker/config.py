"""A broker's settings as typed values, and how they are read from a `.properties` file.

The attributes stand in the classes of settings/, one for each subject, whose code takes a BrokerConfig under that type.
Only settings that the broker obeys have an attribute; `BrokerConfig.value` returns every other.
"""

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from odradek.broker.settings import checks, providers
from odradek.broker.settings.catalog import (
    BROKER_SETTINGS,
    LEGACY_NAMES,
    OTHER_FEATURES,
    known_setting,
    nearest_name,
)
from odradek.broker.settings.cluster_settings import ControllerSettings, LoggerSettings, QuotaSettings, ServerSettings
from odradek.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from odradek.broker.settings.definition import HIDDEN, BadValue, Effect, Value, setting_name
from odradek.broker.settings.layers import Layers
from odradek.broker.settings.listener_endpoints import Listeners, resolve_listeners
from odradek.broker.settings.log_settings import LogManagerSettings, TopicDefaults
from odradek.broker.settings.network_settings import ConnectionSettings, FetcherSettings, ReplicationSettings
from odradek.broker.settings.properties import BadProperties, parse_properties
from odradek.broker.settings.security_settings import AuthorizerSettings
from odradek.world.files import Files
from odradek.world.os_files import OsFiles

log = logging.getLogger(__name__)

OVERRIDE: Final = "--override"


class ConfigError(Exception):
    """Refusal of a broker's settings, in one line for the person who wrote them."""


class Given(NamedTuple):
    """A setting as somebody wrote it. `origin` is file:line, or where else it came from."""

    name: str
    text: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(
    ServerSettings,
    ControllerSettings,
    ConnectionSettings,
    FetcherSettings,
    ReplicationSettings,
    LogManagerSettings,
    TopicDefaults,
    GroupSettings,
    TransactionSettings,
    AuthorizerSettings,
    QuotaSettings,
    LoggerSettings,
):
    """Sizes in bytes, times in milliseconds unless the name says otherwise. Replaced as a whole when one changes.

    Settings that can be written in several units (log.retention.ms, .minutes, .hours) are here in milliseconds alone.
    `listeners` and `advertised_listeners` go together by name; a host of "" is every interface, and the advertised ones
    then have the machine's own name if the settings come from load_config.
    """

    layers: Layers

    @classmethod
    def of(cls, layers: Layers) -> "BrokerConfig":
        """Return the settings that these layers amount to. Raises BadValue."""
        listeners = resolve_listeners(lambda name: _given_listener(layers, name))
        values: dict[str, Any] = {}
        for one in fields(cls):
            if "setting" in one.metadata:
                values[one.name] = layers.value(setting_name(one.name))
        values.update(_derived(layers, listeners))
        checks.check(layers, values)
        return cls(layers=layers, **values)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> "BrokerConfig":
        """Return these settings with other dynamic ones, of all brokers and of this one. Raises BadValue."""
        return BrokerConfig.of(self.layers.with_dynamic(default, broker))

    def value(self, name: str) -> Value:
        """Return the value of any setting of the tables, by Kafka's name."""
        return self.layers.value(name)


def _given_listener(layers: Layers, name: str) -> str | None:
    if name == "listener.security.protocol.map":
        return layers.text(name)
    return layers.given(name)


def _derived(layers: Layers, listeners: Listeners) -> dict[str, Any]:
    """Return the values that follow from more than their own text."""
    session_timeout = layers.value("zookeeper.session.timeout.ms")
    connection_timeout = layers.value("zookeeper.connection.timeout.ms")
    retention_ms = layers.milliseconds("log.retention.ms")
    log_dirs = checks.log_directories(layers)
    moves = layers.value("num.replica.alter.log.dirs.threads")
    return {
        "listeners": listeners.bound,
        "advertised_listeners": tuple(one._replace(host=one.host or layers.own_host) for one in listeners.advertised),
        "inter_broker_listener_name": listeners.inter_broker,
        "control_plane_listener_name": listeners.control_plane,
        "zookeeper_connection_timeout_ms": session_timeout if connection_timeout is None else connection_timeout,
        "log_dirs": log_dirs,
        "num_replica_alter_log_dirs_threads": len(log_dirs) if moves is None else max(moves, 1),
        "log_roll_ms": layers.milliseconds("log.roll.ms"),
        "log_roll_jitter_ms": layers.milliseconds("log.roll.jitter.ms"),
        "log_retention_ms": -1 if retention_ms < 0 else retention_ms,
        "log_flush_interval_ms": layers.milliseconds("log.flush.interval.ms"),
        "max_connections_per_ip_overrides": checks.connection_overrides(layers),
        "listener_limits": checks.listener_limits(layers),
    }


def load_config(
    path: str,
    overrides: Sequence[str] = (),
    files: Files | None = None,
    own_host: Callable[[], str] = socket.getfqdn,
    origins: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Return the settings of a properties file; `overrides`, as `key=value`, count before those in the file.

    `origins` says, by the setting's name, where an override comes from, as messages are to show it.
    `own_host` is asked for the machine's name only when a listener without a host is to be advertised. Logs a warning
    for each setting that is unknown or has no effect. Raises ConfigError, and OSError for the file.
    """
    text = (files or OsFiles()).read(path).decode("utf-8", "replace")
    try:
        given = [Given(one.key, one.value, f"{path}:{one.line}") for one in parse_properties(text)]
    except BadProperties as error:
        raise ConfigError(f"{path}:{error.line}: {error.reason}") from None
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{OVERRIDE} {override}: not key=value")
        given.append(Given(name.strip(), value.strip(), (origins or {}).get(name.strip(), OVERRIDE)))
    config = build_config(given)
    if all(listener.host for listener in config.advertised_listeners):
        return config
    return BrokerConfig.of(replace(config.layers, own_host=own_host()))


def build_config(given: Sequence[Given]) -> BrokerConfig:
    """Make the settings of a list in which the last one of a name counts. Warns as load_config does; raises
    ConfigError."""
    config, remarks = read_config(given)
    for remark in remarks:
        log.warning("%s", remark)
    return config


def read_config(given: Sequence[Given]) -> tuple[BrokerConfig, list[str]]:
    """Return the settings, and a line for people about each that is unknown or has no effect. Raises ConfigError."""
    last = _with_values({one.name: one for one in given})
    remarks = [remark for one in last.values() if (remark := _look_at(one)) is not None]
    texts = {name: one.text for name, one in last.items()}
    if "broker.id" not in texts and "node.id" in texts:
        texts["broker.id"] = texts["node.id"]
    elif "broker.id" in texts and "node.id" not in texts:
        texts["node.id"] = texts["broker.id"]
    try:
        return BrokerConfig.of(Layers(texts)), remarks
    except BadValue as error:
        raise _config_error(error, last.get(error.name)) from None


def _with_values(given: dict[str, Given]) -> dict[str, Given]:
    """Put values from files or the environment in the place of references to them. Raises ConfigError."""
    if providers.SETTING not in given:
        return given
    try:
        texts = providers.resolve({name: one.text for name, one in given.items()})
    except BadValue as error:
        raise ConfigError(f"{given[error.name].origin}: {error.name}: {error.reason}") from None
    return {
        name: one._replace(text=texts[name]) for name, one in given.items() if not providers.is_about_providers(name)
    }


def _look_at(given: Given) -> str | None:
    """Judge one setting by itself; return a remark about it, or None. Raises ConfigError."""
    name = given.name
    setting = known_setting(name)
    if setting is None:
        if name not in LEGACY_NAMES and not OTHER_FEATURES.match(name):
            nearest = nearest_name(name)
            hint = "" if nearest is None else f", did you mean {nearest}?"
            return f"{given.origin}: {name} is not a setting of Kafka's{hint}"
        if name not in LEGACY_NAMES:
            return f"{given.origin}: {name} has no effect here"
        return None
    try:
        is_default = setting.read(given.text) == setting.read(setting.default)
    except BadValue as error:
        raise _config_error(error, given) from None
    if setting.effect is Effect.REFUSED and not is_default:
        raise ConfigError(f"{given.origin}: {name}={_shown(given)}: refused, {setting.reason}")
    if setting.effect is Effect.NONE and not is_default:
        return f"{given.origin}: {name} has no effect here" + (f": {setting.reason}" if setting.reason else "")
    return None


def _config_error(error: BadValue, given: Given | None) -> ConfigError:
    setting = BROKER_SETTINGS.get(error.name)
    where = "" if given is None else f"{given.origin}: "
    name, value = (error.name, error.text) if given is None else (given.name, _shown(given))
    said = f"{where}{name}: {error.reason}" if value is None else f"{where}{name}={value}: {error.reason}"
    if setting is None or (setting.allowed == "any" and setting.type.value in ("string", "class", "list")):
        return ConfigError(said)
    return ConfigError(f"{said} (allowed: {setting.allowed_in_words()})")


def _shown(given: Given) -> str:
    """Return a value as it may be shown. Unknown settings may be secrets too, but only known ones come here."""
    setting = known_setting(given.name)
    return HIDDEN if setting is not None and setting.is_sensitive else given.text
