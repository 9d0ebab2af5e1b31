"""Settings of topics: what may be set, and what the logs get."""

import pytest

from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.topic_overrides import log_config, validate_topic_config
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.compression import LZ4, compress
from odradek.protocol.errors import ErrorCode, KafkaError


def config(**settings: str) -> BrokerConfig:
    given = {"zookeeper.connect": "zk:2181"} | {name.replace("_", "."): text for name, text in settings.items()}
    return build_config([Given(name, text, "test") for name, text in given.items()])


def test_defaults_are_the_logs_own() -> None:
    assert log_config(config(), {}) == LogConfig()


def test_a_topic_comes_before_its_broker() -> None:
    broker = config(
        log_retention_minutes="5", log_roll_hours="2", message_max_bytes="5000", log_cleanup_policy="compact"
    )
    plain = log_config(broker, {})
    assert (plain.retention_ms, plain.segment_ms, plain.max_message_bytes) == (300_000, 7_200_000, 5000)
    assert plain.compacts and not plain.deletes
    own = log_config(
        broker,
        {"retention.ms": "-1", "cleanup.policy": "compact,delete", "leader.replication.throttled.replicas": "0:1,2:3"},
    )
    assert (own.retention_ms, own.segment_ms) == (-1, 7_200_000)
    assert own.compacts and own.deletes
    assert own.leader_replication_throttled_replicas == ("0:1", "2:3")


def test_retention_of_the_broker_below_zero_is_for_ever() -> None:
    assert log_config(config(log_retention_hours="-7"), {}).retention_ms == -1


def test_the_old_limit_of_timestamps_stands_for_both_new_ones() -> None:
    old = log_config(config(), {"message.timestamp.difference.max.ms": "9"})
    assert (old.message_timestamp_before_max_ms, old.message_timestamp_after_max_ms) == (9, 9)
    both = log_config(config(log_message_timestamp_difference_max_ms="9"), {"message.timestamp.before.max.ms": "4"})
    assert (both.message_timestamp_before_max_ms, both.message_timestamp_after_max_ms) == (4, 9)


def test_settings_that_cannot_be_read_or_are_unknown() -> None:
    with pytest.raises(BadValue):
        log_config(config(), {"retention.ms": "soon"})
    assert log_config(config(), {"from.a.newer.version": "1"}) == LogConfig()


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"retention.ms": "-1", "segment.bytes": "14"},
        {"cleanup.policy": "compact,delete", "compression.type": "zstd"},
        {"leader.replication.throttled.replicas": "*"},
        {"follower.replication.throttled.replicas": "0:1,1:2"},
        {"follower.replication.throttled.replicas": "0:1,"},
        {"remote.storage.enable": "false"},
        {"message.format.version": "2.8"},
        {"message.format.version": "0.10.2.1"},
        {"message.format.version": "3.0-IV1"},
        {"message.format.version": "3.9.x"},
        {"message.format.version": "4.0-IV1"},
    ],
)
def test_what_is_valid(overrides: dict[str, str]) -> None:
    validate_topic_config(config(), overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"log.retention.ms": "1"}, "Unknown topic config name: log.retention.ms"),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            {"segment.bytes": "x"},
            "Invalid value x for configuration segment.bytes: Not a number of type INT",
        ),
        (
            {"cleanup.policy": "shred"},
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"remote.storage.enable": "true"}, "remote.storage.enable: remote storage is not implemented"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
        ),
        (
            {"leader.replication.throttled.replicas": "0:1,x"},
            "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        *(
            (
                {"message.format.version": one},
                f"Invalid value {one} for configuration message.format.version: Version {one} is not a valid version",
            )
            for one in ("9.8", "4.0", "3.9-IV1", "3.9.", "0.10")
        ),
    ],
)
def test_what_is_invalid(overrides: dict[str, str], message: str) -> None:
    with pytest.raises((KafkaError, BadValue)) as caught:
        validate_topic_config(config(), overrides)
    error = caught.value
    assert message == (error.message if isinstance(error, KafkaError) else str(error))
    assert not isinstance(error, KafkaError) or error.code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "replicas", ["100", "100:", "100:0,10", "100:0,10:", "100 :0", "100: 0", "*,100:10", "\N{ARABIC-INDIC DIGIT ONE}:0"]
)
def test_lists_of_throttled_replicas_that_are_none(replicas: str) -> None:
    with pytest.raises(BadValue):
        validate_topic_config(config(), {"leader.replication.throttled.replicas": replicas})


def test_levels_of_compression() -> None:
    assert log_config(config(), {"compression.type": "gzip", "compression.gzip.level": "9"}).compression_level == 9
    assert log_config(config(compression_zstd_level="7"), {"compression.type": "zstd"}).compression_level == 7
    level = log_config(config(), {"compression.type": "lz4"}).compression_level
    data = b"to be or not to be, " * 100 + bytes(range(256)) * 9
    assert compress(LZ4, data, level=level) == compress(LZ4, data) != compress(LZ4, data, level=10), "the fast one"
    assert log_config(config(), {"compression.type": "snappy"}).compression_level is None
