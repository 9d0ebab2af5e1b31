"""The catalogue of all settings: look-up by name, and the nearest name for one that does not exist."""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from odradek.broker.settings.cluster_settings import (
    OTHER_CLUSTER_SETTINGS,
    ControllerSettings,
    InterBrokerListener,
    LoggerSettings,
    QuotaSettings,
    ServerSettings,
)
from odradek.broker.settings.coordinator_settings import (
    OTHER_COORDINATOR_SETTINGS,
    GroupSettings,
    TransactionSettings,
)
from odradek.broker.settings.definition import Setting, settings_in
from odradek.broker.settings.elsewhere import ELSEWHERE
from odradek.broker.settings.log_settings import OTHER_LOG_SETTINGS, LogManagerSettings, TopicDefaults
from odradek.broker.settings.network_settings import (
    OTHER_NETWORK_SETTINGS,
    ConnectionSettings,
    FetcherSettings,
    ReplicationSettings,
)
from odradek.broker.settings.security_settings import OTHER_AUTHORIZER_SETTINGS, SECURITY_SETTINGS, AuthorizerSettings
from odradek.broker.settings.topic_settings import OTHER_TOPIC_SETTINGS, LogConfig


def _theme(holders: Sequence[type], others: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return tuple(one for holder in holders for one in settings_in(holder)) + others


THEMES: Final[dict[str, tuple[Setting, ...]]] = {
    "Cluster": _theme((ServerSettings, InterBrokerListener, ControllerSettings), OTHER_CLUSTER_SETTINGS),
    "Network and replication": _theme(
        (ConnectionSettings, FetcherSettings, ReplicationSettings), OTHER_NETWORK_SETTINGS
    ),
    "Logs": _theme((LogManagerSettings, TopicDefaults), OTHER_LOG_SETTINGS),
    "Groups and transactions": _theme((GroupSettings, TransactionSettings), OTHER_COORDINATOR_SETTINGS),
    "Authorization": _theme((AuthorizerSettings,), OTHER_AUTHORIZER_SETTINGS),
    "Client quotas": _theme((QuotaSettings,), ()),
    "Security": SECURITY_SETTINGS,
    "What a broker writes about itself": _theme((LoggerSettings,), ()),
}
"""Settings of brokers by the headings of docs/settings.md, in its order."""
BROKER_SETTINGS: Final[dict[str, Setting]] = {one.name: one for theme in (*THEMES.values(), ELSEWHERE) for one in theme}
TOPIC_SETTINGS: Final[dict[str, Setting]] = {one.name: one for one in _theme((LogConfig,), OTHER_TOPIC_SETTINGS)}

LEGACY_NAMES: Final[frozenset[str]] = frozenset({"host.name", "port", "advertised.host.name", "advertised.port"})
"""Listeners as they were written before Kafka 3.0; still understood here."""
OTHER_FEATURES: Final = re.compile(
    r"(controller\.quorum|controller\.listener\.names|metadata\.(log|max)|remote\.|log\.local\.retention|rsm\.config"
    r"|rlmm\.config|group\.share|share\.coordinator|initial\.broker\.registration|broker\.(heartbeat|session)"
    r"|zookeeper\.metadata\.migration|eligible\.leader|sasl\.mechanism\.controller|server\.max\.startup"
    r"|unstable\.|config\.providers|confluent\.|listener\.name\.)"
)
"""Settings of KRaft, remote storage, share groups and of other programs' plug-ins: known, and of no meaning here."""

LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\.(?:[a-z0-9-]+\.(?=sasl\.|connections\.max\.reauth\.))?")
"""Prefix of the name of a setting that is meant for one listener alone, or for one SASL mechanism of it."""

SYNONYM_GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """List the settings that say the same, in the order in which they count
    (DynamicBrokerConfig.brokerConfigSynonyms)."""
    if name == "log.flush.scheduler.interval.ms":
        return (name,)
    listener = LISTENER_PREFIX.match(name)
    if listener is not None:
        return (name, name[listener.end() :])
    for names in SYNONYM_GROUPS:
        if name in names:
            return names
    return (name,)


def known_setting(name: str) -> Setting | None:
    """Find a broker's setting, perhaps for one listener alone; None when nobody knows it."""
    listener = LISTENER_PREFIX.match(name)
    return BROKER_SETTINGS.get(name if listener is None else name[listener.end() :])


def nearest_name(name: str) -> str | None:
    """Find the known setting that looks most like `name`; None when none does."""
    found = difflib.get_close_matches(name, [*BROKER_SETTINGS, *LEGACY_NAMES], n=1, cutoff=0.7)
    return found[0] if found else None
