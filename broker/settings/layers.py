"""Sources of a broker's settings, in the order in which they count, and the values that they amount to.

What was set for this broker while it ran comes before what was set for all brokers, that before the file it was
started with, and that before the default (KIP-226).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from odradek.broker.settings.catalog import BROKER_SETTINGS, broker_synonyms, known_setting
from odradek.broker.settings.definition import BadValue, Setting, Value
from odradek.broker.settings.topic_settings import UNIT_MS


class Source(IntEnum):
    """The numbers of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


@dataclass(frozen=True, slots=True)
class Layers:
    """Texts of settings by name, one mapping for each source. Dynamic ones hold only what may be changed live."""

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)
    own_host: str = ""
    """Host that others connect to where a listener is for every interface; "" when nobody has asked for it."""

    def given(self, name: str) -> str | None:
        """Return what somebody set, from the first source that has it; None when nobody did."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return None

    def text(self, name: str) -> str | None:
        """Return what somebody set, or else the default, which may be None."""
        given = self.given(name)
        return _setting(name).default if given is None else given

    def value(self, name: str) -> Value:
        """Read the text of a setting. Raises BadValue."""
        return _setting(name).read(self.text(name))

    def names(self) -> set[str]:
        """Return the names of all settings that somebody has set."""
        return {*self.static, *self.dynamic_default, *self.dynamic_broker}

    def milliseconds(self, name: str) -> int:
        """Return the first of a setting's synonyms that is not null, in ms: log.roll.hours for log.roll.ms, and so
        on."""
        for synonym in broker_synonyms(name):
            value = self.value(synonym)
            if value is not None:
                assert isinstance(value, int), (synonym, value)
                return value * UNIT_MS.get(synonym, 1)
        raise AssertionError(f"{name} and its synonyms have no default")

    def sources(self, name: str) -> list[tuple[str, str, Source]]:
        """Return name, text and source of all that says something about `name`; the first counts.

        What stands before the name itself is dropped, as Kafka does (ConfigHelper.configSynonyms).
        """
        names = broker_synonyms(name)
        defaults = {one: BROKER_SETTINGS[one].default for one in names if one in BROKER_SETTINGS}
        found = [
            (one, text, source)
            for source, layer in (
                (Source.DYNAMIC_BROKER, self.dynamic_broker),
                (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
                (Source.STATIC_BROKER, self.static),
                (Source.DEFAULT, defaults),
            )
            for one in names
            if (text := layer.get(one)) is not None
        ]
        while found and found[0][0] != name:
            del found[0]
        return found

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> "Layers":
        """Combine the same file with other dynamic settings; those that cannot be changed live are left out.

        Unknown settings stay: they are shown, so that they can be taken away again.
        """
        return replace(self, dynamic_default=changeable(default), dynamic_broker=changeable(broker))


KEEP_EVERYTHING: Final[Mapping[str, str]] = {"cleanup.policy": "", "retention.ms": "-1", "retention.bytes": "-1"}
"""Values in place of a topic's settings that decide what is deleted, until those can be read: nothing is deleted."""
_INSTEAD: Final = {**KEEP_EVERYTHING, **{f"log.{name}": text for name, text in KEEP_EVERYTHING.items()}}


def readable(
    settings: Mapping[str, str], before: Mapping[str, str], known: Callable[[str], Setting | None]
) -> tuple[dict[str, str], list[BadValue]]:
    """Return the settings that count, and what is wrong with each of the others.

    ZooKeeper may hold values that these tables do not take: another tool wrote them, or a newer Kafka. Instead of such
    a value the one that counted `before` counts; if there is none, and the setting decides what is deleted, one with
    which nothing is; else the setting counts as not set. The other settings count, whatever is wrong with one: without
    its cleanup.policy a compacted topic would be deleted.
    """
    counting, wrong = dict(settings), []
    for name in sorted(settings):
        setting = known(name)
        if setting is None:
            continue
        try:
            setting.read(settings[name])
        except BadValue as error:
            wrong.append(error)
            put_instead(counting, name, before)
    return counting, wrong


def put_instead(counting: dict[str, str], name: str, before: Mapping[str, str]) -> None:
    """Replace a value that cannot count by the one from `before`, or by a safe one (see `readable`)."""
    bad = counting.pop(name)
    instead = before.get(name, _INSTEAD.get(name))
    if instead is not None and instead != bad:
        counting[name] = instead


def changeable(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that may be changed while the broker runs and have a value that can be read, or are
    unknown."""
    return {name: text for name, text in settings.items() if _counts(known_setting(name), text)}


def _counts(setting: Setting | None, text: str) -> bool:
    if setting is None:
        return True
    if not setting.changes_live:
        return False
    try:
        setting.read(text)
    except BadValue:
        return False
    return True


def _setting(name: str) -> Setting:
    setting = known_setting(name)
    assert setting is not None, name
    return setting
