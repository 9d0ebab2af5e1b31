"""Requests that only the controller serves: partitions added, elections, reassignments, those of brokers."""

from odradek.broker.requests import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    list_partition_reassignments,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.testing.virtual_clock import VirtualClock
from odradek.zk_schema.znodes.topics import TopicAssignment, topic_path
from tests.broker.requests.controlled_cluster import ask, counted, creation, play, start


def test_more_partitions() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1, 2)))

        async def raise_to(count: int, *replicas: list[int], name: str = "t", validate_only: bool = False) -> int:
            given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas] or None
            topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=validate_only)
            code: int = (await ask(create_partitions, broker, request)).results[0].error_code
            return code

        assert await raise_to(3, validate_only=True) == 0
        assert broker.metadata.partition_count("t") == 1
        assert await raise_to(3) == 0
        assert broker.metadata.partition_count("t") == 3
        assert await raise_to(4, [2, 0]) == 0
        data, _ = await broker.zookeeper.get(topic_path("t"))
        assert TopicAssignment.decode("t", data).partitions[3].replicas == (2, 0)
        assert await raise_to(4) == await raise_to(2) == ErrorCode.INVALID_PARTITIONS
        assert await raise_to(5, [1], [2]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, [1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, [1, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, name="x") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_elections_and_moves() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1, 2)))
        asked = [TopicPartitions(topic="t", partitions=[0]), TopicPartitions(topic="x", partitions=[0])]
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(topic_partitions=asked))
        codes = [p.error_code for topic in answer.replica_election_results for p in topic.partition_result]
        assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(topic_partitions=None))
        assert not answer.replica_election_results, "null: only what had to be done"
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(election_type=7, topic_partitions=asked))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        results = [p for topic in answer.replica_election_results for p in topic.partition_result]
        assert [p.error_code for p in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        state = broker.metadata.partition("t", 0)
        assert state is not None
        (other,) = {0, 1, 2} - set(state.replicas)
        move = ReassignableTopic(name="t", partitions=[ReassignablePartition(replicas=[other, state.replicas[0]])])
        moved = await ask(alter_partition_reassignments, broker, AlterPartitionReassignmentsRequest(topics=[move]))
        assert moved.responses[0].partitions[0].error_code == 0
        under_way = await ask(list_partition_reassignments, broker, ListPartitionReassignmentsRequest())
        (partition,) = under_way.topics[0].partitions
        assert (partition.adding_replicas, partition.removing_replicas) == ([other], [state.replicas[1]])

    play(scenario)


def test_requests_of_brokers() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 3, 1)))
        assert broker.controller.state is not None
        epoch = broker.controller.state.brokers[1].epoch
        block = await ask(allocate_producer_ids, broker, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        assert (block.error_code, block.producer_id_start, block.producer_id_len) == (0, 0, 1000)
        for version in range(4):
            stopped = await ask(controlled_shutdown, broker, ControlledShutdownRequest(broker_id=1), version)
            assert (stopped.error_code, stopped.remaining_partitions) == (0, [])
        unknown = await ask(controlled_shutdown, broker, ControlledShutdownRequest(broker_id=9))
        assert unknown.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        stale = await ask(alter_partition, broker, AlterPartitionRequest(broker_id=1, broker_epoch=1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    play(scenario)


def test_a_broker_that_is_not_the_controller_says_so() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock, active=False)
        topic = CreatePartitionsTopic(name="t", count=2)
        error = ErrorCode.NOT_CONTROLLER
        assert (await ask(create_topics, broker, creation(counted("t")))).topics[0].error_code == error
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        assert (await ask(delete_topics, broker, named)).responses[0].error_code == error
        more = CreatePartitionsRequest(topics=[topic])
        assert (await ask(create_partitions, broker, more)).results[0].error_code == error
        for module, request in (
            (alter_partition, AlterPartitionRequest()),
            (controlled_shutdown, ControlledShutdownRequest()),
            (allocate_producer_ids, AllocateProducerIdsRequest()),
            (elect_leaders, ElectLeadersRequest(topic_partitions=None)),
            (alter_partition_reassignments, AlterPartitionReassignmentsRequest()),
            (list_partition_reassignments, ListPartitionReassignmentsRequest()),
        ):
            assert (await ask(module, broker, request)).error_code == error
        assert not await broker.zookeeper.children("/brokers/topics")

    play(scenario)
