"""librdkafka's admin client against what the brokers serve."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import TopicCollection as Topics
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS as LONG
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

FIRST_MS = int(time.time() * 1000) - 3_600_000
"""Time of the first record: an hour ago, for what is a week old is deleted."""


def _refusal(action: Callable[[], object]) -> str:
    with pytest.raises(KafkaException) as caught:
        action()
    return str(caught.value.args[0].name())


def test_topics_and_partitions(admin: AdminClient) -> None:
    name = "librdkafka-topics"
    admin.create_topics([NewTopic(name, 2, 3)])[name].result(LONG)
    assert _refusal(lambda: admin.create_topics([NewTopic(name, 2, 3)])[name].result(LONG)) == "TOPIC_ALREADY_EXISTS"
    too_many = NewTopic("librdkafka-too-many", 1, 4)
    assert (
        _refusal(lambda: admin.create_topics([too_many])[too_many.topic].result(LONG)) == "INVALID_REPLICATION_FACTOR"
    )
    bad_name = NewTopic("librdkafka topics", 1, 1)
    assert _refusal(lambda: admin.create_topics([bad_name])[bad_name.topic].result(LONG)) == "TOPIC_EXCEPTION"
    admin.create_partitions([NewPartitions(name, 5)])[name].result(LONG)
    fewer = NewPartitions(name, 4)
    assert _refusal(lambda: admin.create_partitions([fewer])[name].result(LONG)) == "INVALID_PARTITIONS"
    wait_until(lambda: len(admin.list_topics(name, LONG).topics[name].partitions) == 5, "five partitions")

    def described() -> bool:
        """By whichever broker is asked."""
        try:
            found = admin.describe_topics(Topics([name]))[name].result(LONG)
        except KafkaException:
            return False
        whole = [one for one in found.partitions if len(one.replicas) == len(one.isr) == 3 and one.leader is not None]
        return len(whole) == len(found.partitions) == 5 and found.topic_id is not None

    wait_until(described, "five partitions with leaders")
    admin.delete_topics([name])[name].result(LONG)
    wait_until(lambda: name not in admin.list_topics(timeout=LONG).topics, "the topic is gone")

    def gone() -> bool:
        """To delete it while it is being deleted is no mistake."""
        error = admin.delete_topics([name])[name].exception(LONG)
        return isinstance(error, KafkaException) and error.args[0].name() == "UNKNOWN_TOPIC_OR_PART"

    wait_until(gone, "a topic that cannot be deleted a second time")


def test_validation_alone_creates_nothing(admin: AdminClient) -> None:
    name = "librdkafka-validated"
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(LONG)
    assert name not in admin.list_topics(timeout=LONG).topics


def _values(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    resource = ConfigResource(kind, name)
    return {key: entry.value for key, entry in admin.describe_configs([resource])[resource].result(LONG).items()}


def test_topic_settings(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    name = new_topic(retention_ms="3600000", cleanup_policy="compact")
    assert _values(admin, ResourceType.TOPIC, name)["retention.ms"] == "3600000"

    def change(key: str, value: str | None, how: AlterConfigOpType) -> None:
        entry = ConfigEntry(key, value, incremental_operation=how)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(LONG)

    change("max.message.bytes", "2000", AlterConfigOpType.SET)
    change("cleanup.policy", "delete", AlterConfigOpType.APPEND)
    change("retention.ms", None, AlterConfigOpType.DELETE)
    values = _values(admin, ResourceType.TOPIC, name)
    assert values["max.message.bytes"] == "2000"
    assert values["cleanup.policy"] == "compact,delete"
    assert values["retention.ms"] == "604800000"
    assert _refusal(lambda: change("retention.ms", "soon", AlterConfigOpType.SET)) == "INVALID_CONFIG"
    assert _refusal(lambda: change("no.such.setting", "1", AlterConfigOpType.SET)) == "INVALID_CONFIG"


def test_a_live_setting_holds_at_once(admin: AdminClient, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    name = new_topic(max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    outcomes: list[Any] = []
    producer.produce(name, b"x" * 2000, on_delivery=lambda error, _: outcomes.append(error and error.name()))
    producer.produce(name, b"x" * 100, partition=0)
    assert producer.flush(LONG) == 0
    assert outcomes == ["MSG_SIZE_TOO_LARGE"]


def test_broker_settings(admin: AdminClient) -> None:
    values = _values(admin, ResourceType.BROKER, "1")
    assert values["broker.id"] == "1" and "log.dirs" in values
    entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(LONG)
    entry = ConfigEntry("broker.id", "7", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    assert _refusal(lambda: admin.incremental_alter_configs([resource])[resource].result(LONG)) == "INVALID_REQUEST"
    entry = ConfigEntry("log.cleaner.threads", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])  # others share the cluster
    admin.incremental_alter_configs([resource])[resource].result(LONG)


def test_groups_and_their_offsets(admin: AdminClient, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(), "librdkafka-group"
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), timestamp=FIRST_MS + number)
    assert producer.flush(LONG) == 0
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "client.id": "reader"})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.1) is not None, "a record")
    consumer.commit(offsets=[TopicPartition(topic, 0, 4, metadata="by hand")], asynchronous=False)

    described = admin.describe_consumer_groups([group])[group].result(LONG)
    assert described.state.name == "STABLE" and described.partition_assignor == "range"
    assert [member.client_id for member in described.members] == ["reader"]
    assert [tp.partition for tp in described.members[0].assignment.topic_partitions] == [0]
    assert any(one.group_id == group for one in admin.list_consumer_groups().result(LONG).valid)
    assert _refusal(lambda: admin.delete_consumer_groups([group])[group].result(LONG)) == "NON_EMPTY_GROUP"
    consumer.close()

    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    committed = admin.list_consumer_group_offsets([asked])[group].result(LONG).topic_partitions[0]
    assert (committed.offset, committed.metadata) == (4, "by hand")
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 9)])
    admin.alter_consumer_group_offsets([moved])[group].result(LONG)
    assert admin.list_consumer_group_offsets([asked])[group].result(LONG).topic_partitions[0].offset == 9
    admin.delete_consumer_groups([group])[group].result(LONG)
    assert all(one.group_id != group for one in admin.list_consumer_groups().result(LONG).valid)


def test_offsets_of_a_partition(admin: AdminClient, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number), timestamp=FIRST_MS + number)
    assert producer.flush(LONG) == 0
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result(LONG).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 10
    assert offset(OffsetSpec.max_timestamp()) == 9
    assert offset(OffsetSpec.for_timestamp(FIRST_MS + 4)) == 4
    assert offset(OffsetSpec.for_timestamp(FIRST_MS + 1000)) == -1


def test_preferred_election(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    partition = TopicPartition(new_topic(), 0)
    outcomes = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(LONG)
    error = outcomes[partition]
    assert error is not None and error.name() == "ELECTION_NOT_NEEDED"


def test_cluster(admin: AdminClient, cluster: Cluster) -> None:
    described = admin.describe_cluster().result(LONG)
    assert sorted(node.id for node in described.nodes) == [0, 1, 2]
    assert {f"{node.host}:{node.port}" for node in described.nodes} == set(cluster.bootstrap.split(","))
    assert described.controller.id in (0, 1, 2) and len(described.cluster_id) == 22
