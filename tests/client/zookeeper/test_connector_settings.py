"""Settings of Kafka 0.8's consumer."""

import re
from typing import Any

import pytest

from odradek.client.errors import ConfigError
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.connector import ConsumerConnector
from odradek.client.zookeeper.subscriptions import Whitelist
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

NEEDED = {"zookeeper.connect": "z:2181", "group.id": "g"}


def test_the_defaults_are_kafkas() -> None:
    settings = settings_of(NEEDED, {})
    assert settings.auto_commit_interval_ms == 60_000
    assert settings.queued_max_message_chunks == 2
    assert (settings.rebalance_max_retries, settings.backoff_ms) == (4, 2_000)
    assert settings.connection_timeout_ms == 6_000
    assert settings.reset_timestamp == LATEST_TIMESTAMP
    assert not settings.dual_commit
    brokers = settings.for_brokers(["b:9092"])
    assert (brokers.client_id, brokers.max_partition_fetch_bytes, brokers.fetch_max_wait_ms) == ("g", 1_048_576, 100)


def test_brokers_are_reached_as_the_security_settings_say() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl_plain_username": "me"}
    settings = settings_of({**NEEDED, **login}, {"sasl_plain_password": "secret"})
    brokers = settings.for_brokers(["b:1"])
    assert (brokers.security_protocol, brokers.sasl_username, brokers.sasl_password) == ("SASL_SSL", "me", "secret")
    assert "secret" not in repr(settings)
    with pytest.raises(ConfigError, match="PLAIN needs a user's name and a password"):
        ConsumerConnector.create({**NEEDED, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})


def test_kafkas_names_and_keywords() -> None:
    settings = settings_of(
        {**NEEDED, "rebalance.backoff.ms": "100", "auto.offset.reset": "smallest"},
        {"offsets_storage": "kafka", "client_id": "c", "fetch_message_max_bytes": 5},
    )
    assert settings.backoff_ms == 100
    assert settings.reset_timestamp == EARLIEST_TIMESTAMP
    assert settings.dual_commit
    assert settings.for_brokers(["b:1"]).max_partition_fetch_bytes == 5
    assert not settings_of(NEEDED, {"offsets_storage": "kafka", "dual_commit_enabled": False}).dual_commit
    assert not settings_of(NEEDED, {"dual_commit_enabled": True}).dual_commit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rebalance_retries_max": 3}, "did you mean rebalance.max.retries"),
        ({"auto.offset.reset": "earliest"}, "smallest, largest"),
        ({"group_id": "a b"}, "group.id='a b'"),
        ({"group_id": ".."}, "group.id='..'"),
        ({"consumer_id": "a/b"}, "consumer.id"),
        ({"fetch_wait_max_ms": 31_000}, "socket.timeout.ms=30000"),
        ({"num_consumer_fetchers": 2}, "num.consumer.fetchers must be at most 1"),
        ({"queued_max_message_chunks": 0}, "at least 1"),
        ({"partition_assignment_strategy": "sticky"}, "range, roundrobin"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_of(NEEDED, given)
    assert said in str(raised.value)


def test_an_address_that_cannot_be_zookeepers_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match="is not host:port"):
        ConsumerConnector.create({**NEEDED, "zookeeper.connect": "z::"})


def test_the_group_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"group\.id is missing"):
        settings_of({"zookeeper.connect": "z"}, {})


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("create_message_streams", ["t"]),
        ("create_message_streams", "t"),
        ("create_message_streams_by_filter", None),
        ("create_message_streams_by_filter", re.compile("t.*")),
        ("create_message_streams_by_filter", Whitelist(5)),  # type: ignore[arg-type]
    ],
)
def test_streams_of_what_names_no_topics_are_refused(monkeypatch: pytest.MonkeyPatch, method: str, given: Any) -> None:
    """They were AttributeErrors, which name neither the argument nor what it has to be."""
    monkeypatch.setattr(ConsumerConnector, "__init__", lambda self: None)
    with pytest.raises(TypeError, match=r"(topic_count|filter) must be a .*, not "):
        getattr(ConsumerConnector(), method)(given)


def test_what_could_not_be_processed_is_not_committed_when_a_connector_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message in hand, whose processing had just failed, counted as consumed."""
    in_hand: list[bool] = []
    monkeypatch.setattr(ConsumerConnector, "__init__", lambda self: None)
    told = in_hand.append
    monkeypatch.setattr(ConsumerConnector, "_shutdown", lambda self, in_hand: told(in_hand))
    with pytest.raises(ZeroDivisionError), ConsumerConnector():
        raise ZeroDivisionError
    with ConsumerConnector():
        pass
    assert in_hand == [False, True]
