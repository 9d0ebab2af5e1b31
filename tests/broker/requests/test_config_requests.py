"""AlterConfigs and IncrementalAlterConfigs: what is changed, refused, and written into ZooKeeper."""

import asyncio
import logging
from importlib.util import find_spec

import pytest

from odradek.broker.network.outcomes import RequestContext
from odradek.broker.requests import incremental_alter_configs, loggers
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import incremental_alter_configs as messages
from tests.broker.requests.configured_broker import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    OK,
    SET,
    SUBTRACT,
    TOPIC,
    Cluster,
    play,
)

NOT_FOR_CLIENT_METRICS = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"


def test_alter_replaces_everything() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.replace(TOPIC, "t", {"segment.bytes": "1000", "retention.ms": "5"}) == OK
        assert await cluster.replace(TOPIC, "t", {"retention.ms": "6"}) == OK
        assert await cluster.stored("topics/t") == {"retention.ms": "6"}
        assert await cluster.replace(BROKER, "1", {"log.retention.ms": "7"}) == OK
        assert await cluster.replace(BROKER, "", {"log.retention.ms": "8"}) == OK
        assert await cluster.stored("brokers/1") == {"log.retention.ms": "7"}
        assert await cluster.stored("brokers/<default>") == {"log.retention.ms": "8"}
        assert cluster.announced() == 4

    play(story)


def test_to_validate_only_writes_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.replace(TOPIC, "t", {"retention.ms": "5"}, validate_only=True) == OK
        assert await cluster.change(TOPIC, "t", (SET, "retention.ms", "5"), validate_only=True) == OK
        code, _ = await cluster.change(TOPIC, "t", (SET, "retention.ms", "x"), validate_only=True)
        assert code == ErrorCode.INVALID_CONFIG
        assert (await cluster.stored("topics/t"), cluster.announced()) == ({}, 0)

    play(story)


