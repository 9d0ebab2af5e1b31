"""Kafka's own command line tools, which are those of 3.9 in Java."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.testing import Cluster
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.patience import wait_until
from tests.clients.known_topics import known_everywhere

pytestmark = pytest.mark.cluster

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
Tool = Callable[..., str]


def test_topics(tool: Tool, cluster: Cluster) -> None:
    name = "java-tools-topics"
    settings = ("--config", "retention.ms=3600000")
    assert f"Created topic {name}" in tool(
        TOPICS, "--create", "--topic", name, "--partitions", "2", "--replication-factor", "3", *settings
    )
    known_everywhere(cluster.bootstrap, name, 2)
    assert name in tool(TOPICS, "--list").split()
    said = tool(TOPICS, "--describe", "--topic", name)
    assert "PartitionCount: 2" in said and "ReplicationFactor: 3" in said and "retention.ms=3600000" in said
    assert len(re.findall(r"Leader: [012]\b", said)) == 2 and re.search(r"TopicId: [\w-]{22}", said), said
    tool(TOPICS, "--delete", "--topic", name)


def test_configs(tool: Tool, new_topic: Callable[..., str]) -> None:
    entity = ("--entity-type", "topics", "--entity-name", new_topic())
    assert "Completed updating config" in tool(CONFIGS, *entity, "--alter", "--add-config", "max.message.bytes=5000")
    said = tool(CONFIGS, *entity, "--describe")
    assert "max.message.bytes=5000" in said and "DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000" in said
    said = tool(CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert "broker.id=1" in said and "STATIC_BROKER_CONFIG:broker.id=1" in said


def test_groups(
    tool: Tool,
    new_topic: Callable[..., str],
    confluent: Client,
    make_records: Callable[..., list[Record]],
) -> None:
    topic = new_topic()
    group = f"{topic}-group"
    confluent.produce(topic, "none", make_records(10))
    member = confluent.join(group, topic)
    wait_until(lambda: len(member.received()) == 10, "the records")
    assert group in tool(GROUPS, "--list").split()
    said = tool(GROUPS, "--describe", "--group", group, "--state")
    assert "Stable" in said and "range" in said
    member.close()
    said = tool(GROUPS, "--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+10\s+10\s+0", said), said
    said = tool(GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "4", "--execute")
    assert re.search(rf"{group}\s+{topic}\s+0\s+4", said), said
    assert "successful" in tool(GROUPS, "--delete", "--group", group)


def test_reassignment(tool: Tool, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic()
    [order] = re.findall(r"Replicas: ([\d,]+)", tool(TOPICS, "--describe", "--topic", topic))
    target = [int(replica) for replica in order.split(",")][::-1]
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": target}]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    said = tool(REASSIGN, "--reassignment-json-file", str(file), "--execute")
    assert "Successfully started partition reassignment" in said
    said = tool(REASSIGN, "--reassignment-json-file", str(file), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed" in said


def test_versions(tool: Tool) -> None:
    """Nothing that Kafka's client asks for is older here than what it can still speak."""
    said = tool(VERSIONS)
    assert said.count("(id: ") == 3 and "Produce(0): 0 to 11 [usable: 11]" in said and "[unusable" not in said
