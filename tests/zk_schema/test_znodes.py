"""Znodes byte for byte, and older versions of them."""

import json
import random
from typing import Any

import pytest

from odradek.zk_schema.znodes.acls import AclEntry, PatternType, ResourcePattern, ResourceType, decode_acls, encode_acls
from odradek.zk_schema.znodes.admin import (
    decode_preferred_replica_election,
    decode_reassignment,
    delete_topic_path,
    encode_reassignment,
)
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint
from odradek.zk_schema.znodes.cluster import (
    FeatureStatus,
    FinalizedFeatures,
    ProducerIdBlock,
    decode_cluster_id,
    encode_cluster_id,
    new_cluster_id,
)
from odradek.zk_schema.znodes.configs import (
    broker_config_path,
    decode_config,
    desanitize,
    encode_config,
    sanitize,
    topic_config_path,
)
from odradek.zk_schema.znodes.consumers import (
    ConsumerRegistration,
    consumer_id_path,
    decode_offset,
    decode_owner,
    encode_offset,
    encode_owner,
    offset_path,
    owner_path,
)
from odradek.zk_schema.znodes.controller import ControllerRegistration, decode_controller_epoch, encode_controller_epoch
from odradek.zk_schema.znodes.json_data import BadZnode, uuid_bytes, uuid_text
from odradek.zk_schema.znodes.notifications import (
    ConfigChange,
    decode_isr_change,
    decode_log_dir_event,
    encode_log_dir_event,
    sequence_number,
)
from odradek.zk_schema.znodes.tokens import DelegationToken
from odradek.zk_schema.znodes.topics import PartitionReplicas, PartitionState, TopicAssignment, state_path

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def test_a_broker_in_version_5() -> None:
    broker = BrokerRegistration(
        3,
        (Endpoint("CLIENT", "host1", 9092, "SSL"), Endpoint("INTERNAL", "fe80::1", 9093)),
        rack="dc1",
        timestamp_ms=1700000000000,
        features={"metadata": {"min_version": 1, "max_version": 3}},
    )
    assert broker.path == "/brokers/ids/3"
    assert broker.encode() == (
        b'{"listener_security_protocol_map":{"CLIENT":"SSL","INTERNAL":"PLAINTEXT"},'
        b'"endpoints":["CLIENT://host1:9092","INTERNAL://[fe80::1]:9093"],"rack":"dc1","jmx_port":-1,'
        b'"features":{"metadata":{"min_version":1,"max_version":3}},"host":"fe80::1","timestamp":"1700000000000",'
        b'"port":9093,"version":5}'
    )
    assert BrokerRegistration.decode(3, broker.encode()) == broker
    assert broker.endpoint("CLIENT") == broker.endpoints[0]
    assert broker.endpoint("OTHER") is None


def test_a_broker_without_a_plaintext_listener_has_no_address_for_old_clients() -> None:
    written = json.loads(BrokerRegistration(1, (Endpoint("SSL", "h", 9093, "SSL"),)).encode())
    assert (written["host"], written["port"]) == (None, -1)
    assert "rack" not in written


@pytest.mark.parametrize(
    ("data", "endpoints", "rack"),
    [
        (
            '{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666"}',
            (Endpoint("PLAINTEXT", "localhost", 9092),),
            None,
        ),
        (
            '{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
            '"endpoints":["PLAINTEXT://host1:9092","SSL://host1:9093"]}',
            (Endpoint("PLAINTEXT", "host1", 9092), Endpoint("SSL", "host1", 9093, "SSL")),
            None,
        ),
        (
            '{"version":3,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
            '"endpoints":["PLAINTEXT://:9092"],"rack":"dc1"}',
            (Endpoint("PLAINTEXT", "", 9092),),
            "dc1",
        ),
        (
            '{"version":4,"host":null,"port":-1,"jmx_port":9999,"timestamp":"2233345666",'
            '"endpoints":["CLIENT://host1:9092"],"listener_security_protocol_map":{"CLIENT":"SASL_SSL"},"rack":"dc1"}',
            (Endpoint("CLIENT", "host1", 9092, "SASL_SSL"),),
            "dc1",
        ),
    ],
)
def test_brokers_of_older_versions(data: str, endpoints: tuple[Endpoint, ...], rack: str | None) -> None:
    broker = BrokerRegistration.decode(7, data.encode())
    assert broker == BrokerRegistration(7, endpoints, rack, jmx_port=9999, timestamp_ms=2233345666)


