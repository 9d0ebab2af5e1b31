"""The tables of settings beside those that Kafka 3.9.1 prints: names, types, defaults, ways to change them."""

import html
import re

import pytest

from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS
from odradek.broker.settings.definition import Setting
from odradek.testing.foreign.kafka_jars import KafkaJars

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
