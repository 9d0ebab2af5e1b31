"""kafka-python's admin client."""

import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from odradek.testing import Cluster
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

FIRST_MS = int(time.time() * 1000) - 3_600_000
"""Time of the first record: an hour ago, for what is a week old is deleted."""


@pytest.fixture(scope="module")
def python_admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    yield client
    client.close()


def test_topics(python_admin: KafkaAdminClient) -> None:
    name = "kafka-python-topics"
    python_admin.create_topics(
        {name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "3600000"}}}
    )
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics({name: {"num_partitions": 2}})
    python_admin.wait_for_topics([name])
    python_admin.create_partitions({name: {"count": 4, "assignments": [[0, 1, 2], [2, 0, 1]]}})

    def added() -> list[object]:
        """Their replicas; none while the broker that is asked does not know of them."""
        found = python_admin.describe_topics([name])[0]["partitions"]
        return [one["replica_nodes"] for one in sorted(found, key=lambda one: one["partition_index"])][2:]

    wait_until(lambda: added() == [[0, 1, 2], [2, 0, 1]], "the new partitions")
    ids: list[str] = []

    def identified() -> bool:
        described = python_admin.describe_topics([name])[0]
        ids[:] = [described["topic_id"]]
        return bool(described["error_code"] == 0)

    wait_until(identified, "the topic's id")
    topic_id = UUID(ids[0])
    wait_until(lambda: python_admin.describe_topics([topic_id])[0]["name"] == name, "the topic by its id")
    python_admin.delete_topics([topic_id])
    wait_until(lambda: name not in python_admin.list_topics(), "the topic is gone")


def test_topic_settings(python_admin: KafkaAdminClient, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})])
    resource = ConfigResource(ConfigResourceType.TOPIC, name, None)
    changed = python_admin.describe_configs([resource])
    assert "7200000" in repr(changed), changed
    refused = python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "soon"})])
    assert "InvalidConfigurationError" in refused["topic"][name]


def listed(admin: KafkaAdminClient) -> set[str]:
    return {group["group_id"] for group in admin.list_groups()}


def test_groups(python_admin: KafkaAdminClient, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    topic, group = new_topic(), "kafka-python-group"
    partition = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","))
    for number in range(10):
        producer.send(topic, str(number).encode(), timestamp_ms=FIRST_MS + number)
    producer.close()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap.split(","), group_id=group, auto_offset_reset="earliest"
    )
    wait_until(lambda: bool(consumer.poll(5000)), "a record")
    consumer.commit({partition: OffsetAndMetadata(3, "by hand", -1)})
    assert python_admin.describe_groups([group])[group]["group_state"] == "Stable"
    assert group in listed(python_admin)
    consumer.close()
    assert python_admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert python_admin.list_group_offsets({group: None})[group][partition].offset >= 3
    python_admin.alter_group_offsets(group, {partition: OffsetAndMetadata(5, "", -1)})
    assert python_admin.list_group_offsets({group: [partition]})[group][partition].offset == 5
    python_admin.delete_group_offsets(group, [partition])
    assert partition not in python_admin.list_group_offsets({group: None})[group]
    python_admin.alter_group_offsets(group, {partition: OffsetAndMetadata(5, "", -1)})
    python_admin.delete_groups([group])
    assert group not in listed(python_admin)


def test_offsets(python_admin: KafkaAdminClient, cluster: Cluster, new_topic: Callable[..., str]) -> None:
    partition = TopicPartition(new_topic(), 0)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","))
    for number in range(6):
        producer.send(partition.topic, b"x", timestamp_ms=FIRST_MS + number, partition=0)
    producer.close()

    def offset(spec: OffsetSpec | int) -> int:
        return int(python_admin.list_partition_offsets({partition: spec})[partition].offset)

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 6
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 5
    assert offset(FIRST_MS + 2) == 2


def test_reassignment_and_cluster(python_admin: KafkaAdminClient, new_topic: Callable[..., str]) -> None:
    partition = TopicPartition(new_topic(), 0)
    replicas = python_admin.describe_topics([partition.topic])[0]["partitions"][0]["replica_nodes"]
    target = replicas[::-1][:2]
    assert python_admin.alter_partition_reassignments({partition: target}) == {partition: None}
    wait_until(lambda: not python_admin.list_partition_reassignments(), "no reassignment is under way")

    def now() -> list[int]:
        found: list[int] = python_admin.describe_topics([partition.topic])[0]["partitions"][0]["replica_nodes"]
        return found

    wait_until(lambda: now() == target, "the new replicas")
    described = python_admin.describe_cluster()
    assert len(described["brokers"]) == 3 and described["controller_id"] in (0, 1, 2)
