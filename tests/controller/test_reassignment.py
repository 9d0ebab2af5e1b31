"""Moves of replicas: by request and by znode, resumed, cancelled, beside other writers of the same znodes."""

from contextlib import suppress
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema import store
from odradek.zk_schema.store import SetData
from odradek.zk_schema.znodes.admin import (
    REASSIGN_PARTITIONS_PATH,
    decode_reassignment,
    delete_topic_path,
    encode_reassignment,
)
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event
from odradek.zk_schema.znodes.topics import NO_LEADER, PartitionReplicas, TopicAssignment, topic_path
from tests.controller.conftest import Play

T0 = TopicPartition("t", 0)


NOTHING_TO_CANCEL = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")


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
        await cluster.put_in_isr([1, 2, 3])
        assert assignment(cluster) == PartitionReplicas((3, 2))
        assert (cluster.state("t").leader, set(cluster.state("t").isr)) == (3, {2, 3})
        assert cluster.brokers[1].deleted == [T0]
        assert not await cluster.active.list_reassignments(None)
        cluster.check_agreement()

    play(scenario)


def test_a_replica_that_a_move_removes_is_not_said_to_be_offline(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [2]})
        await cluster.settle()
        assert cluster.state("t").isr == (2,)
        rules = [entry["rule"] for entry in cluster.active.journal.entries() if entry["kind"] == "partition"]
        assert rules == ["NewPartition", "ReassignPartition", "ReassignPartition"], "both brokers are there"

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
        assert outcomes[TopicPartition("t", 9)] == NOTHING_TO_CANCEL
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((2, 1)), "in the order of the target, as in Kafka"
        assert cluster.brokers[3].deleted == [T0]
        assert (await cluster.active.alter_reassignments({T0: None}))[T0] == NOTHING_TO_CANCEL
        unknown = TopicPartition("unknown", 0)
        assert (await cluster.active.alter_reassignments({unknown: None}))[unknown] == NOTHING_TO_CANCEL
        outcome = (await cluster.active.alter_reassignments({unknown: [1]}))[unknown]
        assert outcome == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        for target in ([], [1, 1], [-1], [9]):
            outcome = (await cluster.active.alter_reassignments({T0: target}))[T0]
            assert outcome[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        cluster.check_agreement()

    play(scenario)


def test_a_move_that_zookeeper_has_no_room_for_is_refused(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller wrote it again and again, and was cut off from ZooKeeper each time."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        with monkeypatch.context() as patch:
            patch.setattr(store, "WRITE_BYTES_MAX", len(cluster.zookeeper.data(topic_path("t"))))
            code, why = (await cluster.active.alter_reassignments({T0: [3, 2]}))[T0]
            assert code is ErrorCode.POLICY_VIOLATION
            assert why.startswith("/brokers/topics/t: more than the ")
            await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({T0: [3, 2]}))
            await cluster.settle()
            assert not cluster.exists(REASSIGN_PARTITIONS_PATH), "tools would take it for under way, for ever"
        assert assignment(cluster) == PartitionReplicas((1, 2))
        assert (await cluster.active.alter_reassignments({T0: [3, 2]}))[T0][0] is ErrorCode.NONE
        cluster.check_agreement()

    play(scenario)


def test_the_last_replica_in_sync_is_not_deleted_by_going_back(play: Play) -> None:
    """The old replicas have died meanwhile: what has been acknowledged since is on the one that the move has added."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.active.alter_reassignments({T0: [2, 3]})
        await cluster.settle()
        await cluster.put_in_isr([1, 2])
        cluster.kill(1)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
        for target in (None, [3], [1]):
            code, said = (await cluster.active.alter_reassignments({T0: target}))[T0]
            assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT and said.startswith("Records would be lost: "), target
        await cluster.settle()
        assert cluster.brokers[2].deleted == [] and assignment(cluster) == PartitionReplicas((2, 3, 1), (2, 3), (1,))
        assert (await cluster.active.alter_reassignments({T0: [2]}))[T0] == (ErrorCode.NONE, None)

    play(scenario)


def test_a_cancellation_for_a_partition_that_has_lost_its_state_is_refused(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.active.alter_reassignments({T0: [2]})
        await cluster.settle()
        del cluster.active.state.leader_and_isr[T0]
        code, _ = (await cluster.active.alter_reassignments({T0: None}))[T0]
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_a_move_asked_for_by_znode(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1])
        asked = encode_reassignment({("t", 0): [2], ("unknown", 0): [1]})
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, asked)
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((2, 1), (2,), (1,))
        epoch = cluster.state("t").leader_epoch
        assert epoch == 1, "told once"
        await cluster.put_in_isr([1, 2])
        assert assignment(cluster) == PartitionReplicas((2,))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)
        cluster.check_agreement()

    play(scenario)
    assert "unknown-0 is not reassigned: UNKNOWN_TOPIC_OR_PARTITION The partition does not exist." in caplog.messages


def test_partitions_that_are_added_during_a_move_are_kept(play: Play) -> None:
    """CreatePartitions writes the same znode, and the controller has not heard of it yet."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])

        def add_partition(operations: list[Any], _: int) -> None:
            if any(isinstance(operation, SetData) and operation.path == topic_path("t") for operation in operations):
                cluster.before_commit = None
                old = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
                more = TopicAssignment({**old.partitions, 1: PartitionReplicas((2, 3))}, old.topic_id)
                cluster.zookeeper.commit([SetData(topic_path("t"), more.encode())], cluster.admin.session_id)

        cluster.before_commit = add_partition
        assert await cluster.active.alter_reassignments({T0: [3, 2]}) == {T0: (ErrorCode.NONE, None)}
        await cluster.settle()
        held = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))).partitions
        assert held == {0: PartitionReplicas((3, 2, 1), (3,), (1,)), 1: PartitionReplicas((2, 3))}
        assert cluster.state("t", 1).leader == 2
        await cluster.put_in_isr([1, 2, 3])
        assert assignment(cluster) == PartitionReplicas((3, 2))
        cluster.check_agreement()

    play(scenario)