def test_single_settings_change_and_lists_grow_and_shrink() -> None:
    async def story(cluster: Cluster) -> None:
        assert await cluster.change(TOPIC, "t", (SET, "retention.ms", "5"), (APPEND, "cleanup.policy", "compact")) == OK
        assert await cluster.stored("topics/t") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
        assert (
            await cluster.change(TOPIC, "t", (APPEND, "cleanup.policy", "compact"), (DELETE, "retention.ms", None))
            == OK
        )
        assert await cluster.stored("topics/t") == {"cleanup.policy": "delete,compact"}
        assert await cluster.change(TOPIC, "t", (SUBTRACT, "cleanup.policy", "delete")) == OK
        assert await cluster.stored("topics/t") == {"cleanup.policy": "compact"}
        assert await cluster.change(BROKER, "1", (SET, "log.cleaner.threads", "2")) == OK
        assert await cluster.change(BROKER, "1", (SET, "message.max.bytes", "9")) == OK
        assert await cluster.stored("brokers/1") == {"log.cleaner.threads": "2", "message.max.bytes": "9"}

    play(story)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (TOPIC, "", [(SET, "a", "b")], ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "u", [(SET, "a", "b")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
        (TOPIC, "t", [(SET, "a", "b")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: a"),
        (
            TOPIC,
            "t",
            [(SET, "retention.ms", None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            [(SET, "retention.ms", "1"), (DELETE, "retention.ms", None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (TOPIC, "t", [(7, "retention.ms", "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 7"),
        (
            TOPIC,
            "t",
            [(APPEND, "retention.ms", "1")],
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: retention.ms",
        ),
        (TOPIC, "t", [(SUBTRACT, "a", "1")], ErrorCode.INVALID_CONFIG, "Unknown config name: a"),
        (BROKER, "x", [], ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (BROKER, "2", [], ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
        (
            BROKER,
            "1",
            [(SET, "num.partitions", "2"), (SET, "broker.id", "2")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: Set(broker.id, num.partitions)",
        ),
        (
            BROKER,
            "",
            [(SET, "ssl.keystore.location", "/a")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(ssl.keystore.location)",
        ),
        (
            BROKER,
            "1",
            [(SET, "message.max.bytes", "x")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration message.max.bytes: Not a number of type INT",
        ),
        (
            BROKER,
            "",
            [(SET, "log.retention.ms", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration log.retention.ms: must be -1 (for ever) or at least 1",
        ),
        (
            BROKER,
            "1",
            [(SET, "ssl.key.password", "x")],
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "Set(ssl.key.password)",
        ),
        (
            BROKER,
            "1",
            [(SET, "listener.name.external.ssl.key.password", "x")],
            ErrorCode.INVALID_CONFIG,
            "Invalid config value for resource ConfigResource(type=BROKER, name='1'): "
            "Password encoder secret not configured",
        ),
        (
            BROKER,
            "",
            [(SET, "listener.name.external.ssl.keystore.location", "/a")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listener.name.external.ssl.keystore.location)",
        ),
        (
            BROKER,
            "1",
            [(SET, "num.io.threads", "17")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 17 for configuration num.io.threads: "
            "value should not be greater than double the current value 8",
        ),
        (
            BROKER,
            "",
            [(SET, "num.io.threads", "3")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 3 for configuration num.io.threads: value should be at least half the current value 8",
        ),
        (
            BROKER,
            "",
            [(SET, "log.cleaner.threads", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration log.cleaner.threads: value should be at least 1",
        ),
        (
            BROKER,
            "",
            [(SET, "num.replica.fetchers", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration num.replica.fetchers: "
            "must be at least 1: no fetcher could copy anything",
        ),
        (
            BROKER,
            "1",
            [(SET, "max.connections", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration max.connections: no client could connect any more",
        ),
        (
            BROKER,
            "",
            [(SET, "max.connection.creation.rate", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration max.connection.creation.rate: no client could connect any more",
        ),
        (
            BROKER,
            "1",
            [(SET, "listener.name.plaintext.max.connections", "0")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration listener.name.plaintext.max.connections: "
            "no client could connect any more",
        ),
        (
            BROKER,
            "1",
            [(SET, "follower.replication.throttled.rate", "-1")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value -1 for configuration follower.replication.throttled.rate: Value must be at least 0",
        ),
        (GROUP, "g", [], ErrorCode.INVALID_REQUEST, "Unknown resource type 32"),
        (CLIENT_METRICS, "", [], ErrorCode.INVALID_REQUEST, NOT_FOR_CLIENT_METRICS),
        (CLIENT_METRICS, "x", [], ErrorCode.INVALID_REQUEST, NOT_FOR_CLIENT_METRICS),
    ],
)
def test_changes_that_are_refused(
    kind: int, name: str, changes: list[tuple[int, str, str | None]], code: ErrorCode, message: str
) -> None:
    if kind == TOPIC and message.startswith("Invalid value"):
        message = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{name}'): {message}"

    async def story(cluster: Cluster) -> None:
        assert await cluster.change(kind, name, *changes) == (code, message)
        settings = {key: text for _, key, text in changes}
        if len(settings) == len(changes) and all(what == SET for what, _, _ in changes):
            assert await cluster.replace(kind, name, settings) == (code, message)
        assert cluster.announced() == 0

    play(story)


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate", "num.network.threads"])
def test_limits_of_one_listener_may_be_set_for_all_brokers(name: str) -> None:
    """They were refused with "broker id must be specified" (DynamicBrokerConfig.ClusterLevelListenerConfigs)."""

    async def story(cluster: Cluster) -> None:
        assert await cluster.change(BROKER, "", (SET, f"listener.name.external.{name}", "5")) == OK
        assert await cluster.stored("brokers/<default>") == {f"listener.name.external.{name}": "5"}

    play(story)


def test_a_resource_named_twice_is_not_changed_at_all() -> None:
    async def story(cluster: Cluster) -> None:
        configs = [messages.AlterableConfig(name="retention.ms", value="5")]
        twice = [messages.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=configs)] * 2
        request = messages.IncrementalAlterConfigsRequest(resources=twice)
        reply = await incremental_alter_configs.handle(cluster.broker, request, RequestContext(1, "", "", ""))
        assert isinstance(reply.response, messages.IncrementalAlterConfigsResponse)
        assert [one.error_code for one in reply.response.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert await cluster.stored("topics/t") == {}

    play(story)


def test_settings_that_zookeeper_would_not_take_are_refused_before_it_cuts_us_off() -> None:
    """Grown by one change after another: no text of a request is longer than 32,767 bytes."""

    async def story(cluster: Cluster) -> None:
        name, sizes = "leader.replication.throttled.replicas", []
        for first in range(10_000, 200_000, 2_900):
            listing = ",".join(f"{number}:101" for number in range(first, first + 2_900))
            code, message = await cluster.change(TOPIC, "t", (APPEND, name, listing))
            if code:
                break
            sizes.append(len((await cluster.stored("topics/t"))[name]))
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR and message and "more than the 1000000 bytes" in message
        assert sizes and len((await cluster.stored("topics/t"))[name]) == sizes[-1]

    play(story)


def test_a_change_waits_for_zookeeper_that_is_away_and_a_look_does_not() -> None:
    """UNKNOWN_SERVER_ERROR, which no client asks again after, was the answer to each change in a short outage."""

    async def story(cluster: Cluster) -> None:
        cluster.zookeeper.partition(cluster.store)
        await asyncio.sleep(0)
        changing = asyncio.ensure_future(cluster.change(TOPIC, "t", (SET, "retention.ms", "5")))
        assert (await cluster.describe(TOPIC, "t")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await asyncio.sleep(0.1)
        assert not changing.done()
        cluster.zookeeper.heal(cluster.store)
        assert await changing == OK
        assert (await cluster.entry(TOPIC, "t", "retention.ms")).value == "5"

    play(story)


def test_a_session_that_ends_before_anything_is_written_is_an_error_in_the_answer() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.zookeeper.partition(cluster.store, unnoticed_ms=50)
        changing = asyncio.ensure_future(cluster.change(TOPIC, "t", (SET, "retention.ms", "5")))
        await asyncio.sleep(0.1)
        cluster.zookeeper.expire_session(cluster.store.session_id)
        cluster.zookeeper.heal(cluster.store)
        code, message = await changing
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR and message

    play(story)


@pytest.mark.parametrize("logger", sorted({*loggers.KAFKAS.values()} - {"odradek.zookeeper"}))
def test_each_of_kafkas_loggers_stands_for_one_of_ours(logger: str) -> None:
    assert find_spec(logger) is not None


def test_loggers() -> None:
    name = "odradek.tests.a_logger"
    logger = logging.getLogger(name)

    async def story(cluster: Cluster) -> None:
        assert await cluster.change(LOGGER, "1", (SET, name, "ERROR")) == OK
        assert logger.level == logging.ERROR
        entry = await cluster.entry(LOGGER, "1", name)
        assert (entry.value, entry.config_source, entry.read_only, entry.is_sensitive) == ("ERROR", 6, False, False)
        assert await cluster.change(LOGGER, "1", (SET, name, "TRACE"), validate_only=True) == OK
        assert logger.level == logging.ERROR
        assert await cluster.change(LOGGER, "1", (DELETE, name, None)) == OK
        assert logger.level == logging.NOTSET
        assert await cluster.change(LOGGER, "1", (SET, "kafka.controller", "WARN")) == OK
        assert logging.getLogger("odradek.controller").level == logging.WARNING
        assert (await cluster.entry(LOGGER, "1", "kafka.controller")).value == "WARN"
        assert await cluster.change(LOGGER, "1", (DELETE, "kafka.controller", None)) == OK
        for change, code in (
            ((SET, name, "LOUD"), ErrorCode.INVALID_CONFIG),
            ((SET, "odradek.tests.no_such_logger", "INFO"), ErrorCode.INVALID_CONFIG),
            ((DELETE, "root", None), ErrorCode.INVALID_REQUEST),
            ((APPEND, name, "INFO"), ErrorCode.INVALID_REQUEST),
        ):
            assert (await cluster.change(LOGGER, "1", change))[0] == code
        assert (await cluster.change(LOGGER, "2", (SET, name, "INFO")))[0] == ErrorCode.INVALID_REQUEST
        assert (await cluster.replace(LOGGER, "1", {name: "INFO"}))[0] == ErrorCode.INVALID_REQUEST

    play(story)
