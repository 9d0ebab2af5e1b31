"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.config import Given, build_config
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import alter_configs, describe_configs, incremental_alter_configs, loggers
from odradek.broker.requests.incremental_alter_configs import Operation
from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import alter_configs as legacy_messages
from odradek.protocol.messages import incremental_alter_configs as messages
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.entity_settings import change_entity, stored_settings
from odradek.zk_schema.znodes.notifications import CONFIG_CHANGE_PREFIX

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_FOR_CLIENT_METRICS = "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"
STATIC = {
    "zookeeper.connect": "zk:2181",
    "log.retention.hours": "24",
    "ssl.keystore.password": "secret",
    "my.plugin.key": "secret too",
}


class Cluster:
    """Broker 1 with topic `t`."""

    def __init__(self, clock: VirtualClock) -> None:
        self.zookeeper = MemoryZooKeeper(clock)
        self.store = self.zookeeper.connect()
        config = build_config([Given(name, text, "test") for name, text in STATIC.items()])
        self.broker: Any = SimpleNamespace(
            config=config,
            identity=SimpleNamespace(broker_id=1),
            metadata=SimpleNamespace(topics={"t": {}}),
            zookeeper=self.store,
            clock=clock,
        )

    async def _ask(self, module: Any, request: Any, version: int) -> Any:
        """Through the bytes of that version, as a client would see it."""
        outcome = module.handle(
            self.broker, decode(module.REQUEST, version, encode(request, version)), RequestContext(version, "", "", "")
        )
        reply = await outcome
        assert isinstance(reply, Reply)
        return decode(type(reply.response), version, encode(reply.response, version))

    async def describe(
        self, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True
    ) -> DescribeConfigsResult:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=True)
        response: DescribeConfigsResponse = await self._ask(describe_configs, request, version)
        return response.results[0]

    async def entry(self, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
        (found,) = (await self.describe(kind, name, key)).configs
        return found

    async def replace(
        self, kind: int, name: str, settings: dict[str, str | None], **options: Any
    ) -> tuple[int, str | None]:
        configs = [legacy_messages.AlterableConfig(name=key, value=text) for key, text in settings.items()]
        resource = legacy_messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = legacy_messages.AlterConfigsRequest(resources=[resource], **options)
        (answer,) = (await self._ask(alter_configs, request, 2)).responses
        assert (answer.resource_type, answer.resource_name) == (kind, name)
        return answer.error_code, answer.error_message

    async def change(
        self, kind: int, name: str, *changes: tuple[int, str, str | None], **options: Any
    ) -> tuple[int, str | None]:
        configs = [messages.AlterableConfig(config_operation=what, name=key, value=text) for what, key, text in changes]
        resource = messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = messages.IncrementalAlterConfigsRequest(resources=[resource], **options)
        (answer,) = (await self._ask(incremental_alter_configs, request, 1)).responses
        return answer.error_code, answer.error_message

    async def stored(self, entity: str) -> dict[str, str]:
        return await stored_settings(self.store, entity)

    def announced(self) -> int:
        return sum(path.startswith(CONFIG_CHANGE_PREFIX) for path in self.zookeeper.paths())


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock)
        await cluster.store.start(1000)
        await story(cluster)

    run_virtual(main)


