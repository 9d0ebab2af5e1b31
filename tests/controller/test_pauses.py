"""Pauses of a controller with thousands of partitions: others have their turn."""

import asyncio
from typing import Any

import pytest

from odradek.controller import (
    broker_changes,
    controller_store,
    leader_and_isr_answers,
    partition_machine,
)
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import (
    ClusterState,
    LeaderAndIsr,
)
from odradek.controller.controller_store import ControllerMoved
from odradek.controller.decoded_znodes import decode_topic
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.fields import SharedArray
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.world import time_slices
from odradek.world.clock import Clock
from odradek.world.time_slices import TimeSlice
from tests.controller.conftest import Play
from tests.controller.known_cluster import T0, T1, known_state


@pytest.fixture
def state() -> ClusterState:
    return known_state()


def test_what_all_brokers_are_told_is_encoded_once_and_with_a_pause_after_each_partition(state: ClusterState) -> None:
    """It was encoded for each broker, in one piece each: 13 ms for 10,000 partitions."""
    state.leader_and_isr[T0] = LeaderAndIsr(1, 3, (1, 2), False, 5, 4)
    state.leader_and_isr[T1] = LeaderAndIsr(2, 3, (2, 3), False, 5, 4)
    batch = RequestBatch(state, "INTERNAL")
    batch.update_all_metadata()
    assert sum(1 for _ in batch.build()) >= 2 * len(state.leader_and_isr)
    told = [message.topic_states for _, message in batch.messages() if isinstance(message, UpdateMetadataRequest)]
    assert len(told) == len(state.brokers) > 1
    assert isinstance(told[0], SharedArray)
    assert all(one is told[0] for one in told)
    assert sum(len(topic.partition_states) for topic in told[0]) == len(state.leader_and_isr) > 1


def test_others_have_their_turn_between_two_partitions(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of changes, each of which is logged, held the loop of the controller's broker for a third of a second.

    Slices are too short for two here: no two changes are noted in one turn of the loop.
    """
    turns, changes = 0, []
    pause_if_over, log_change = TimeSlice.pause_if_over, ActiveController.log_change

    async def counted(turn: TimeSlice) -> bool:
        nonlocal turns
        paused = await pause_if_over(turn)
        turns += paused
        return paused

    def noted(active: ActiveController, *change: Any) -> None:
        changes.append((turns, change[-1]))
        log_change(active, *change)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", *[[1, 2, 3, 0]] * 3)
        epochs = [BrokerState(broker_id=broker, broker_epoch=-1) for broker in (1, 2, 0)]
        proposals = [PartitionData(partition_index=index, new_isr_with_epochs=epochs) for index in range(3)]
        topic = TopicData(topic_id=cluster.active.state.topic_ids["t"], partitions=proposals)
        request = AlterPartitionRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch, topics=[topic])
        await cluster.active.alter_partition(request, 3)
        for broker in (2, 1):
            cluster.kill(broker)
            await cluster.settle()
        cluster.check_agreement()

    monkeypatch.setattr(time_slices, "SLICE_MS", -1.0)
    monkeypatch.setattr(TimeSlice, "pause_if_over", counted)
    monkeypatch.setattr(ActiveController, "log_change", noted)
    play(scenario)
    rules = ["NewPartition"] * 3 + ["AlterPartition"] * 3 + ["OfflineReplica 2"] * 3 + ["OfflinePartition"] * 3
    assert [rule for _, rule in changes] == rules
    assert len({turn for turn, _ in changes}) == len(changes)


def test_others_have_their_turn_while_answers_about_thousands_of_partitions_are_read(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of all brokers, of a thousand partitions each, were taken in one after the other without a pause."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", *[[1, 0]] * 3)
        active, turns = cluster.active._active, 0

        async def counted(turn: TimeSlice) -> bool:
            nonlocal turns
            turns += 1
            return False

        monkeypatch.setattr(TimeSlice, "pause_if_over", counted)
        errors = [LeaderAndIsrPartitionError(partition_index=index) for index in range(3)]
        topic = LeaderAndIsrTopicError(topic_id=active.state.topic_ids["t"], partition_errors=errors)
        answered = LeaderAndIsrAnswered(1, active.state.brokers[1].epoch, LeaderAndIsrResponse(topics=[topic]))
        await leader_and_isr_answers.take_in_answer(active, answered)
        assert turns == 3

    play(scenario)


def test_others_have_their_turn_while_the_replicas_of_a_broker_are_looked_through(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a broker that came or went were looked through three times in one piece: 26 ms for 10,000."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", *[[1, 2]] * 3)
        active, pauses = cluster.active._active, 0
        paused, move = type(active).pause, partition_machine.move

        async def counted(controller: ActiveController) -> None:
            nonlocal pauses
            pauses += 1
            await paused(controller)

        def moved(*arguments: Any) -> None:
            assert pauses == 3, "one for each replica, before anything else is done"
            move(*arguments)
            raise ControllerMoved("enough")

        monkeypatch.setattr(ActiveController, "pause", counted)
        monkeypatch.setattr(partition_machine, "move", moved)
        with pytest.raises(ControllerMoved, match="enough"):
            await broker_changes.replicas_lost(active, active.state.replicas_on([2]))

    play(scenario)


def test_loops_of_a_controller_share_a_slice_of_time(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loop over partitions began a slice of its own: four of them, one after the other, held up all for four."""
    slices: list[TimeSlice] = []
    begin = TimeSlice.__init__

    def begun(turn: TimeSlice, clock: Clock) -> None:
        slices.append(turn)
        begin(turn, clock)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        slices.clear()
        await cluster.create_topic("t", [1, 2, 0])
        cluster.kill(1)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        assert not slices

    monkeypatch.setattr(TimeSlice, "__init__", begun)
    play(scenario)


def test_others_have_their_turn_while_thousands_of_assignments_are_read(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that was just elected decoded all topics in one piece."""
    monkeypatch.setattr(controller_store, "DECODED_AT_ONCE", 2)
    turns: list[str] = []
    seen: list[int] = []

    def noted(topic: str, data: bytes) -> Any:
        seen.append(len(turns))
        asyncio.get_running_loop().call_soon(turns.append, topic)
        return decode_topic(topic, data)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        for topic in "abc":
            await cluster.create_topic(topic, [0, 1], [1, 0])
        monkeypatch.setattr(controller_store, "decode_topic", noted)
        found = await cluster.active._active.store.assignments("abc")
        assert {topic: len(one.partitions) for topic, one in found.items()} == dict.fromkeys("abc", 2)

    play(scenario)
    assert seen == [0, 1, 2]