def test_a_topic_in_version_3() -> None:
    topic = TopicAssignment({1: PartitionReplicas((1, 2, 3), (3,), (1,)), 0: PartitionReplicas((0, 1))}, TOPIC_ID)
    assert topic.encode() == (
        b'{"removing_replicas":{"1":[1]},"partitions":{"0":[0,1],"1":[1,2,3]},'
        b'"topic_id":"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{"1":[3]},"version":3}'
    )
    assert TopicAssignment.decode("t", topic.encode()) == topic
    assert list(TopicAssignment.decode("t", topic.encode()).partitions) == [0, 1]


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"partitions":{"0":[0,1]}}',
        b'{"version":2,"partitions":{"0":[0,1]},"adding_replicas":{},"removing_replicas":{}}',
    ],
)
def test_topics_of_older_versions(data: bytes) -> None:
    assert TopicAssignment.decode("t", data) == TopicAssignment({0: PartitionReplicas((0, 1))})
    assert b"topic_id" not in TopicAssignment.decode("t", data).encode()


def test_partition_state() -> None:
    state = PartitionState(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=3)
    assert state_path("t", 0) == "/brokers/topics/t/partitions/0/state"
    assert state.encode() == b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
    assert PartitionState.decode("t", 0, state.encode()) == state
    recovering = PartitionState(leader=1, leader_epoch=4, isr=(1,), controller_epoch=3, leader_recovery_state=1)
    assert json.loads(recovering.encode())["leader_recovery_state"] == 1
    assert PartitionState.decode("t", 0, recovering.encode()) == recovering


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"1", ControllerRegistration(1)),
        (b'{"version":1,"brokerid":1,"timestamp":"22"}', ControllerRegistration(1, 22)),
        (b'{"version":2,"brokerid":1,"timestamp":"22","kraftControllerEpoch":7}', ControllerRegistration(1, 22, 7)),
    ],
)
def test_controllers_of_all_versions(data: bytes, expected: ControllerRegistration) -> None:
    assert ControllerRegistration.decode(data) == expected


def test_controller_as_written() -> None:
    data = b'{"version":2,"brokerid":1,"timestamp":"22","kraftControllerEpoch":-1}'
    assert ControllerRegistration(1, 22).encode() == data
    assert encode_controller_epoch(12) == b"12"
    assert decode_controller_epoch(b"12") == 12


def test_cluster_id() -> None:
    cluster_id = new_cluster_id(random.Random(0))
    assert encode_cluster_id(cluster_id) == b'{"version":"1","id":"%s"}' % cluster_id.encode()
    assert decode_cluster_id(encode_cluster_id(cluster_id)) == cluster_id
    assert uuid_text(TOPIC_ID) == TOPIC_ID_TEXT
    assert uuid_bytes(TOPIC_ID_TEXT) == TOPIC_ID


def test_producer_id_block() -> None:
    block = ProducerIdBlock(3, 4000, 4999)
    assert block.encode() == b'{"version":1,"broker":3,"block_start":"4000","block_end":"4999"}'
    assert ProducerIdBlock.decode(block.encode()) == block
    assert ProducerIdBlock.decode(b"") is None


def test_features() -> None:
    features = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3})
    assert features.encode() == b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}'
    assert FinalizedFeatures.decode(features.encode()) == features
    old = b'{"features":{"f":{"max_version_level":3,"min_version_level":1}},"version":1,"status":1}'
    assert FinalizedFeatures.decode(old) == features
    assert FinalizedFeatures.decode(b'{"features":{},"version":1,"status":0}').status is FeatureStatus.DISABLED


def test_configs() -> None:
    assert topic_config_path("t") == "/config/topics/t"
    assert broker_config_path(None) == "/config/brokers/<default>"
    assert encode_config({"retention.ms": "1"}) == b'{"version":1,"config":{"retention.ms":"1"}}'
    assert decode_config("/config/topics/t", encode_config({"retention.ms": "1"})) == {"retention.ms": "1"}
    assert decode_config("/config/topics/t", b"") == {}


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [("CN=a b,O=c*", "CN%3Da%20b%2CO%3Dc%2A"), ("plain-1._", "plain-1._"), ("é/~", "%C3%A9%2F%7E")],
)
def test_names_are_sanitized_as_javas_url_encoder_does(name: str, sanitized: str) -> None:
    assert sanitize(name) == sanitized
    assert desanitize(sanitized) == name


