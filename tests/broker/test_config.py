"""A broker's configuration from its file: what it amounts to, what is refused and how that is said."""

import logging
from pathlib import Path

import pytest

from odradek.broker.config import BrokerConfig, ConfigError, Given, build_config, load_config
from odradek.broker.settings.listener_endpoints import Listener
from odradek.testing.simulated_files import SimulatedFiles

FILE = "config/server.properties"
KAFKAS_FILE = """
# The id of the broker. This must be set to a unique integer for each broker.
broker.id=0
#listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
"""The settings of Kafka's own config/server.properties."""


def load(text: str, *overrides: str) -> BrokerConfig:
    files = SimulatedFiles()
    files.set_content(FILE, text.encode())
    return load_config(FILE, overrides, files, own_host=lambda: "machine.example.com")


def config(**settings: str) -> BrokerConfig:
    """With Kafka's names, `_` for `.`."""
    given = {"zookeeper.connect": "zk:2181"} | {name.replace("_", "."): text for name, text in settings.items()}
    return build_config([Given(name, text, "test") for name, text in given.items()])


def refusal(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_kafkas_own_file_starts() -> None:
    found = load(KAFKAS_FILE)
    assert (found.broker_id, found.log_dirs, found.zookeeper_connect) == (0, ("/tmp/kafka-logs",), "localhost:2181")
    assert found.listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert found.advertised_listeners == (Listener("PLAINTEXT", "machine.example.com", 9092, "PLAINTEXT"),)
    assert found.with_dynamic({}, {}).advertised_listeners == found.advertised_listeners
    assert found.log_retention_ms == 168 * 3_600_000
    assert (found.group_initial_rebalance_delay_ms, found.offsets_topic_replication_factor) == (0, 1)


def test_overrides_come_first_and_the_last_counts() -> None:
    found = load(KAFKAS_FILE + "num.partitions=2\n", "num.partitions=4", "num.partitions = 8", "log.dirs=/a, /b")
    assert (found.num_partitions, found.log_dirs) == (8, ("/a", "/b"))
    with pytest.raises(ConfigError, match="not key=value"):
        load(KAFKAS_FILE, "num.partitions")


def test_a_bad_value_names_file_line_key_value_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        load("zookeeper.connect=zk\n\nlog.segment.bytes=many\n")
    assert str(caught.value) == (
        f"{FILE}:3: log.segment.bytes=many: Not a number of type INT (allowed: a whole number of 32 bits, at least 14)"
    )
    with pytest.raises(ConfigError, match=r"listener\.name\.x\.max\.connections=many"):
        load("listener.name.x.max.connections=many\n")
    with pytest.raises(ConfigError, match=f"{FILE}:1: .*hexadecimal"):
        load("a=\\u1")


def test_unknown_and_idle_settings_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load("zookeeper.connect=zk\nnum.partition=3\nnum.io.threads=9\nnum.network.threads=3\nremote.log.x=1\nfoo=1\n")
    assert caplog.messages == [
        f"{FILE}:2: num.partition is not a setting of Kafka's, did you mean num.partitions?",
        f"{FILE}:3: num.io.threads has no effect here: one loop does it all",
        f"{FILE}:5: remote.log.x has no effect here",
        f"{FILE}:6: foo is not a setting of Kafka's",
    ]


def test_what_is_not_built_is_refused() -> None:
    assert refusal(authorizer_zookeeper_url="zk") == (
        "test: authorizer.zookeeper.url=zk: refused, access lists are kept in the cluster's own ZooKeeper"
    )
    assert "kafka.security.authorizer.AclAuthorizer" in refusal(authorizer_class_name="kafka.Acl")
    for name in ("principal_builder_class", "listener_name_x_principal_builder_class"):
        assert "refused, Java classes cannot be loaded" in refusal(**{name: "x.UsersByDepartment"}), name
    own = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    assert config(principal_builder_class=own).broker_id == -1
    assert "super.users" in refusal(super_users="User:root;alice")
    for name, value in (("process_roles", "broker"), ("zookeeper_metadata_migration_enable", "TRUE")):
        assert "KRaft is not built" in refusal(**{name: value})
    assert config(process_roles="", zookeeper_metadata_migration_enable="false").broker_id == -1, "as Kafka"
    assert config(authorizer_class_name="", zookeeper_set_acl="false").broker_id == -1


def test_what_brokers_speak_among_themselves() -> None:
    for version in ("3.9", "3.9-IV0", "3.9.1"):
        assert config(inter_broker_protocol_version=version).broker_id == -1
    assert refusal(inter_broker_protocol_version="3.8").startswith("test: inter.broker.protocol.version=3.8: ")


def test_times_in_several_units() -> None:
    found = config(log_retention_hours="2", log_retention_minutes="3", log_roll_hours="1", log_roll_jitter_ms="7")
    assert (found.log_retention_ms, found.log_roll_ms, found.log_roll_jitter_ms) == (180_000, 3_600_000, 7)
    found = config(log_retention_minutes="3", log_retention_ms="-5", log_flush_scheduler_interval_ms="9")
    assert (found.log_retention_ms, found.log_flush_interval_ms) == (-1, 9)
    assert config(log_flush_scheduler_interval_ms="9", log_flush_interval_ms="4").log_flush_interval_ms == 4


def test_rules_over_several_settings() -> None:
    assert "zookeeper.connect" in refusal(zookeeper_connect="")
    assert "between -1 and 1000" in refusal(broker_id="1001")
    assert "between 0 and" in refusal(broker_id_generation_enable="false")
    assert config(broker_id="1001", broker_id_generation_enable="false").broker_id == 1001
    assert "log.retention.ms=0" in refusal(log_retention_ms="0")
    assert "replica.lag.time.max.ms" in refusal(replica_lag_time_max_ms="400")
    assert "replica.socket.timeout.ms" in refusal(replica_socket_timeout_ms="400")
    assert "no fetcher could copy" in refusal(num_replica_fetchers="0")
    assert "log.cleaner.threads=0: value should be at least 1" in refusal(log_cleaner_threads="0")
    assert "group.max.session.timeout.ms" in refusal(group_max_session_timeout_ms="5000")
    assert "no codec" in refusal(offsets_topic_compression_codec="5")
    assert "log.dirs" in refusal(log_dirs=" , ")
    assert "twice" in refusal(log_dirs="/a,/a/")
    assert config(log_dir="/a").log_dirs == ("/a",)
    assert config(log_dirs="/a,/b").num_replica_alter_log_dirs_threads == 2
    assert config(num_replica_alter_log_dirs_threads="5").num_replica_alter_log_dirs_threads == 5
    assert config(log_dirs="data/../logs").log_dirs == (str(Path.cwd() / "logs"),)
    assert config(node_id="7").broker_id == 7


def test_node_id_and_broker_id_are_two_names_of_one_number() -> None:
    """As with Kafka, both are told to who asks for the settings, whichever was given."""
    for found in (config(node_id="7"), config(broker_id="7")):
        assert (found.layers.value("node.id"), found.layers.value("broker.id")) == (7, 7)
    assert config(node_id="7", broker_id="07").broker_id == 7
    assert "node.id=8: must be the number of broker.id, 7" in refusal(node_id="8", broker_id="7")


def test_connection_limits() -> None:
    found = config(max_connections_per_ip_overrides="localhost:5, ::1:7", max_connections_per_ip="0")
    assert found.max_connections_per_ip_overrides == {"localhost": 5, "::1": 7}
    assert "may be 0 only" in refusal(max_connections_per_ip="0")
    for bad in ("localhost", "localhost:-1", "localhost:2147483648", f"localhost:{'9' * 5000}", "localhost:٣", ":1"):
        assert "not host:number" in refusal(max_connections_per_ip_overrides=bad)
    late = {"connection_failed_authentication_delay_ms": "700000"}
    assert "must be less than connections.max.idle.ms" in refusal(**late)
    assert config(connections_max_idle_ms="-1", **late).connection_failed_authentication_delay_ms == 700_000


def test_listeners() -> None:
    found = config(
        listeners="internal://10.0.0.1:9092, EXTERNAL://[::1]:9093",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,external:plaintext",
        advertised_listeners="EXTERNAL://kafka.example.com:19093,INTERNAL://10.0.0.1:9092",
        inter_broker_listener_name="internal",
    )
    assert found.listeners == (
        Listener("INTERNAL", "10.0.0.1", 9092, "PLAINTEXT"),
        Listener("EXTERNAL", "::1", 9093, "PLAINTEXT"),
    )
    assert [(one.name, one.host, one.port) for one in found.advertised_listeners] == [
        ("EXTERNAL", "kafka.example.com", 19093),
        ("INTERNAL", "10.0.0.1", 9092),
    ], "in the order of the setting: clients of ZooKeeper take the first one in plain text"
    assert found.inter_broker_listener_name == "INTERNAL"


def test_listeners_of_before_3_0() -> None:
    found = config(host_name="a", port="9100", advertised_host_name="b", advertised_port="9200")
    assert found.listeners == (Listener("PLAINTEXT", "a", 9100, "PLAINTEXT"),)
    assert found.advertised_listeners == (Listener("PLAINTEXT", "b", 9200, "PLAINTEXT"),)
    assert config(port="9100").listeners[0].port == 9100


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "9092"}, "is not NAME://host:port"),
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "PLAINTEXT://:99999"}, "not between 0 and 65535"),
        ({"listeners": "OTHER://:9092"}, "no protocol in listener.security.protocol.map"),
        ({"listeners": "SSL://:9092"}, "PLAINTEXT: is not the name of an advertised listener"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "listener name PLAINTEXT is named twice"),
        (
            {"listeners": "A://a:1,B://b:1", "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"},
            "port 1 is named twice",
        ),
        ({"listener_security_protocol_map": "A=PLAINTEXT"}, "is not NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "A:TLS"}, "is not a security protocol"),
        ({"listener_security_protocol_map": "A:SSL,a:SSL"}, "A is named twice"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot be connected to"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot be connected to"),
        (
            {"advertised_listeners": "A://a:1", "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,A:PLAINTEXT"},
            "A is not in listeners",
        ),
        ({"inter_broker_listener_name": "SSL"}, "is not the name of an advertised listener"),
        ({"inter_broker_listener_name": ""}, "has no protocol in listener.security.protocol.map"),
        ({"inter_broker_listener_name": "X"}, "no protocol"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "only one of it",
        ),
    ],
)
def test_listeners_that_are_refused(settings: dict[str, str], reason: str) -> None:
    assert reason in refusal(**settings)


