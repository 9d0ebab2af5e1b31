"""All settings together: looked up by name, and the nearest name for one that does not exist."""

import difflib
import re
from typing import Final

from odradek.broker.settings.definition import Setting
from odradek.broker.settings.elsewhere import ELSEWHERE
from odradek.broker.settings.groups import GROUPS
from odradek.broker.settings.logs import LOGS
from odradek.broker.settings.network import NETWORK
from odradek.broker.settings.security import SECURITY
from odradek.broker.settings.server import SERVER
from odradek.broker.settings.topics import TOPICS, UNIT_MS

THEMES: Final[dict[str, tuple[Setting, ...]]] = {
    "Server": SERVER,
    "Network and replication": NETWORK,
    "Logs": LOGS,
    "Groups and transactions": GROUPS,
    "Security": SECURITY,
    "KRaft, remote storage, share groups": ELSEWHERE,
}
BROKER_SETTINGS: Final[dict[str, Setting]] = {one.name: one for theme in THEMES.values() for one in theme}
TOPIC_SETTINGS: Final[dict[str, Setting]] = {one.name: one for one in TOPICS}

LEGACY_NAMES: Final[frozenset[str]] = frozenset({"host.name", "port", "advertised.host.name", "advertised.port"})
"""Listeners as they were written before Kafka 3.0; still understood here."""
KRAFT_ONLY: Final[frozenset[str]] = frozenset({"process.roles"})
"""With one of these the file is a KRaft broker's or controller's."""
OTHER_FEATURES: Final = re.compile(
    r"(controller\.quorum|controller\.listener\.names|metadata\.(log|max)|remote\.|log\.local\.retention|rsm\.config"
    r"|rlmm\.config|group\.share|share\.coordinator|initial\.broker\.registration|broker\.(heartbeat|session)"
    r"|zookeeper\.metadata\.migration|eligible\.leader|node\.id|sasl\.mechanism\.controller|server\.max\.startup"
    r"|unstable\.|config\.providers|confluent\.|listener\.name\.)"
)
"""Settings of KRaft, remote storage, share groups and of other programs' plug-ins: known, and of no meaning here."""

LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]*\.")
"""Before the name of a setting that is meant for one listener alone."""

SYNONYM_GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The settings that say the same, in the order in which they count (DynamicBrokerConfig.brokerConfigSynonyms)."""
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
    """A broker's setting, perhaps for one listener alone; None when nobody knows it."""
    listener = LISTENER_PREFIX.match(name)
    return BROKER_SETTINGS.get(name if listener is None else name[listener.end() :])


def nearest_name(name: str) -> str | None:
    """The known setting that looks most like `name`; None when none does."""
    found = difflib.get_close_matches(name, [*BROKER_SETTINGS, *LEGACY_NAMES], n=1, cutoff=0.7)
    return found[0] if found else None


assert UNIT_MS.keys() <= BROKER_SETTINGS.keys()