def test_orders_to_the_controller() -> None:
    assert delete_topic_path("t") == "/admin/delete_topics/t"
    moves = {("t", 0): (1, 2), ("u", 3): (4,)}
    assert encode_reassignment(moves) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        b'{"topic":"u","partition":3,"replicas":[4]}]}'
    )
    assert decode_reassignment(encode_reassignment(moves)) == moves
    two = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":1}]}'
    assert decode_preferred_replica_election(two) == {("t", 0), ("u", 1)}


def test_notifications() -> None:
    assert ConfigChange("users/a/clients/b").encode() == b'{"version":2,"entity_path":"users/a/clients/b"}'
    assert ConfigChange.decode(ConfigChange("topics/t").encode()) == ConfigChange("topics/t")
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert ConfigChange.decode(old) == ConfigChange("topics/t")
    assert decode_isr_change(b'{"version":1,"partitions":[{"topic":"t","partition":0}]}') == {("t", 0)}
    assert encode_log_dir_event(4) == b'{"version":1,"broker":4,"event":1}'
    assert decode_log_dir_event(encode_log_dir_event(4)) == 4
    assert sequence_number("/config/changes/config_change_0000000042") == 42


def test_access_lists() -> None:
    literal = ResourcePattern(ResourceType.TOPIC, "t")
    prefixed = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t-", PatternType.PREFIXED)
    assert literal.path == "/kafka-acl/Topic/t"
    assert prefixed.path == "/kafka-acl-extended/prefixed/TransactionalId/t-"
    assert literal.change_prefix == "/kafka-acl-changes/acl_changes_"
    assert prefixed.change_prefix == "/kafka-acl-extended-changes/acl_changes_"
    assert literal.encode_change() == b"TOPIC:t"
    assert prefixed.encode_change() == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"t-","patternType":"PREFIXED"}'
    )
    for pattern in (literal, prefixed):
        path = f"{pattern.change_prefix}0000000001"
        assert ResourcePattern.decode_change(path, pattern.encode_change()) == pattern
    entry = AclEntry("User:alice", "Allow", "Read")
    data = b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
    assert encode_acls([entry]) == data
    assert decode_acls(literal.path, data) == {entry}
    assert decode_acls(literal.path, b"") == set()


