"""Topics asked for where ZooKeeper forbids their znodes to brokers, or where somebody has spoilt one by hand."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.broker.requests import create_partitions, create_topics, delete_topics
from odradek.controller.topic_admin import Defaults, auto_create_topic
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.testing.virtual_clock import VirtualClock
from odradek.zk_schema.store import MultiFailed, NotAuthorized, Operation
from odradek.zk_schema.znodes.topics import topic_path
from tests.broker.requests.controlled_cluster import Broker, ask, counted, creation, play, start


def grow(topic: str, count: int = 3) -> CreatePartitionsRequest:
    named = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[named], timeout_ms=300)


def forbid_writes(broker: Broker) -> None:
    async def refused(path: str, *_: Any, **__: Any) -> Any:
        raise NotAuthorized(path)

    async def refused_together(operations: Sequence[Operation]) -> Any:
        raise MultiFailed(0, NotAuthorized(operations[0].path))

    broker.zookeeper.create = broker.zookeeper.set = refused
    broker.zookeeper.multi = refused_together


def test_zookeeper_that_forbids_it_is_an_error_in_the_answer() -> None:
    """The connection was closed, as after an error of ours: clients asked again and again, and nobody said why."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("old")))
        forbid_writes(broker)
        (made,) = (await ask(create_topics, broker, creation(counted("t")))).topics
        (grown,) = (await ask(create_partitions, broker, grow("old"))).results
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=300)
        (deleted,) = (await ask(delete_topics, broker, request)).responses
        for answer in (made, grown, deleted):
            assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert "not authorized" in answer.error_message
        told = await auto_create_topic(broker.zookeeper, "u", {0: None}, Defaults(1, 1), broker.random)
        assert told is ErrorCode.UNKNOWN_SERVER_ERROR

    play(scenario)


@pytest.mark.parametrize(
    "assignment",
    [
        b'{"version":1,"partitions":{}}',
        b'{"version":1,"partitions":{"0":[]}}',
        b'{"version":1,"partitions":{"1":[0],"2":[1]}}',
        b'{"version":1,"partitions":{"0":[0],"2":[1]}}',
    ],
)
def test_partitions_are_not_added_to_a_topic_whose_znode_lacks_some_or_their_replicas(assignment: bytes) -> None:
    """Kafka says so too: "Unexpected existing replica assignment". Here the connection was closed; and where a number
    was missing a partition that was there, with its records, got the replicas of a new one."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await broker.zookeeper.create(topic_path("t"), assignment)
        (answer,) = (await ask(create_partitions, broker, grow("t"))).results
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "/brokers/topics/t" in answer.error_message
        assert (await broker.zookeeper.get(topic_path("t")))[0] == assignment

    play(scenario)
