"""The admin clients of aiokafka, KafkaJS and Kafka's Java client: one run of each through everything that it has."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError

from odradek.testing import Cluster
from odradek.testing.foreign.driver import DriverClient
from odradek.testing.foreign.interface import Client
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from tests.clients.known_topics import known_everywhere

pytestmark = pytest.mark.cluster


async def _aiokafka(bootstrap: str) -> None:
    name = "aiokafka-topics"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    answer = await admin.create_topics([NewTopic(name, 2, 3, topic_configs={"retention.ms": "3600000"})])
    assert [error for _, error, *_ in answer.topic_errors] == [0]
    answer = await admin.create_topics([NewTopic(name, 2, 3)])
    assert [error for _, error, *_ in answer.topic_errors] == [TopicAlreadyExistsError.errno]
    await admin.create_partitions({name: NewPartitions(3)})
    known_everywhere(bootstrap, name, 3)
    assert name in await admin.list_topics()
    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})
    await admin.alter_configs([resource])
    described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    values = {entry[0]: entry[1] for entry in described[0].resources[0][4]}
    assert values["retention.ms"] == "7200000"
    cluster = await admin.describe_cluster()
    assert len(cluster["brokers"]) == 3 and cluster["controller_id"] in (0, 1, 2)
    deleted = await admin.delete_topics([name])
    assert deleted.topic_error_codes == [(name, 0)]
    await admin.close()


def test_aiokafka(cluster: Cluster) -> None:
    asyncio.run(asyncio.wait_for(_aiokafka(cluster.bootstrap), PATIENCE_SECONDS))


async def _aiokafka_groups(bootstrap: str, group: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    assert (group, "consumer") in [tuple(one) for one in await admin.list_consumer_groups()]
    described = await admin.describe_consumer_groups([group])
    assert described[0].groups[0][:3] == (0, group, "Stable")
    await admin.close()


def test_aiokafka_groups(
    cluster: Cluster,
    get_client: Callable[[str], Client],
    new_topic: Callable[..., str],
) -> None:
    topic = new_topic()
    member = get_client("aiokafka").join(f"{topic}-group", topic)
    wait_until(lambda: member.assignment() == {0}, "a member")
    asyncio.run(asyncio.wait_for(_aiokafka_groups(cluster.bootstrap, f"{topic}-group"), PATIENCE_SECONDS))
    member.close()


def test_kafkajs(kafkajs: DriverClient, cluster: Cluster) -> None:
    topic = "kafkajs-topics"
    made = kafkajs.ask("create", topic=topic)
    assert (made["created"], made["createdAgain"]) == (True, False)
    known_everywhere(cluster.bootstrap, topic, 3)
    found = kafkajs.ask("admin", topic=topic, group="kafkajs-admin-group")
    assert found["listed"] and found["partitions"] == 3
    assert found["retention"] == [["retention.ms", "3600000"]]
    assert found["retentionAltered"] == [["retention.ms", "7200000"]]
    assert found["brokers"] == 3 and len(found["clusterId"]) == 22
    assert sorted(one["partition"] for one in found["offsets"]) == [0, 1, 2]
    assert {one["partition"]: one["offset"] for one in found["committed"]} == {0: "0", 1: "0", 2: "-1"}
    assert found["groupListed"] and found["groupState"] == "Empty"
    assert [one["errorCode"] for one in found["groupDeleted"]] == [0]
    known_everywhere(cluster.bootstrap, topic, 0)


def test_java(java: DriverClient, cluster: Cluster) -> None:
    topic = "java-topics"
    made = java.ask("create", topic=topic)
    assert made["createdPartitions"] == 2 and made["createdAgain"] == "TopicExistsException"
    known_everywhere(cluster.bootstrap, topic, 3)
    found = java.ask("admin", topic=topic, group="java-admin-group")
    assert made["createdId"] == found["topicId"]
    assert found["listed"] and found["partitions"] == 3
    assert found["missing"] == "UnknownTopicOrPartitionException"
    assert found["brokers"] == 3 and found["controller"] in (0, 1, 2)
    assert (found["retention"], found["retentionAltered"]) == ("3600000", "7200000")
    assert found["badConfig"] == "InvalidConfigurationException" and found["brokerId"] == "0"
    offsets = {name: found[name] for name in ("earliest", "latest", "maxTimestamp", "atTimestamp")}
    assert offsets == {"earliest": 0, "latest": 3, "maxTimestamp": 2, "atTimestamp": 1}
    assert found["committed"] == "2 by hand" and found["committedAfter"] == 0
    assert found["groupListed"] and found["groupState"] == "Empty" and not found["groupListedAfter"]
    assert found["reassigned"] and found["election"] == "ElectionNotNeededException"
    known_everywhere(cluster.bootstrap, topic, 0)