def test_the_machines_name_stands_in_only_where_no_host_is_said() -> None:
    found = load("zookeeper.connect=zk", "listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://b1:9999")
    assert (found.listeners[0].host, found.advertised_listeners[0].host) == ("", "b1")
    found = load("zookeeper.connect=zk", "listeners=PLAINTEXT://127.0.0.1:9092")
    assert found.advertised_listeners == found.listeners


def test_one_port_for_both_families_and_any_port() -> None:
    both = config(
        listeners="A://127.0.0.1:9092,B://[::1]:9092",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
    )
    assert [one.port for one in both.listeners] == [9092, 9092]
    assert config(listeners="PLAINTEXT://localhost:0").listeners[0].port == 0


def test_dynamic_settings_come_before_the_file() -> None:
    static = config(log_segment_bytes="1000", log_retention_hours="1")
    dynamic = static.with_dynamic(
        {"log.segment.bytes": "2000", "log.retention.ms": "5", "num.partitions": "9", "message.max.bytes": "many"},
        {"log.segment.bytes": "3000", "broker.rack": "r"},
    )
    assert (dynamic.log_segment_bytes, dynamic.log_retention_ms) == (3000, 5)
    assert (dynamic.num_partitions, dynamic.message_max_bytes) == (static.num_partitions, static.message_max_bytes)
    assert dynamic.broker_rack is None
    assert dynamic.with_dynamic({}, {}) == static
    assert dynamic.value("num.io.threads") == 8
