"""DescribeConfigs: what is shown of topics, brokers and loggers, and where each value comes from."""

import pytest

from odradek.broker.requests import describe_configs
from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from odradek.zk_schema.entity_settings import change_entity
from tests.broker.requests.configured_broker import (
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    OK,
    SET,
    TOPIC,
    Cluster,
    play,
)


def sources(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


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


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "NaN"])
def test_numbers_without_digits_are_written_as_java_does(text: str) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.broker.config = cluster.broker.config.with_dynamic({"sasl.login.refresh.window.factor": text}, {})
        entry = await cluster.entry(BROKER, "1", "sasl.login.refresh.window.factor")
        assert (entry.value, entry.config_source) == (text, 3)

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


@pytest.mark.parametrize(
    ("name", "read_only"),
    [
        ("max.connections", False),
        ("ssl.keystore.location", False),
        ("listener.name.plaintext.max.connections", True),
        ("listener.name.plaintext.ssl.keystore.location", True),
        ("follower.replication.throttled.rate", True),
        ("my.own", True),
    ],
)
def test_what_kafka_tells_as_read_only_is_told_so(name: str, read_only: bool) -> None:
    """Kafka looks the whole name up among the dynamic ones; those of listeners and throttles are not there, though
    they can be changed. Source: ConfigHelper.createBrokerConfigEntry, DynamicBrokerConfig.AllDynamicConfigs."""

    async def story(cluster: Cluster) -> None:
        cluster.broker.config = cluster.broker.config.with_dynamic({}, {name: "50"})
        assert (await cluster.entry(BROKER, "1", name)).read_only is read_only

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