def test_partitions_that_a_tool_adds_to_its_order_are_not_forgotten(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1], [1])

        def add_to_order(operations: list[Any], _: int) -> None:
            if any(operation.path == REASSIGN_PARTITIONS_PATH for operation in operations[1:]):
                cluster.before_commit = None
                both = encode_reassignment({("t", 0): [2], ("t", 1): [2]})
                cluster.zookeeper.commit([SetData(REASSIGN_PARTITIONS_PATH, both)], cluster.admin.session_id)

        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [2]}))
        await cluster.settle()
        cluster.before_commit = add_to_order
        await cluster.put_in_isr([1, 2])
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((2,))
        held = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))).partitions
        assert held[1] == PartitionReplicas((2, 1), (2,), (1,))

    play(scenario)


def test_a_replica_whose_removal_the_controller_took_to_its_grave_is_deleted(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(3)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [2, 3]})
        await cluster.settle()
        cluster.brokers[1].answers = False
        await cluster.put_in_isr([1, 2, 3])
        assert assignment(cluster) == PartitionReplicas((2, 3))
        cluster.kill(0)
        cluster.brokers[1].answers = True
        await cluster.settle()
        assert cluster.brokers[1].deleted == [T0]

    play(scenario)


def test_a_leader_that_an_edited_assignment_leaves_out_keeps_its_log(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(3)
        await cluster.create_topic("t", [1, 2])
        old = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        edited = TopicAssignment({0: PartitionReplicas((2, 3))}, old.topic_id)
        await cluster.admin.set(topic_path("t"), edited.encode())
        cluster.kill(0)
        await cluster.settle()
        assert not cluster.brokers[1].deleted

    play(scenario)


def test_a_partition_whose_leader_an_edited_assignment_leaves_out_is_led_by_who_comes_back(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(3)
        await cluster.create_topic("t", [1, 2])
        old = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        edited = TopicAssignment({0: PartitionReplicas((2, 3))}, old.topic_id)
        await cluster.admin.set(topic_path("t"), edited.encode())
        cluster.kill(0)
        await cluster.settle()
        cluster.kill(2)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (NO_LEADER, (2,))
        await cluster.add_broker(2)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        assert cluster.brokers[2].led() == {T0}

    play(scenario)


def test_an_isr_keeps_its_order_and_who_joins_comes_last(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [3, 1])
        await cluster.active.alter_reassignments({T0: [3, 1, 2]})
        await cluster.put_in_isr([1, 2, 3])
        assert cluster.state("t").isr == (3, 1, 2)

    play(scenario)


def test_leaders_are_balanced_while_a_move_is_under_way(play: Play) -> None:
    """They were not, though a move may take days, or wait for ever for a broker that is gone; with Kafka since 3.4 they
    are (KAFKA-10149)."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0], leader_imbalance_check_interval_seconds=10)
        await cluster.create_topic("t", [1, 2], [1, 2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.put_in_isr([2, 1], 0)
        await cluster.active.alter_reassignments({TopicPartition("t", 1): [3, 1, 2]})
        await cluster.settle(30_000)
        assert cluster.state("t").leader == 1
        assert cluster.state("t", 1).leader == 2, "nobody who is not in sync, though it is preferred from now on"
        await cluster.put_in_isr([2, 1, 3], 1)
        await cluster.settle(30_000)
        assert cluster.state("t", 1).leader == 3
        cluster.check_agreement()

    play(scenario)


def test_nobody_goes_before_one_of_those_that_stay_can_lead(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.kill(1)
        await cluster.settle()
        cluster.kill(2)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (-1, (2,))
        outcomes = await cluster.active.alter_reassignments({T0: [2]})
        assert outcomes[T0][0] == ErrorCode.NONE
        await cluster.settle()
        assert list(await cluster.active.list_reassignments(None)) == [T0]
        assert cluster.brokers[1].deleted == []
        await cluster.add_broker(2)
        await cluster.settle()
        assert not await cluster.active.list_reassignments(None)
        assert cluster.brokers[1].deleted == [T0]
        assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
        cluster.check_agreement()

    play(scenario)


def test_a_move_that_no_target_could_lead_is_completed_when_a_log_directory_is_back(play: Play) -> None:
    """It was taken up only when a broker started, and a topic that was deleted meanwhile waited for it for ever."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        cluster.brokers[1].storage_errors = {T0}
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert await cluster.active.alter_reassignments({T0: [1]}) == {T0: (ErrorCode.NONE, None)}
        await cluster.settle()
        assert cluster.state("t").leader == NO_LEADER
        cluster.brokers[1].storage_errors = set()
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert cluster.state("t").leader == 1
        await cluster.admin.create(delete_topic_path("t"))
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert cluster.brokers[1].deleted == [T0]

    play(scenario)


@pytest.mark.parametrize("dies", [False, True], ids=["same controller", "next controller"])
def test_a_leader_that_a_later_order_does_not_want_is_followed_by_another(play: Play, dies: bool) -> None:
    """Nobody led until the next broker died, or the former one in its old epoch (nor does anybody in Kafka)."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, 4, controllers=[0])
        await cluster.add_controller(4)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [3, 4]})
        await cluster.settle()
        await cluster.put_in_isr([1, 2, 3])
        assert (await cluster.active.elect_leaders([T0], 0))[T0][0] is ErrorCode.NONE
        assert cluster.state("t").leader == 3

        def die(operations: list[Any], _: int) -> None:
            if operations[-1].path == topic_path("t"):
                cluster.after_commit = None
                cluster.kill(0)

        cluster.after_commit = die if dies else None
        with suppress(KafkaError):
            await cluster.active.alter_reassignments({T0: [4, 2]})
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((4, 2, 1), (4,), (1,))
        assert cluster.state("t").leader == 2
        assert cluster.brokers[2].led() == {T0}
        cluster.check_agreement()
        await cluster.put_in_isr([2, 4])
        assert assignment(cluster) == PartitionReplicas((4, 2))

    play(scenario)


def test_the_isr_is_not_left_to_a_replica_that_a_later_order_does_not_want(play: Play) -> None:
    """The controller dies with an order that is written and not begun, and with it the only replica in sync that is to
    stay. Of the ISR the unwanted leader alone remained: nobody told it of the new epoch, so that no other replica could
    ever join, and nobody else could be elected."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, 4, controllers=[0])
        await cluster.add_controller(4)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [3, 4]})
        await cluster.settle()
        await cluster.put_in_isr([1, 2, 3])
        assert (await cluster.active.elect_leaders([T0], 0))[T0][0] is ErrorCode.NONE
        await cluster.put_in_isr([2, 3])

        def die(operations: list[Any], _: int) -> None:
            if operations[-1].path == topic_path("t"):
                cluster.after_commit = None
                cluster.kill(0)
                cluster.kill(2)

        cluster.after_commit = die
        with suppress(KafkaError):
            await cluster.active.alter_reassignments({T0: [4, 2]})
        await cluster.settle()
        assert assignment(cluster) == PartitionReplicas((4, 2, 1), (4,), (1,))
        assert (cluster.state("t").leader, cluster.state("t").isr) == (NO_LEADER, (2,))
        await cluster.add_broker(2)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
        assert cluster.brokers[2].led() == {T0}
        await cluster.put_in_isr([2, 4])
        assert assignment(cluster) == PartitionReplicas((4, 2))
        cluster.check_agreement()

    play(scenario)


