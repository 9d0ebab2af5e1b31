"""Rules of CreatePartitions and CreateTopics about what is there already, and how much is asked for."""

from typing import Any

import pytest

from odradek.broker.requests import create_partitions, create_topics
from odradek.controller.topic_admin import NEW_PARTITIONS_MAX
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from odradek.testing.virtual_clock import VirtualClock
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment, topic_path
from tests.broker.requests.controlled_cluster import Broker, ask, counted, creation, play, start


async def grown(broker: Broker, *counts: int, assignments: Any = None, validate_only: bool = False) -> list[int]:
    """Ask for so many partitions of topic t, once for each count, and return the errors."""
    topics = [CreatePartitionsTopic(name="t", count=count, assignments=assignments) for count in counts]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=validate_only)
    return [result.error_code for result in (await ask(create_partitions, broker, request)).results]


async def replicas_of(broker: Broker, topic: str) -> dict[int, tuple[int, ...]]:
    data, _ = await broker.zookeeper.get(topic_path(topic))
    return {number: held.replicas for number, held in TopicAssignment.decode(topic, data).partitions.items()}


@pytest.mark.parametrize(
    ("first", "following"), [([1, 2], [(2, 1), (0, 2), (1, 2)]), ([9, 1], [(1, 2), (2, 0), (0, 2)])]
)
def test_new_partitions_go_on_behind_the_first_leader(first: list[int], following: list[tuple[int, ...]]) -> None:
    """As AdminUtils.assignReplicasToBrokers; where that broker is not there, from the first one."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        given = [CreatableReplicaAssignment(partition_index=0, broker_ids=first)]
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=given)
        await ask(create_topics, broker, creation(topic, timeout_ms=0))
        await grown(broker, 4)
        assert list((await replicas_of(broker, "t")).values()) == [tuple(first), *following]

    play(scenario)


@pytest.mark.parametrize("moved", [PartitionReplicas((0, 1), adding=(1,)), PartitionReplicas((0, 1), removing=(1,))])
def test_a_topic_that_is_being_reassigned_gets_no_partitions(moved: PartitionReplicas) -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await broker.zookeeper.create(topic_path("t"), TopicAssignment({0: moved}).encode())
        assert await grown(broker, 2) == [ErrorCode.REASSIGNMENT_IN_PROGRESS]

    play(scenario)


def test_a_topic_that_is_to_be_deleted_gets_no_partitions() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1)))
        broker.channels.keeps_files = True
        await broker.zookeeper.create(delete_topic_path("t"), b"")
        assert await grown(broker, 2) == [ErrorCode.INVALID_TOPIC_EXCEPTION]

    play(scenario)


def test_a_topic_that_is_named_twice_is_refused_once() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1)))
        assert await grown(broker, 2, 3) == [ErrorCode.INVALID_REQUEST]
        assert len(await replicas_of(broker, "t")) == 1

    play(scenario)


def test_an_empty_list_of_assignments_assigns_nothing() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1)))
        assert await grown(broker, 2, assignments=[]) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]

    play(scenario)


def test_as_many_partitions_at_once_as_there_may_be() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 2)))
        for more, error in ((0, ErrorCode.NONE), (1, ErrorCode.POLICY_VIOLATION)):
            made = creation(counted("new", NEW_PARTITIONS_MAX + more), validate_only=True)
            assert (await ask(create_topics, broker, made)).topics[0].error_code == error
            assert await grown(broker, NEW_PARTITIONS_MAX + 2 + more, validate_only=True) == [error]

    play(scenario)


@pytest.mark.parametrize(("old", "new"), [("a.b", "a_b"), ("a_b", "a.b")])
def test_names_that_metrics_could_not_tell_apart(old: str, new: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        answer = await ask(create_topics, broker, creation(counted(old), counted(new)))
        assert [topic.error_code for topic in answer.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]

    play(scenario)


def test_a_partition_that_is_assigned_twice_is_refused() -> None:
    """Kafka takes the last of the two."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        given = [CreatableReplicaAssignment(partition_index=0, broker_ids=[one]) for one in (1, 2)]
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=given)
        answer = await ask(create_topics, broker, creation(topic))
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    play(scenario)
