"""A topic's settings: whether they may be set so, and what they amount to together with the broker's.

Source: LogConfig and KafkaConfig.extractLogConfigMap of Kafka 3.9.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from odradek.broker.config import BrokerConfig
from odradek.broker.settings.catalog import TOPIC_SETTINGS
from odradek.broker.settings.definition import BadValue, Effect, Value, setting_name
from odradek.broker.settings.topic_settings import NO_LIMIT_MS, UNIT_MS, LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError

THROTTLED_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_STEPS_TO: Final = {
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2,
    "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3,
    "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1, "4.0": 2,
}  # fmt: skip
_KAFKA_VERSIONS: Final = frozenset(
    {"0.8.0", "0.8.1", "0.8.2", "0.9.0"}
    | (_STEPS_TO.keys() - {"4.0"})
    | {f"{release}-IV{step}" for release, steps in _STEPS_TO.items() for step in range(steps)}
)
"""Versions that message.format.version may name: releases up to 3.9, and steps on the way to one, also to the next
(MetadataVersion of Kafka 3.9)."""
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
"""An entry of a list of throttled replicas; one that is empty, as behind a last comma, names none."""


def _is_kafka_version(text: str) -> bool:
    """Tell whether Kafka knows the version; what stands behind the number of a release, as in 3.9.1, does not count."""
    parts = text.rstrip(".").split(".")
    known = 3 if text.startswith("0.") else 2
    return (".".join(parts[:known]) if len(parts) > known else text) in _KAFKA_VERSIONS


def validate_topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Check what somebody wants to set. For the first thing that is wrong raises, with Kafka's messages, BadValue or,
    where that is not one value alone, KafkaError INVALID_CONFIG."""
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        value = setting.read(text)
        if setting.effect is Effect.REFUSED and value != setting.read(setting.default):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: {setting.reason}")
        if name in THROTTLED_REPLICAS:
            _check_replicas(name, value)
        if name == "message.format.version" and not _is_kafka_version(str(value)):
            raise BadValue(name, str(value), f"Version {value} is not a valid version")
    least, most = (topic_value(config, overrides, f"{bound}.compaction.lag.ms") for bound in ("min", "max"))
    assert isinstance(least, int) and isinstance(most, int)
    if least > most:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )


def _check_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(_REPLICA.fullmatch(part) for part in value):
        return
    raise BadValue(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def topic_value(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """Return what holds for a topic: its own setting, else the broker's, else the default. Raises BadValue."""
    setting = TOPIC_SETTINGS[name]
    if name in overrides:
        return setting.read(overrides[name])
    synonyms = setting.broker_names
    if not synonyms:
        return setting.read(setting.default)
    if synonyms[0] == "log.retention.ms":
        return config.log_retention_ms
    for synonym in synonyms:
        value = config.layers.value(synonym)
        if value is not None:
            return value * UNIT_MS[synonym] if synonym in UNIT_MS and isinstance(value, int) else value
    return setting.read(setting.default)


def log_config(config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return the settings of a topic's logs. Raises BadValue; overrides of unknown names are ignored."""
    values: dict[str, Any] = {}
    for one in fields(LogConfig):
        values[one.name] = topic_value(config, overrides, setting_name(one.name))
    values["cleanup_policy"] = frozenset(values["cleanup_policy"])
    difference = topic_value(config, overrides, "message.timestamp.difference.max.ms")
    for attribute in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
        if values[attribute] == NO_LIMIT_MS:
            values[attribute] = difference
    if "compact" in values["cleanup_policy"] and values["max_compaction_lag_ms"] > 0:
        # only closed segments are compacted
        values["segment_ms"] = min(values["segment_ms"], values["max_compaction_lag_ms"])
    return LogConfig(**values)