@pytest.mark.parametrize("order", [encode_reassignment({}), b"{"])
def test_an_order_of_nothing_bars_no_other(play: Play, order: bytes) -> None:
    """The znode stayed for ever: a tool that found it took a reassignment for under way, and gave no order. In Kafka it
    stays until the next reassignment has come to its end."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, order)
        await cluster.settle()
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({T0: [2]}))
        await cluster.settle()
        await cluster.put_in_isr([1, 2])
        assert assignment(cluster) == PartitionReplicas((2,))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)

    play(scenario)


def test_an_order_that_is_under_way_stays_in_the_znode_while_a_target_is_away(play: Play) -> None:
    """When another move of the same order was complete it was taken for a new one, and refused: the tool that had given
    it reported a failed move, which went on."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1], [1])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [2], ("t", 1): [3]}))
        await cluster.settle()
        cluster.kill(3)
        await cluster.settle()
        await cluster.put_in_isr([1, 2])
        assert decode_reassignment(cluster.zookeeper.data(REASSIGN_PARTITIONS_PATH)) == {("t", 1): (3,)}
        await cluster.add_broker(3)
        await cluster.settle()
        await cluster.put_in_isr([1, 3], 1)
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)

    play(scenario)


def test_an_order_in_the_znode_waits_for_a_target_that_is_away(play: Play) -> None:
    """It was refused, and the znode deleted: an order given while its target restarted was lost. Kafka asks only of
    orders by request whether their brokers live."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [2]}))
        await cluster.settle()
        assert decode_reassignment(cluster.zookeeper.data(REASSIGN_PARTITIONS_PATH)) == {("t", 0): (2,)}
        assert (await cluster.active.alter_reassignments({T0: [3]}))[T0][0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        await cluster.add_broker(2)
        await cluster.settle()
        await cluster.put_in_isr([1, 2])
        assert assignment(cluster) == PartitionReplicas((2,))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)

    play(scenario)


def test_a_move_is_completed_beside_a_tool_that_writes_the_topic_without_its_id(play: Play) -> None:
    """It was complete to those who asked, and went on with the next controller: former replicas came back."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        topic_id = cluster.active.state.topic_ids["t"]
        await cluster.active.alter_reassignments({T0: [3, 2]})
        await cluster.settle()

        def add_partition(operations: list[Any], _: int) -> None:
            if any(isinstance(operation, SetData) and operation.path == topic_path("t") for operation in operations):
                cluster.before_commit = None
                old = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
                more = TopicAssignment({**old.partitions, 1: PartitionReplicas((2, 3))})
                cluster.zookeeper.commit([SetData(topic_path("t"), more.encode())], cluster.admin.session_id)

        cluster.before_commit = add_partition
        await cluster.put_in_isr([1, 2, 3])
        held = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        partitions = {0: PartitionReplicas((3, 2)), 1: PartitionReplicas((2, 3))}
        assert held == TopicAssignment(partitions, topic_id)
        cluster.check_agreement()

    play(scenario)


