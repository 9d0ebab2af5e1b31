"""Changes that are asked of the controller, whichever make it is, and must be seen at all brokers."""

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.foreign.corpus import make_records, produce_all
from odradek.testing.foreign.mixed_cluster import MixedCluster
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.relay import as_sent
from odradek.testing.foreign.seen import read
from odradek.testing.foreign.stage import Stage
from odradek.testing.patience import PATIENCE_SECONDS, wait_until

WITH_NUMBERS = {"enable.idempotence": True}
"""Settings of a producer whose batches are numbered. Otherwise librdkafka sends a batch that was refused, by a leader
that has not heard of it yet, behind the next one, however few requests may be in flight."""


def check_topics(cluster: MixedCluster, topic: str) -> None:
    """Created, given more partitions and other settings, deleted."""
    admin, brokers = cluster.new_admin(), list(cluster.lives)
    settings = {"segment.bytes": "2000"}
    [made] = admin.create_topics([NewTopic(topic, 2, len(brokers), config=settings)]).values()
    made.result(PATIENCE_SECONDS)
    [grown] = admin.create_partitions([NewPartitions(topic, 3)]).values()
    grown.result(PATIENCE_SECONDS)
    wait_until(lambda: all(_held(cluster, broker, topic) == 3 for broker in brokers), f"{topic} everywhere")
    records = make_records(topic, 0, 60)
    produce_all(cluster.bootstrap, {topic: records}, "none", **WITH_NUMBERS)
    assert as_sent(read(cluster.bootstrap, [topic])[topic]) == records
    assert all(_first_segment(cluster, broker, topic).exists() for broker in brokers)
    entry = ConfigEntry("retention.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    [altered] = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values()
    altered.result(PATIENCE_SECONDS)
    wait_until(lambda: not any(_first_segment(cluster, broker, topic).exists() for broker in brokers), "retention")
    [deleted] = admin.delete_topics([topic]).values()
    deleted.result(PATIENCE_SECONDS)
    wait_until(lambda: not any(_held(cluster, broker, topic) for broker in brokers), f"{topic} gone")


def _first_segment(cluster: MixedCluster, broker: int, topic: str) -> Path:
    return cluster.stages[broker].directory(topic) / f"{0:020d}.log"


def _held(cluster: MixedCluster, broker: int, topic: str) -> int:
    """Count the topic's three partitions that are in the broker's directories."""
    return sum(cluster.stages[broker].directory(topic, index).exists() for index in range(3))


def check_reassignment(cluster: MixedCluster, topic: str, source: int, target: int) -> None:
    """The only replica moves from one broker to another."""
    admin = cluster.new_admin()
    [made] = admin.create_topics([NewTopic(topic, 1, replica_assignment=[[source]])]).values()
    made.result(PATIENCE_SECONDS)
    records = make_records(topic, 0, 60)
    produce_all(cluster.bootstrap, {topic: records}, "lz4", **WITH_NUMBERS)
    reassign(cluster.stages, {topic: 1}, target)
    moved = frozenset({target})
    wait_until(
        lambda: all(cluster.seen_by(broker, [topic])[topic].isr == moved for broker in cluster.lives), f"{topic} moved"
    )
    wait_until(lambda: not cluster.stages[source].directory(topic).exists(), f"{topic} gone from {source}")
    assert as_sent(read(cluster.bootstrap, [topic])[topic]) == records


def reassign(stages: Mapping[int, Stage], partitions: Mapping[str, int], target: int) -> None:
    """Move all partitions of these topics to one broker; return when they are there.

    `partitions`: their number by topic.
    """
    wanted = []
    for topic, count in partitions.items():
        indexes = [ReassignablePartition(partition_index=index, replicas=[target]) for index in range(count)]
        wanted.append(ReassignableTopic(name=topic, partitions=indexes))
    with RawConnection(stages[target].address) as connection:
        controller = connection.ask(MetadataRequest(topics=[]), 8).controller_id
    with RawConnection(stages[controller].address) as connection:
        answer = connection.ask(AlterPartitionReassignmentsRequest(topics=wanted), 0)
    refused = [one for topic in answer.responses for one in topic.partitions if one.error_code]
    assert not answer.error_code and not refused, answer
    wait_until(lambda: all(_leads_all(stage, partitions, target) for stage in stages.values()), f"all at {target}")


def _leads_all(asked: Stage, partitions: Mapping[str, int], leader: int) -> bool:
    wanted = [MetadataRequestTopic(name=topic) for topic in partitions]
    with RawConnection(asked.address) as connection:
        answer = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
    return all(
        len(topic.partitions) == partitions[topic.name]
        and all(one.leader_id == leader and one.replica_nodes == [leader] for one in topic.partitions)
        for topic in answer.topics
    )
