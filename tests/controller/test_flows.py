"""Deletion, partition increase, elections on request, balancing, notifications, moves of replicas, producer ids."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.controller.state import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.zk_schema.znodes.admin import (
    DELETE_TOPICS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    encode_reassignment,
)
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH
from odradek.zk_schema.znodes.notifications import (
    ISR_CHANGE_PATH,
    ISR_CHANGE_PREFIX,
    LOG_DIR_EVENT_PATH,
    LOG_DIR_EVENT_PREFIX,
    encode_log_dir_event,
)
from odradek.zk_schema.znodes.topics import (
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
    state_path,
    topic_path,
)

Play = Callable[[Callable[[Any], Awaitable[None]]], None]
T0 = TopicPartition("t", 0)


async def put_in_isr(cluster: Any, brokers: list[int], partition: int = 0) -> None:
    """As the leader of that partition proposes it."""
    state = cluster.state("t", partition)
    data = PartitionData(
        partition_index=partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=cluster.version("t", partition),
        new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=-1) for b in brokers],
    )
    topics = [TopicData(topic_id=cluster.active.state.topic_ids["t"], partitions=[data])]
    epoch = cluster.brokers[state.leader].epoch
    request = AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch, topics=topics)
    response = await cluster.active.alter_partition(request, 3)
    assert response.topics[0].partitions[0].error_code == 0, response
    await cluster.settle()


def test_deletion_stops_everything_then_removes_the_znodes(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2], [2, 1])
        await cluster.delete_topic("t")
        for path in (topic_path("t"), "/config/topics/t", f"{DELETE_TOPICS_PATH}/t"):
            assert not cluster.exists(path)
        for broker_id in (1, 2):
            broker = cluster.brokers[broker_id]
            assert sorted(broker.deleted) == [T0, TopicPartition("t", 1)]
            assert not broker.metadata
            stops = [p for r in broker.of(StopReplicaRequest) for t in r.topic_states for p in t.partition_states]
            assert [p.delete_partition for p in stops] == [False, False, True, True]
            assert {p.leader_epoch for p in stops} == {-2}
        assert not cluster.active.state.replica_phases
        await cluster.create_topic("t", [2])
        cluster.check_agreement()

    play(scenario)


def test_deletion_waits_for_a_dead_broker(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.kill(2)
        await cluster.settle()
        await cluster.delete_topic("t")
        assert cluster.exists(topic_path("t"))
        back = await cluster.add_broker(2)
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert back.deleted == [T0]

    play(scenario)


def test_deletion_halts_at_a_broken_disk(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[2].storage_errors = {T0}
        await cluster.delete_topic("t")
        assert cluster.exists(topic_path("t"))
        cluster.kill(2)
        await cluster.settle()
        cluster.brokers[2].storage_errors = set()
        await cluster.add_broker(2)
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))

    play(scenario)


def test_deletion_disabled_or_of_an_unknown_topic_only_removes_the_mark(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0], delete_topic_enable=False)
        await cluster.create_topic("t", [1])
        await cluster.delete_topic("t")
        await cluster.delete_topic("unknown")
        assert cluster.exists(topic_path("t"))
        assert not await cluster.admin.children(DELETE_TOPICS_PATH)

    play(scenario)


def test_more_partitions(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        data, _ = await cluster.admin.get(topic_path("t"))
        old = TopicAssignment.decode("t", data)
        more = TopicAssignment({**old.partitions, 1: PartitionReplicas((2, 0))}, old.topic_id)
        await cluster.admin.set(topic_path("t"), more.encode())
        await cluster.settle()
        assert cluster.state("t", 1).leader == 2
        cluster.check_agreement()

    play(scenario)


def test_a_topic_older_than_topic_ids_gets_one(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.admin.create(topic_path("t"), TopicAssignment({0: PartitionReplicas((1,))}).encode())
        await cluster.settle()
        written = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        assert written.topic_id == cluster.active.state.topic_ids["t"]
        assert cluster.state("t").leader == 1

    play(scenario)


def test_preferred_and_unclean_elections_on_request(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2], [2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        outcomes = await cluster.active.elect_leaders([T0, TopicPartition("t", 1), TopicPartition("x", 0)], 0)
        assert [code for code, _ in outcomes.values()] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # 1 is not in sync yet
        ]
        await put_in_isr(cluster, [2, 1])
        assert (await cluster.active.elect_leaders(None, 0))[T0] == (ErrorCode.NONE, None)
        assert cluster.state("t").leader == 1
        cluster.kill(2)
        await cluster.settle()
        await put_in_isr(cluster, [1])
        cluster.kill(1)
        await cluster.add_broker(2)
        await cluster.settle()
        assert cluster.state("t").leader == -1
        assert (await cluster.active.elect_leaders([T0], 1))[T0] == (ErrorCode.NONE, None)
        assert (cluster.state("t").leader, cluster.state("t").leader_recovery_state) == (2, 1)

    play(scenario)


def test_leaders_are_balanced_and_the_old_tool_is_obeyed(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], leader_imbalance_check_interval_seconds=10)
        await cluster.create_topic("t", [1, 2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await put_in_isr(cluster, [2, 1])
        assert cluster.state("t").leader == 2
        asked = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"unknown","partition":0}]}'
        await cluster.admin.create(PREFERRED_REPLICA_ELECTION_PATH, asked)
        await cluster.settle()
        assert cluster.state("t").leader == 1
        assert not cluster.exists(PREFERRED_REPLICA_ELECTION_PATH)
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await put_in_isr(cluster, [2, 1])
        await cluster.settle(20_000)
        assert cluster.state("t").leader == 1
        cluster.check_agreement()

    play(scenario)


def test_isr_written_by_an_older_broker(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.admin.set(state_path("t", 0), PartitionState(1, 0, (1,), 1).encode())
        change = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        await cluster.admin.create(ISR_CHANGE_PREFIX, change, sequential=True)
        await cluster.settle()
        assert not await cluster.admin.children(ISR_CHANGE_PATH)
        cluster.check_agreement()

    play(scenario)


def test_a_failed_log_directory_moves_its_leaders(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2], [1, 2])
        cluster.brokers[1].storage_errors = {T0}
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert [cluster.state("t", p).leader for p in range(2)] == [2, 1]
        assert not await cluster.admin.children(LOG_DIR_EVENT_PATH)
        told = cluster.brokers[0].of(UpdateMetadataRequest)[-1].topic_states[0].partition_states
        assert [(p.partition_index, p.offline_replicas) for p in told] == [(0, [1])]

    play(scenario)


def assignment(cluster: Any) -> PartitionReplicas:
    return TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))).partitions[0]


def test_a_move_adds_first_and_removes_when_caught_up(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        assert await cluster.active.alter_reassignments({T0: [3, 2]}) == {T0: (ErrorCode.NONE, None)}
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((3, 2, 1), (3,), (1,))
        assert cluster.brokers[3].replicas[T0].is_new
        assert cluster.state("t").leader == 1
        (moving,) = (await cluster.active.list_reassignments(None)).values()
        assert (moving.adding, moving.removing) == ((3,), (1,))
        await put_in_isr(cluster, [1, 2, 3])
        assert assignment(cluster) == PartitionReplicas((3, 2))
        assert (cluster.state("t").leader, set(cluster.state("t").isr)) == (3, {2, 3})
        assert cluster.brokers[1].deleted == [T0]
        assert not await cluster.active.list_reassignments(None)
        cluster.check_agreement()

    play(scenario)


def test_a_move_is_resumed_by_the_next_controller_and_can_be_cancelled(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(2)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [3, 2]})
        cluster.kill(0)
        await cluster.settle()
        assert list(await cluster.active.list_reassignments([T0])) == [T0]
        outcomes = await cluster.active.alter_reassignments({T0: None, TopicPartition("t", 9): None})
        assert outcomes[T0] == (ErrorCode.NONE, None)
        assert outcomes[TopicPartition("t", 9)][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((2, 1)), "in the order of the target, as in Kafka"
        assert cluster.brokers[3].deleted == [T0]
        assert (await cluster.active.alter_reassignments({T0: None}))[T0][0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        for target in ([], [1, 1], [-1], [9]):
            outcome = (await cluster.active.alter_reassignments({T0: target}))[T0]
            assert outcome[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        cluster.check_agreement()

    play(scenario)


def test_a_move_asked_for_by_znode(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1])
        asked = encode_reassignment({("t", 0): [2], ("unknown", 0): [1]})
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, asked)
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((2, 1), (2,), (1,))
        epoch = cluster.state("t").leader_epoch
        assert epoch == 1, "told once"
        await put_in_isr(cluster, [1, 2])
        assert assignment(cluster) == PartitionReplicas((2,))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)
        cluster.check_agreement()

    play(scenario)


def test_producer_ids_are_handed_out_once(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.add_controller(1)
        first = await cluster.active.allocate_producer_ids(1, cluster.brokers[1].epoch)
        cluster.brokers[0].store.lose_next_answer()
        second = await cluster.active.allocate_producer_ids(1, cluster.brokers[1].epoch)
        assert (first.first, first.last) == (0, 999)
        assert second.first >= 1000
        with pytest.raises(KafkaError) as refused:
            await cluster.active.allocate_producer_ids(1, 1)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError) as refused:
            await cluster.active.allocate_producer_ids(9, 1)
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.kill(0)
        await cluster.settle()
        third = await cluster.active.allocate_producer_ids(1, cluster.brokers[1].epoch)
        assert third.first == second.last + 1
        assert b'"block_start":"%d"' % third.first in cluster.zookeeper.data(PRODUCER_ID_BLOCK_PATH)

    play(scenario)


def test_state_changes_are_logged_for_the_timeline(play: Play, caplog: Any) -> None:
    caplog.set_level("INFO", "state.change")

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.active.controlled_shutdown(1, cluster.brokers[1].epoch)

    play(scenario)
    made, moved = [record.getMessage() for record in caplog.records if record.name == "state.change"]
    assert made.split(" ", 1)[0].isdigit()
    assert made.split(" ", 1)[1] == (
        "controller t-0 leader -1->1 leader_epoch -1->0 isr ->1,2 partition_epoch 0 controller_epoch 1 NewPartition"
    )
    assert moved.split(" ", 1)[1] == (
        "controller t-0 leader 1->2 leader_epoch 0->1 isr 1,2->2 partition_epoch 1 controller_epoch 1"
        " ControlledShutdown"
    )