def test_an_unclean_election_waits_until_a_move_has_made_its_replicas(play: Play) -> None:
    """The replica led before it was one: it had no phase, and a deletion of the topic waited for it for ever."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1], unclean_leader_election_enable="true")
        cluster.kill(1)
        await cluster.settle()
        await cluster.active.alter_reassignments({T0: [2, 3]})
        await cluster.settle()
        assert {cluster.brokers[broker].replicas[T0].is_new for broker in (2, 3)} == {True}
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.delete_topic("t")
        assert not cluster.exists(topic_path("t"))

    play(scenario)


def test_an_order_by_request_takes_the_place_of_one_in_the_znode(play: Play) -> None:
    """The tool that has written the znode would wait for its own, which nobody carries out any more."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [2]}))
        await cluster.settle()
        assert await cluster.active.alter_reassignments({T0: [0, 3]}) == {T0: (ErrorCode.NONE, None)}
        await cluster.settle()
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)
        assert assignment(cluster) == PartitionReplicas((0, 3, 1), (0, 3), (1,))

    play(scenario)


def test_partitions_of_a_topic_that_is_being_deleted_are_not_moved(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        assert await cluster.active.alter_reassignments({T0: [3, 2]}) == {T0: (ErrorCode.NONE, None)}
        cluster.kill(2)
        await cluster.settle()
        await cluster.delete_topic("t")
        assert cluster.exists(topic_path("t")), "it waits for broker 2"
        outcomes = await cluster.active.alter_reassignments({T0: [1]})
        assert outcomes == {T0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")}
        assert await cluster.active.alter_reassignments({T0: None}) == {T0: NOTHING_TO_CANCEL}

    play(scenario)


def test_of_the_moves_under_way_only_those_are_told_that_are_asked_for(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1], [1])
        other = TopicPartition("t", 1)
        await cluster.active.alter_reassignments({T0: [2], other: [2]})
        assert list(await cluster.active.list_reassignments([other])) == [other]
        assert list(await cluster.active.list_reassignments(None)) == [T0, other]

    play(scenario)