def test_delegation_tokens() -> None:
    token = DelegationToken("id", "User:alice", "User:carol", ("User:bob",), 1, 3, 2)
    assert json.loads(token.encode()) == {
        "version": 3,
        "owner": "User%3Aalice",
        "tokenRequester": "User%3Acarol",
        "renewers": ["User%3Abob"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "id",
    }
    assert DelegationToken.decode("id", token.encode()) == token
    old = {**json.loads(token.encode()), "version": 1}
    del old["tokenRequester"]
    assert DelegationToken.decode("id", json.dumps(old).encode()).requester == "User:alice"


def test_the_tree_of_the_0_8_consumer() -> None:
    assert consumer_id_path("g", "g_host-1-ab") == "/consumers/g/ids/g_host-1-ab"
    assert owner_path("g", "t", 3) == "/consumers/g/owners/t/3"
    assert offset_path("g", "t", 3) == "/consumers/g/offsets/t/3"
    member = ConsumerRegistration({"t": 2}, timestamp_ms=1416341255235)
    assert member.encode() == (b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1416341255235"}')
    assert ConsumerRegistration.decode("g", "c", member.encode()) == member
    assert decode_owner(encode_owner("g_host-0")) == "g_host-0"
    assert encode_offset(12) == b"12"
    assert decode_offset("g", "t", 0, b"12") == 12


def decode_broker(data: bytes) -> BrokerRegistration:
    return BrokerRegistration.decode(1, data)


def decode_topic(data: bytes) -> TopicAssignment:
    return TopicAssignment.decode("t", data)


def decode_offset_of_a_partition(data: bytes) -> int:
    return decode_offset("g", "t", 0, data)


@pytest.mark.parametrize(
    ("decode", "data", "path"),
    [
        (decode_broker, b"", "/brokers/ids/1"),
        (decode_broker, b"[]", "/brokers/ids/1"),
        (decode_broker, b'{"version":0}', "/brokers/ids/1"),
        (decode_broker, b'{"version":5,"endpoints":["X://h:1"]}', "/brokers/ids/1"),
        (decode_broker, b'{"version":5,"endpoints":["SSL:h"]}', "/brokers/ids/1"),
        (decode_topic, b'{"partitions":{"x":[1]}}', "/brokers/topics/t"),
        (decode_topic, b'{"partitions":{"0":["1"]}}', "/brokers/topics/t"),
        (decode_topic, b'{"topic_id":"short"}', "/brokers/topics/t"),
        (lambda data: PartitionState.decode("t", 0, data), b'{"leader":1}', "/brokers/topics/t/partitions/0/state"),
        (ControllerRegistration.decode, b'{"version":1}', "/controller"),
        (ControllerRegistration.decode, b"", "/controller"),
        (decode_controller_epoch, b"", "/controller_epoch"),
        (decode_cluster_id, b'{"version":"1"}', "/cluster/id"),
        (ProducerIdBlock.decode, b'{"version":1,"broker":1}', "/latest_producer_id_block"),
        (FinalizedFeatures.decode, b'{"features":{},"version":3,"status":1}', "/feature"),
        (FinalizedFeatures.decode, b'{"features":{},"version":2,"status":9}', "/feature"),
        (FinalizedFeatures.decode, b'{"version":2,"status":1}', "/feature"),
        (
            FinalizedFeatures.decode,
            b'{"features":{"f":{"max_version_level":0}},"version":2,"status":1}',
            "/feature",
        ),
        (lambda data: decode_config("/config/topics/t", data), b'{"config":{"a":1}}', "/config/topics/t"),
        (ConfigChange.decode, b'{"version":1,"entity_type":"users","entity_name":"u"}', "/config/changes"),
        (ConfigChange.decode, b'{"version":2,"entity_path":"topics"}', "/config/changes"),
        (decode_reassignment, b'{"version":1,"partitions":[1]}', "/admin/reassign_partitions"),
        (decode_offset_of_a_partition, b"x", "/consumers/g/offsets/t/0"),
        (decode_offset_of_a_partition, str(2**63).encode(), "/consumers/g/offsets/t/0"),
        # what no request could carry to the brokers
        (decode_topic, b'{"partitions":{"0":[99999999999,1]}}', "/brokers/topics/t"),
        (decode_topic, b'{"partitions":{"0":[true]}}', "/brokers/topics/t"),
        (decode_topic, b'{"partitions":{"99999999999":[1]}}', "/brokers/topics/t"),
        (decode_topic, '{"partitions":{"²":[1]}}'.encode(), "/brokers/topics/t"),
        (decode_topic, b'{"partitions":{"%s":[1]}}' % (b"9" * 5000), "/brokers/topics/t"),
        (decode_broker, b'{"version":5,"endpoints":["SSL://h:%s"]}' % (b"9" * 5000), "/brokers/ids/1"),
        (decode_topic, b"[" * 100_000, "/brokers/topics/t"),
        (
            lambda data: PartitionState.decode("t", 0, data),
            b'{"leader":1,"leader_epoch":2147483648,"isr":[1],"controller_epoch":1}',
            "/brokers/topics/t/partitions/0/state",
        ),
        (decode_controller_epoch, b"2147483648", "/controller_epoch"),
        (ControllerRegistration.decode, b"9" * 5000, "/controller"),
        (decode_broker, b'{"version":5,"endpoints":["SSL://h:--5"]}', "/brokers/ids/1"),
        (decode_broker, b'{"version":5,"endpoints":["SSL://h:65536"]}', "/brokers/ids/1"),
        (decode_broker, b'{"version":5,"endpoints":["SSL://h:1"],"rack":"\\ud800"}', "/brokers/ids/1"),
        (decode_broker, b'{"version":5,"endpoints":["SSL://h:1"],"rack":"\xed\xa0\x80"}', "/brokers/ids/1"),
        (decode_broker, '{"version":5,"endpoints":["SSL://h:1"],"rack":"\\ud800"}'.encode("utf-16"), "/brokers/ids/1"),
        (
            decode_broker,
            b'{"version":5,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"B"}}',
            "/brokers/ids/1",
        ),
        (
            lambda data: BrokerRegistration.decode(2**31, data),
            b'{"version":5,"endpoints":["SSL://h:1"]}',
            "/brokers/ids/2147483648",
        ),
    ],
)
def test_bad_data_names_its_path(decode: Any, data: bytes, path: str) -> None:
    with pytest.raises(BadZnode) as caught:
        decode(data)
    assert caught.value.path == path
    assert path in str(caught.value)
