"""The tables of settings: complete, readable, and what is written about them current."""

from dataclasses import fields
from pathlib import Path

import pytest

from odradek.broker.config import BrokerConfig
from odradek.broker.settings.catalog import BROKER_SETTINGS, THEMES, TOPIC_SETTINGS, broker_synonyms, nearest_name
from odradek.broker.settings.cluster_settings import OTHER_CLUSTER_SETTINGS
from odradek.broker.settings.definition import BadValue, Effect, java_double, setting_name
from odradek.broker.settings.elsewhere import ELSEWHERE
from odradek.broker.settings.security_settings import SECURITY_SETTINGS
from odradek.broker.settings.settings_page import render
from odradek.broker.settings.topic_settings import UNIT_MS, LogConfig

WITHOUT_ATTRIBUTE = {
    "log.dir",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.retention.minutes",
    "log.retention.hours",
    "listener.security.protocol.map",
    "security.inter.broker.protocol",
    "inter.broker.protocol.version",
    *(one.name for one in (*SECURITY_SETTINGS, *OTHER_CLUSTER_SETTINGS) if one.effect is Effect.WORKS),
}
"""They are in the attribute of another setting, take one value alone, are another thing at each listener, or are read
once, for the link to ZooKeeper."""


def test_the_page_of_settings_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == render(), "run: python -m odradek.broker.settings.settings_page > docs/settings.md"


def test_every_setting_is_named_once_and_its_default_can_be_read() -> None:
    assert len(BROKER_SETTINGS) == sum(map(len, THEMES.values())) + len(ELSEWHERE)
    for setting in [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()]:
        assert setting.documentation.endswith(".")
        assert setting.write(setting.read(setting.default)) == setting.default, setting.name
        assert setting.effect is not Effect.REFUSED or setting.reason
        assert not (setting.effect is Effect.WORKS and setting.reason)


def test_what_works_has_an_attribute_and_what_has_an_attribute_works() -> None:
    attributes = {setting_name(one.name) for one in fields(BrokerConfig) if "setting" in one.metadata}
    works = {one.name for one in BROKER_SETTINGS.values() if one.effect is Effect.WORKS}
    assert attributes | WITHOUT_ATTRIBUTE == works
    assert attributes.isdisjoint(WITHOUT_ATTRIBUTE)


def test_topics_and_brokers_agree() -> None:
    """A topic's default is the broker's default, in the topic's unit."""
    for name, topic in TOPIC_SETTINGS.items():
        if not topic.broker_names:
            continue
        assert topic.broker_names == broker_synonyms(topic.broker_names[0]), name
        last = BROKER_SETTINGS[topic.broker_names[-1]]
        value = last.read(last.default)
        if last.name in UNIT_MS:
            assert isinstance(value, int)
            value *= UNIT_MS[last.name]
        assert topic.read(topic.default) == value, name


def test_logs_have_the_defaults_of_the_table() -> None:
    config = LogConfig()
    for one in fields(LogConfig):
        setting = TOPIC_SETTINGS[setting_name(one.name)]
        value = setting.read(setting.default)
        assert getattr(config, one.name) == (frozenset(value) if one.name == "cleanup_policy" else value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log.segment.bytes", "13", "Value must be at least 14"),
        ("log.segment.bytes", "2147483648", "Not a number of type INT"),
        ("log.segment.bytes", "1e3", "Not a number of type INT"),
        ("log.segment.bytes", "9" * 5000, "Not a number of type INT"),
        ("log.segment.bytes", "-", "Not a number of type INT"),
        ("log.segment.bytes", "", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "half", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "0.0_5", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "٠.٥", "Not a number of type DOUBLE"),
        ("log.cleaner.io.max.bytes.per.second", "inf", "Not a number of type DOUBLE"),
        ("log.cleaner.io.max.bytes.per.second", "NaNf", "Not a number of type DOUBLE"),
        ("log.segment.bytes", "\u00a014", "Not a number of type INT"),
        ("log.cleanup.policy", "compact,\u2003delete", "String must be one of: compact, delete"),
        ("compression.type", "br", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
    ],
)
def test_values_that_are_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(BadValue) as caught:
        BROKER_SETTINGS[name].read(text)
    named = text.rpartition(",")[2]
    assert str(caught.value) == f"Invalid value {named} for configuration {name}: {reason}"


def test_of_a_list_only_the_word_that_is_refused_is_named() -> None:
    """As Kafka's ValidList does, which shows each word to the check of one."""
    with pytest.raises(BadValue) as caught:
        BROKER_SETTINGS["log.cleanup.policy"].read("delete,shred")
    reason = "String must be one of: compact, delete"
    assert str(caught.value) == f"Invalid value shred for configuration log.cleanup.policy: {reason}"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log.segment.bytes", " 14 ", 14),
        ("log.segment.bytes", "+14", 14),
        ("log.segment.bytes", "0" * 5000 + "14", 14),
        ("log.retention.bytes", "-0", 0),
        ("log.retention.bytes", "-1", -1),
        ("log.cleanup.policy", "compact , delete", ("compact", "delete")),
        ("metric.reporters", "", ()),
        ("auto.create.topics.enable", "TRUE", True),
        ("compression.gzip.level", "-1", -1),
        ("log.cleaner.io.max.bytes.per.second", "1.5E3", 1500.0),
        ("log.cleaner.io.max.bytes.per.second", " +.5e-1", 0.05),
        ("log.cleaner.io.max.bytes.per.second", "5.", 5.0),
        ("log.cleaner.io.max.bytes.per.second", "Infinity", float("inf")),
        ("log.cleaner.io.max.bytes.per.second", "1.5E3f", 1500.0),
        ("log.segment.bytes", "\x0b14\x1f", 14),
        ("metric.reporters", "a,, b\t", ("a", "", "b")),
        ("ssl.key.password", " secret ", " secret "),
    ],
)
def test_values_that_are_taken(name: str, text: str, value: object) -> None:
    assert BROKER_SETTINGS[name].read(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (0.0, "0.0"), (1e7, "1.0E7"), (12345678.0, "1.2345678E7"), (1e-4, "1.0E-4"), (2.5e-7, "2.5E-7")],
)
def test_doubles_are_written_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text
    assert java_double(1.7976931348623157e308) == "1.7976931348623157E308"


def test_the_nearest_name() -> None:
    assert nearest_name("num.partition") == "num.partitions"
    assert nearest_name("log.retention.hour") == "log.retention.hours"
    assert nearest_name("zzz") is None


def test_what_is_allowed_is_said_in_words() -> None:
    words = {name: BROKER_SETTINGS[name].allowed_in_words() for name in BROKER_SETTINGS}
    assert words["log.segment.bytes"] == "a whole number of 32 bits, at least 14"
    assert words["compression.gzip.level"] == "a whole number of 32 bits, -1 or 1 to 9"
    assert words["log.cleanup.policy"] == "any of compact, delete"
    assert words["log.message.timestamp.type"] == "one of CreateTime, LogAppendTime"
    assert words["authorizer.class.name"] == "one of kafka.security.authorizer.AclAuthorizer, or nothing"
    assert words["log.preallocate"] == "true or false"
