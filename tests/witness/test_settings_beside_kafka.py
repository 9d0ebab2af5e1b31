"""The tables of settings beside those that Kafka 3.9.1 prints: names, types, defaults, ways to change them; and which
values are taken."""

import html
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from odradek.broker.config import BrokerConfig, ConfigError, Given, build_config, read_config
from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS
from odradek.broker.settings.definition import BadValue, Effect, Setting, ValueType
from odradek.broker.settings.topic_overrides import validate_topic_config
from odradek.protocol.errors import KafkaError
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

NAME = re.compile(r'<a id="([\w.]+)"></a>')
CELL = re.compile(r"<tr><th>([^<:]*):?</th>\s*<td>(.*?)</td></tr>", re.DOTALL)
EXPLAINED = re.compile(r" +\(.*\)$")
"""Kafka writes of large numbers in brackets how much they are."""


def kafkas(printed: str) -> dict[str, dict[str, str]]:
    """Read the list of settings that a class of Kafka prints as a page: by name what its cells say."""
    found = {}
    for entry in printed.split("<h4>")[1:]:
        named = NAME.search(entry)
        assert named is not None, entry[:300]
        cells = {title: html.unescape(text) for title, text in CELL.findall(entry)}
        found[named[1]] = {**cells, "Default": EXPLAINED.sub("", cells["Default"]).strip('"')}
    return found


def ours(one: Setting) -> dict[str, str]:
    return {
        "Type": one.type.value,
        "Default": "null" if one.default is None else one.default,
        "Importance": one.importance,
        "Update Mode": one.update_mode.value,
    }


@pytest.mark.parametrize(
    ("main", "table"),
    [
        ("kafka.server.KafkaConfig", BROKER_SETTINGS),
        ("org.apache.kafka.storage.internals.log.LogConfig", TOPIC_SETTINGS),
    ],
)
def test_what_kafka_prints_of_its_settings_is_in_the_table(
    kafka: KafkaJars, main: str, table: dict[str, Setting]
) -> None:
    """What comes with Kafka's files is known by its name here, so that nobody is told of an unknown setting."""
    documented = kafkas(kafka.run(main))
    assert documented.keys() - table.keys() == set()
    for name, cells in documented.items():
        told = {title: text for title, text in ours(table[name]).items() if title in cells}
        assert told == {title: cells[title] for title in told}, name


PROGRAM = Path(__file__).parent / "java" / "Settings.java"
WHOLE = ("-2", "-1", "0", "1", "2", "5", "10", "100", "1000", "100000", "x", "", " 7 ", "+7", "7.0", "7L", "0x7", "1e3")
EDGES = {
    ValueType.SHORT: ("32767", "32768", "-32768", "-32769"),
    ValueType.INT: ("2147483647", "2147483648", "-2147483648", "-2147483649"),
    ValueType.LONG: ("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
}
VALUES: Mapping[ValueType, tuple[str, ...]] = {
    ValueType.BOOLEAN: ("true", "FALSE", "yes", "1", "", " true "),
    ValueType.DOUBLE: ("-1", "-0.1", "0", ".5", "1", "1.5", "100", "1e10", "1f", "x", "", "0,5", " 1 "),
    ValueType.STRING: ("", "x", " ", "none", "PLAINTEXT", "1.0"),
    ValueType.LIST: ("", "x", "a,b", ",", "*", "delete", "compact", " compact , delete ", "compact,,delete"),
    ValueType.CLASS: ("", "x", "java.lang.String", "org.apache.kafka.common.metrics.JmxReporter"),
    ValueType.PASSWORD: ("", "x"),
    **{kind: WHOLE + edges for kind, edges in EDGES.items()},
}
UNUSABLE = {
    "group.max.session.timeout.ms": "nobody could join",
    "group.min.session.timeout.ms": "nobody could join",
    "log.cleaner.io.buffer.load.factor": "nothing could be compacted",
    "log.cleaner.io.max.bytes.per.second": "nothing could be compacted",
    "num.replica.fetchers": "nothing could be copied",
    "allow.everyone.if.no.acl.found": "Kafka looks at it when its authorizer begins, and fails then",
    "authorizer.class.name": "as above: no such class",
    "super.users": "as above",
    "replica.selector.class": "Kafka fails when it makes one",
    "offsets.commit.required.acks": "there are no such acks",
    "inter.broker.protocol.version": "brokers speak that of 3.9 here",
    "zookeeper.connect": "Kafka fails when it connects",
}
"""Settings whose values ours refuses at the start although KafkaConfig takes them, and why."""
WITHOUT_PREFIX = {"sasl.server.callback.handler.class"}
"""Settings that count with the name of a listener in front alone; Kafka looks for the class all the same."""
LIMITS_OF_COPYING = {
    "leader.replication.throttled.rate", "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}  # fmt: skip
"""Settings that Kafka's file may not have, which is why KafkaConfig does not look at them."""
OWN = {"logger.format", "logger.dir", "logger.max.bytes", "logger.backups", "metrics.host", "metrics.port"}
"""Settings that Kafka has not."""


def texts(one: Setting) -> list[str]:
    """Values to be tried of a setting, each once."""
    words = one.choices()
    spelt = [word for word in words if word] + [word.upper() for word in words[:1]]
    return list(dict.fromkeys([*VALUES[one.type], *spelt, *([] if one.default is None else [one.default])]))


def taken_by_broker(name: str, text: str) -> bool:
    try:
        read_config([Given(n, t, "test") for n, t in (("zookeeper.connect", "h:1"), ("broker.id", "0"), (name, text))])
    except ConfigError:
        return False
    return True


def taken_by_topic(config: BrokerConfig) -> Callable[[str, str], bool]:
    def is_taken(name: str, text: str) -> bool:
        try:
            validate_topic_config(config, {name: text})
        except (BadValue, KafkaError):
            return False
        return True

    return is_taken


@pytest.mark.parametrize("of", ["broker", "topic"])
def test_values_are_taken_that_kafka_takes(kafka: KafkaJars, of: str) -> None:
    table = BROKER_SETTINGS if of == "broker" else TOPIC_SETTINGS
    asked = [(name, text) for name, one in table.items() for text in texts(one) if name not in OWN]
    done = subprocess.run(
        kafka.program(PROGRAM),
        input="".join(f"{of} {name}={text}\n" for name, text in asked),
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    defaults = build_config([Given("zookeeper.connect", "h:1", "test")])
    is_taken = taken_by_broker if of == "broker" else taken_by_topic(defaults)
    excused = {*UNUSABLE, *LIMITS_OF_COPYING, *WITHOUT_PREFIX} if of == "broker" else set()
    differences, differing = [], set()
    for (name, text), said in zip(asked, done.stdout.splitlines(), strict=True):
        ours, kafkas = is_taken(name, text), said == "taken"
        if ours == kafkas or table[name].effect is (Effect.NONE if ours else Effect.REFUSED):
            continue
        differing.add(name)
        if name not in (WITHOUT_PREFIX if ours else UNUSABLE.keys() | LIMITS_OF_COPYING):
            differences.append(f"{name}={text}: {said}")
    assert not differences, "\n".join(differences)
    assert excused <= differing, f"no excuse is needed any more for {excused - differing}"