def sources(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


OK = (ErrorCode.NONE, None)
SET, DELETE, APPEND, SUBTRACT = Operation


def test_a_topic_is_described_with_where_each_value_comes_from() -> None:
    async def story(cluster: Cluster) -> None:
        await change_entity(cluster.store, "topics/t", {"segment.bytes": "1000"})
        everything = await cluster.describe(TOPIC, "t")
        assert [one.name for one in everything.configs] == sorted(TOPIC_SETTINGS)
        own = await cluster.entry(TOPIC, "t", "segment.bytes")
        assert (own.value, own.config_source, own.read_only, own.config_type) == ("1000", 1, False, 3)
        assert sources(own) == [("segment.bytes", "1000", 1), ("log.segment.bytes", "1073741824", 5)]
        assert own.documentation == TOPIC_SETTINGS["segment.bytes"].documentation
        brokers = await cluster.entry(TOPIC, "t", "retention.ms")
        assert (brokers.value, brokers.config_source) == ("86400000", 5)
        assert sources(brokers) == []
        plain = await cluster.entry(TOPIC, "t", "remote.storage.enable")
        assert (plain.value, plain.config_source, sources(plain)) == ("false", 5, [])

    play(story)


def test_a_broker_is_described_in_the_order_in_which_its_sources_count() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.broker.config = cluster.broker.config.with_dynamic(
            {"log.retention.ms": "20", "message.max.bytes": "5"}, {"log.retention.ms": "10"}
        )
        entry = await cluster.entry(BROKER, "1", "log.retention.ms")
        assert (entry.value, entry.config_source, entry.read_only) == ("10", 2, False)
        assert sources(entry) == [
            ("log.retention.ms", "10", 2),
            ("log.retention.ms", "20", 3),
            ("log.retention.hours", "24", 4),
            ("log.retention.hours", "168", 5),
        ]
        fixed = await cluster.entry(BROKER, "1", "broker.id")
        assert (fixed.value, fixed.config_source, fixed.read_only) == ("-1", 5, True)
        listeners = await cluster.entry(BROKER, "1", "listeners")
        assert not listeners.read_only
        everything = {one.name for one in (await cluster.describe(BROKER, "1")).configs}
        shown = {one.name for one in BROKER_SETTINGS.values() if not one.internal}
        assert everything == shown | {"my.plugin.key"}
        default = await cluster.describe(BROKER, "")
        assert [(one.name, one.value, one.config_source) for one in default.configs] == [
            ("log.retention.ms", "20", 3),
            ("message.max.bytes", "5", 3),
        ]

    play(story)


def test_what_a_reassignment_or_nobody_knows_is_shown_so_that_it_can_be_taken_away() -> None:
    async def story(cluster: Cluster) -> None:
        names = ("leader.replication.throttled.rate", "my.own", "listener.name.plaintext.max.connections")
        assert await cluster.change(BROKER, "1", *((SET, name, "50") for name in names)) == OK
        cluster.broker.config = cluster.broker.config.with_dynamic({}, await cluster.stored("brokers/1"))
        throttle, unknown, of_listener = [await cluster.entry(BROKER, "1", name) for name in names]
        assert (throttle.value, sources(throttle)) == ("50", [(names[0], "50", 2)])
        assert (unknown.value, unknown.is_sensitive, sources(unknown)) == (None, True, [("my.own", None, 2)])
        assert of_listener.value == "50"
        assert sources(of_listener) == [(names[2], "50", 2), ("max.connections", "2147483647", 5)]
        assert await cluster.change(BROKER, "1", *((DELETE, name, None) for name in names)) == OK
        assert await cluster.stored("brokers/1") == {}

    play(story)


@pytest.mark.parametrize("key", ["ssl.keystore.password", "my.plugin.key"])
def test_secrets_stay_secret(key: str) -> None:
    async def story(cluster: Cluster) -> None:
        entry = await cluster.entry(BROKER, "1", key)
        assert entry.is_sensitive and entry.value is None
        assert [value for _, value, _ in sources(entry)] == [None]

    play(story)


def test_old_versions_say_whether_a_value_is_the_default() -> None:
    async def story(cluster: Cluster) -> None:
        result = await cluster.describe(BROKER, "1", "num.partitions", "log.retention.hours", version=0)
        assert {one.name: one.is_default for one in result.configs} == {
            "log.retention.hours": False,
            "num.partitions": True,
        }
        (entry,) = (await cluster.describe(BROKER, "1", "num.partitions", version=2, synonyms=False)).configs
        assert entry.synonyms == []

    play(story)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "\u00b2", ErrorCode.INVALID_REQUEST),
        (BROKER, "1" * 5000, ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(kind: int, name: str, code: ErrorCode) -> None:
    async def story(cluster: Cluster) -> None:
        result = await cluster.describe(kind, name)
        assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
        assert result.error_message and result.configs == []

    play(story)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "Client metrics subscription name must not be empty"),
        ("x", "Config type client-metrics is only supported on KRaft clusters"),
    ],
)
def test_client_metrics_are_said_to_be_for_kraft(name: str, said: str) -> None:
    async def story(cluster: Cluster) -> None:
        result = await cluster.describe(CLIENT_METRICS, name)
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, said)

    play(story)


