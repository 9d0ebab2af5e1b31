"""Settings: names, types, ranges."""

from typing import Any

import pytest

from odradek.aio import Admin
from odradek.client.config import AdminConfig, addresses, load
from odradek.client.consumer import config as consumer_config
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.errors import ConfigError
from odradek.client.producer import config as producer_config
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.produce_requests import Compression, encode
from odradek.client.records import TopicPartition
from odradek.protocol.compression import codec_number


def producer(given: dict[str, object] | None = None, **settings: object) -> ProducerConfig:
    return producer_config.check(load(ProducerConfig, given, {"bootstrap_servers": "a:1", **settings}))


def consumer(**settings: object) -> ConsumerSettings:
    return consumer_config.check(load(ConsumerSettings, None, {"bootstrap_servers": "a:1", **settings}))


def test_kafkas_names_and_keywords_mean_the_same_and_keywords_win() -> None:
    config = producer({"linger.ms": "5", "batch.size": 100, "acks": "ALL"}, batch_size="200")
    assert (config.linger_ms, config.batch_size, config.acks, config.acks_number) == (5.0, 200, "all", -1)
    assert config.bootstrap_servers == ["a:1"]


def test_defaults_are_kafka_3_9s_but_for_batches() -> None:
    config = producer()
    assert (config.acks, config.idempotent, config.linger_ms, config.batch_bytes) == ("all", True, 0, 131_072)
    assert producer(acks=0).batch_bytes == 16_384, "nobody says then that a topic takes no larger ones"
    assert producer(acks=0, batch_size=70_000).batch_bytes == producer(batch_size=70_000).batch_bytes == 70_000
    assert producer(max_request_size=20_000).batch_bytes == 20_000
    assert (config.delivery_timeout_ms, config.max_block_ms, config.buffer_memory) == (120_000, 60_000, 33_554_432)
    settings = consumer(group_id="g")
    assert config.receive_buffer_bytes == settings.receive_buffer_bytes == -1  # not Kafka's 64 kB: the system's grows
    assert settings.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert (settings.session_timeout_ms, settings.max_poll_records, settings.auto_offset_reset) == (
        45_000,
        500,
        "latest",
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compression_gzip_level": 0}, "compression.gzip.level must be 1 to 9, or -1 for gzip's default, not 0"),
        ({"compression_lz4_level": 18}, "compression.lz4.level must be at most 17, not 18"),
        ({"metadata_max_idle_ms": 4_999}, "metadata.max.idle.ms must be at least 5000, not 4999"),
        ({"lingr_ms": 5}, "unknown setting lingr.ms: did you mean linger.ms?"),
        ({"api_version": (2, 6)}, "api.version has no effect here, leave it out: brokers say what they speak"),
        (
            {"enable_metrics_push": False},
            "enable.metrics.push has no effect here, leave it out: metrics are",
        ),
        ({"linger_ms": "soon"}, "linger.ms must be a number, not 'soon'"),
        ({"batch_size": -1}, "batch.size must be at least 0, not -1"),
        ({"batch_size": 1.5}, "batch.size must be a whole number, not 1.5"),
        ({"batch_size": True}, "batch.size must be a whole number, not True"),
        ({"acks": 2}, "acks must be one of all, -1, 0, 1, not 2"),
        ({"acks": "2"}, "acks must be one of all, -1, 0, 1, not '2'"),
        ({"enable_idempotence": "maybe"}, "enable.idempotence must be true or false, not 'maybe'"),
        ({"enable_idempotence": True, "acks": "1"}, "enable.idempotence=true needs acks=all, not acks=1"),
        ({"delivery_timeout_ms": 10}, "delivery.timeout.ms=10 must be at least linger.ms + request.timeout.ms = 30000"),
        ({"request_timeout_ms": 2**31}, "request.timeout.ms must be at most 2147483647, not 2147483648"),
        ({"request_timeout_ms": float("inf")}, "request.timeout.ms must be a whole number, not inf"),
        ({"max_block_ms": 2**63}, "max.block.ms must be at most 9223372036854775807"),
        ({"linger_ms": "nan"}, "linger.ms must be a number, not 'nan'"),
        ({"linger_ms": float("inf")}, "linger.ms must be at most 9223372036854775807, not inf"),
        ({"client_id": "\ud800"}, "client.id has characters that UTF-8 cannot encode"),
        ({"client_id": "x" * 32_768}, "client.id must have at most 32767 bytes, not 32768"),
        ({"transactional_id": ""}, "transactional.id is empty"),
        ({"transactional_id": "t", "acks": "1"}, "transactional.id needs acks=all, not acks=1"),
        ({"transactional_id": "t", "retries": 0}, "transactional.id needs retries above 0"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional.id needs enable.idempotence=true"),
        ({"transaction_timeout_ms": 0}, "transaction.timeout.ms must be at least 1, not 0"),
        ({"sasl_kerberos_kinit_cmd": "kinit"}, "sasl.kerberos.kinit.cmd: these clients cannot do that yet"),
        (
            {"security_protocol": "TLS"},
            "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
    ],
)
def test_a_wrong_setting_is_refused_in_one_clear_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer(**settings)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["my.Interceptor", [object], ["my.Interceptor"], object()])
def test_interceptors_are_a_list_of_objects(given: object) -> None:
    """A class, or each letter of a name, was called for every record, and its failure logged."""
    for made in (producer, consumer):
        with pytest.raises(ConfigError, match=r"interceptor\.classes must be"):
            made(interceptor_classes=given)


def test_settings_that_are_long_in_kafka_may_be_large() -> None:
    assert producer(max_block_ms=2**63 - 1, buffer_memory=2**40, linger_ms=5).buffer_memory == 2**40
    assert consumer().consumer_timeout_ms == float("inf")


def test_acks_may_be_a_number_as_people_write_it() -> None:
    assert producer(acks=1, enable_idempotence=False).acks_number == 1
    assert producer(acks=0).idempotent is False


@pytest.mark.parametrize(("codec", "fast", "thorough"), [("gzip", 1, 9), ("lz4", 9, 17), ("zstd", -5, 19)])
def test_a_codec_has_its_own_level(codec: str, fast: int, thorough: int) -> None:
    """Kafka's compression.<codec>.level (KIP-390), of which the others' are nothing to it."""

    def size(level: int) -> int:
        config = producer({"compression.type": codec, f"compression.{codec}.level": level})
        batch = ProducerBatch(TopicPartition("t", 0), 0)
        batch.values = [b"%d is followed by %d" % (number, number + 1) for number in range(2_000)]
        batch.keys, batch.timestamps_ms, batch.headers = [None] * len(batch), [0] * len(batch), [()] * len(batch)
        return len(encode(batch, Compression(codec_number(codec), config.compression_level)))

    assert size(thorough) < size(fast)
    assert producer(compression_type="snappy", compression_gzip_level=1).compression_level is None


def test_transactions_are_off_until_there_is_an_id() -> None:
    assert (producer().transactional_id, producer().transaction_timeout_ms) == (None, 60_000)
    config = producer({"transactional.id": "t", "transaction.timeout.ms": "5000"})
    assert (config.transactional_id, config.transaction_timeout_ms, config.idempotent) == ("t", 5_000, True)


def test_idempotence_is_off_when_another_setting_rules_it_out() -> None:
    assert not producer(acks="1").idempotent
    assert not producer(max_in_flight_requests_per_connection=6).idempotent
    assert not producer(retries=0).idempotent


def test_bootstrap_servers_are_needed_and_checked() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap.servers is missing: give it as bootstrap_servers=…"):
        load(AdminConfig, None, {})
    for wrong in ("localhost", "a:0", "a:65536", ":9092", "a b:9092", "a:9092/kafka", "a:²"):
        with pytest.raises(ConfigError, match=f"'{wrong}' is not host:port"):
            addresses([wrong])
    assert addresses(["a:1", "[::1]:9092"]) == [("a", 1), ("::1", 9092)]
    assert addresses(["PLAINTEXT://a:1", "SASL_SSL://[::1]:2"]) == [("a", 1), ("::1", 2)], "as listeners are written"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition_assignment_strategy": "ranges"}, "partition.assignment.strategy: 'ranges' is none of range,"),
        ({"heartbeat_interval_ms": 5000, "session_timeout_ms": 5000}, "heartbeat.interval.ms=5000 must be lower than"),
        ({"group_id": ""}, "group.id is empty"),
        ({"group_instance_id": "i"}, "group.instance.id needs group.id"),
        ({"group_instance_id": "", "group_id": "g"}, "group.instance.id has 1 to 249 letters"),
        ({"max_poll_interval_ms": 2**31}, "max.poll.interval.ms must be at most 2147483647"),
        ({"fetch_max_bytes": 2**31}, "fetch.max.bytes must be at most 2147483647"),
        ({"auto_offset_reset": "smallest"}, "auto.offset.reset must be one of earliest, latest, none"),
    ],
)
def test_wrong_consumer_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        consumer(**settings)
    assert str(caught.value).startswith(said)


def test_java_class_names_of_assignors_are_understood() -> None:
    name = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    (only,) = consumer_config.assignors(consumer(partition_assignment_strategy=name))
    assert only.name == "cooperative-sticky"


def test_serializers_take_functions_objects_and_bytes() -> None:
    class Both:
        def serialize(self, topic: str, headers: object, value: object) -> bytes:
            return f"{topic}:{value}".encode()

    assert producer_config.serializer(None, "value")("t", (), b"x") == b"x"
    assert producer_config.serializer(str.encode, "value")("t", (), "x") == b"x"
    assert producer_config.serializer(Both(), "value")("t", (), 1) == b"t:1"
    with pytest.raises(TypeError, match="the value must be bytes, not str: set value_serializer"):
        producer_config.serializer(None, "value")("t", (), "x")


def test_long_requests_and_lingering_make_the_default_of_the_delivery_timeout_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Such a producer was refused, which Kafka's starts."""
    assert producer(request_timeout_ms=200_000, linger_ms=5.5).delivery_timeout_ms == 200_006
    assert "delivery.timeout.ms is 200006: linger.ms + request.timeout.ms" in caplog.text
    assert producer(request_timeout_ms=200_000, linger_ms=2**62).delivery_timeout_ms == 2**31 - 1
    assert producer(request_timeout_ms=200_000, delivery_timeout_ms=200_000).delivery_timeout_ms == 200_000
    with pytest.raises(ConfigError):
        producer(request_timeout_ms=200_000, delivery_timeout_ms=199_999)


def test_a_long_request_makes_the_default_of_an_admin_clients_operations_longer() -> None:
    """A request was given up before request.timeout.ms, which Kafka's admin client waits for."""
    assert Admin(bootstrap_servers="a:1").config.default_api_timeout_ms == 60_000
    assert Admin(bootstrap_servers="a:1", request_timeout_ms=90_000).config.default_api_timeout_ms == 90_000
    given = Admin(bootstrap_servers="a:1", request_timeout_ms=90_000, default_api_timeout_ms=5_000)
    assert given.config.default_api_timeout_ms == 5_000