@pytest.mark.parametrize("kind", [0, 1, GROUP, 64])
def test_a_resource_of_an_unknown_kind_has_the_whole_request_refused(kind: int) -> None:
    async def story(cluster: Cluster) -> None:
        resources = [
            DescribeConfigsResource(resource_type=one, resource_name=name) for one, name in ((TOPIC, "t"), (kind, "g"))
        ]
        response = await cluster._ask(describe_configs, DescribeConfigsRequest(resources=resources), 4)
        assert [(one.resource_type, one.resource_name, one.error_code) for one in response.results] == [
            (TOPIC, "t", ErrorCode.INVALID_REQUEST),
            (kind, "g", ErrorCode.INVALID_REQUEST),
        ]
        assert all(one.error_message and not one.configs for one in response.results)

    play(story)


def test_settings_written_past_all_checks_are_an_error_and_not_an_accident() -> None:
    async def story(cluster: Cluster) -> None:
        await change_entity(cluster.store, "topics/t", {"segment.bytes": "many"})
        assert (await cluster.describe(TOPIC, "t")).error_code == ErrorCode.INVALID_CONFIG

    play(story)


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
            [(SET, "listener.name.external.max.connections", "5")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listener.name.external.max.connections)",
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
            "Invalid value 0 for configuration log.cleaner.threads: compaction needs at least 1",
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
    if message.startswith("Invalid value"):
        resource = f"ConfigResource(type={'TOPIC' if kind == TOPIC else 'BROKER'}, name='{name}')"
        message = f"Invalid config value for resource {resource}: {message}"

    async def story(cluster: Cluster) -> None:
        assert await cluster.change(kind, name, *changes) == (code, message)
        settings = {key: text for _, key, text in changes}
        if len(settings) == len(changes) and all(what == SET for what, _, _ in changes):
            assert await cluster.replace(kind, name, settings) == (code, message)
        assert cluster.announced() == 0

    play(story)


def test_a_resource_named_twice_is_not_changed_at_all() -> None:
    async def story(cluster: Cluster) -> None:
        configs = [messages.AlterableConfig(name="retention.ms", value="5")]
        twice = [messages.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=configs)] * 2
        request = messages.IncrementalAlterConfigsRequest(resources=twice)
        reply = await incremental_alter_configs.handle(cluster.broker, request, RequestContext(1, "", "", ""))  # type: ignore[misc]
        assert [one.error_code for one in reply.response.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert await cluster.stored("topics/t") == {}

    play(story)


def test_settings_that_zookeeper_would_not_take_are_refused_before_it_cuts_us_off() -> None:
    async def story(cluster: Cluster) -> None:
        listing = ",".join(["5:101"] * 200_000)
        code, message = await cluster.change(TOPIC, "t", (SET, "leader.replication.throttled.replicas", listing))
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR and message and "more than 1000000 bytes" in message
        assert await cluster.stored("topics/t") == {}

    play(story)


def test_zookeeper_that_is_away_is_an_error_in_the_answer() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.zookeeper.partition(cluster.store)
        await asyncio.sleep(0)
        code, message = await cluster.change(TOPIC, "t", (SET, "retention.ms", "5"))
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR and message
        assert (await cluster.describe(TOPIC, "t")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR

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
