"""The tables of legal transitions, and requests merged per broker."""

import asyncio
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from odradek.controller import (
    broker_changes,
    controller_store,
    notifications,
    partition_machine,
    replica_machine,
    request_batch,
)
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import (
    Assignment,
    Broker,
    ClusterState,
    LeaderAndIsr,
    PartitionPhase,
    Replica,
    ReplicaPhase,
)
from odradek.controller.controller_store import ControllerMoved
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.controller.partition_machine import Strategy
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.protocol.shared_array import SharedArray
from odradek.protocol.topic_names import TopicPartition
from odradek.world import time_slices
from odradek.world.clock import Clock
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint
from odradek.zk_schema.znodes.topics import state_path
from tests.controller.conftest import Play

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState(1, 5)
    for broker in (1, 2, 3):
        endpoint = Endpoint("INTERNAL", f"host{broker}", 9092, "SASL_SSL")
        state.brokers[broker] = Broker(100 + broker, BrokerRegistration(broker, (endpoint,), "rack"))
    state.add_topic("t", b"i" * 16)
    state.assign(T0, Assignment((1, 2)))
    state.assign(T1, Assignment((2, 3)))
    return state


def test_partition_transitions_are_kafkas() -> None:
    N, NEW, ON, OFF = PartitionPhase  # noqa: N806
    legal = {(N, NEW), (NEW, ON), (ON, ON), (OFF, ON), (NEW, OFF), (ON, OFF), (OFF, OFF), (OFF, N)}
    for before, after in product(PartitionPhase, repeat=2):
        assert (before in partition_machine.VALID_PREVIOUS[after]) == ((before, after) in legal)


def test_replica_transitions_are_kafkas() -> None:
    N, NEW, ON, OFF, STARTED, DONE, INELIGIBLE = ReplicaPhase  # noqa: N806
    legal = {(N, NEW), (OFF, STARTED), (STARTED, DONE), (OFF, INELIGIBLE), (STARTED, INELIGIBLE), (DONE, N)}
    legal |= set(product([NEW, ON, OFF, INELIGIBLE], [ON, OFF]))
    for before, after in product(ReplicaPhase, repeat=2):
        assert (before in replica_machine.VALID_PREVIOUS[after]) == ((before, after) in legal)


def test_an_illegal_transition_changes_nothing(play: Play, caplog: Any) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        active, replica = cluster.active._active, Replica(T0, 1)
        told = len(cluster.brokers[1].received)
        partition_machine.move(active, [T0], PartitionPhase.NON_EXISTENT)
        await replica_machine.move(active, [replica], ReplicaPhase.DELETION_STARTED)
        assert active.state.phase(T0) is PartitionPhase.ONLINE
        assert active.state.replica_phase(replica) is ReplicaPhase.ONLINE
        await cluster.settle()
        assert len(cluster.brokers[1].received) == told

    play(scenario)
    failures = [
        record.getMessage().split(" ", 1)[1] for record in caplog.records if record.name == "state.change.logger"
    ]
    assert failures == [
        "controller t-0 stays as it was: it is Online (NonExistent)",
        "controller t-0 stays as it was: the replica on broker 1 is Online (replica DeletionStarted)",
    ]


def test_a_state_of_a_later_controller_is_left_alone(state: ClusterState) -> None:
    later = LeaderAndIsr(1, 3, (1, 2), False, 6, 4)
    assert "epoch 6" in str(partition_machine.choose(state, Strategy.OFFLINE_PARTITION, T0, later))
    assert "does not exist" in str(partition_machine.choose(state, Strategy.OFFLINE_PARTITION, T1, None))


def test_requests_are_merged_per_broker(state: ClusterState) -> None:
    state.leader_and_isr[T0] = LeaderAndIsr(1, 3, (1, 2), True, 5, 4)
    state.leader_and_isr[T1] = LeaderAndIsr(2, 0, (2, 3), False, 4, 0)
    state.shutting_down.add(3)
    batch = RequestBatch(state, "INTERNAL")
    batch.leader_and_isr([1, 2], T0, is_new=True)
    batch.leader_and_isr([1, 2, 9], T0)
    batch.leader_and_isr([2, 3], T1)
    batch.stop_replica([2], T1, delete=True)
    batch.stop_replica([2, 9], T1, delete=False)
    messages = list(batch.messages())
    kinds = [(broker, type(message)) for broker, message in messages]
    assert kinds == [
        *((broker, LeaderAndIsrRequest) for broker in (1, 2, 3)),
        *((broker, UpdateMetadataRequest) for broker in (1, 2, 3)),
        (2, StopReplicaRequest),
    ]
    to_two, metadata, stop = messages[1][1], messages[4][1], messages[6][1]
    assert isinstance(to_two, LeaderAndIsrRequest)
    assert (to_two.controller_id, to_two.controller_epoch, to_two.broker_epoch, to_two.type) == (1, 5, 102, 0)
    (topic,) = to_two.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", b"i" * 16)
    first, second = topic.partition_states
    assert (first.leader, first.leader_epoch, first.isr, first.partition_epoch) == (1, 3, [1, 2], 4)
    assert (first.controller_epoch, first.is_new, first.leader_recovery_state, first.replicas) == (5, True, 1, [1, 2])
    assert (second.controller_epoch, second.is_new) == (4, False)
    assert [(live.broker_id, live.host_name) for live in to_two.live_leaders] == [(1, "host1"), (2, "host2")]
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.topic_states[0].partition_states[1].offline_replicas == [3], "it is shutting down"
    assert [broker.id for broker in metadata.live_brokers] == [1, 2, 3]
    assert metadata.live_brokers[0].endpoints[0].security_protocol == 3
    assert isinstance(stop, StopReplicaRequest)
    (stopped,) = stop.topic_states[0].partition_states
    assert (stopped.partition_index, stopped.leader_epoch, stopped.delete_partition) == (1, 0, True)
    assert not list(batch.messages()), "told once"


def test_a_broker_hears_of_thousands_of_leaders_a_part_at_a_time(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the metadata too, behind all leaders; but complete metadata say what is gone, and so come in one request."""
    monkeypatch.setattr(request_batch, "PARTITIONS_PER_REQUEST", 1)
    batch = RequestBatch(state, "INTERNAL")

    def told() -> list[tuple[int, type, list[int]]]:
        return [
            (broker, type(message), [one.partition_index for one in message.topic_states[0].partition_states])
            for broker, message in batch.messages()
            if isinstance(message, LeaderAndIsrRequest | UpdateMetadataRequest)
        ]

    for partition in (T0, T1):
        state.leader_and_isr[partition] = LeaderAndIsr(1, 3, (1, 2), False, 5, 4)
        batch.leader_and_isr([1, 2], partition)
    assert told() == [
        *((broker, LeaderAndIsrRequest, [index]) for broker in (1, 2) for index in (0, 1)),
        *((broker, UpdateMetadataRequest, [index]) for broker in (1, 2, 3) for index in (0, 1)),
    ]
    batch.update_all_metadata()
    assert told() == [(broker, UpdateMetadataRequest, [0, 1]) for broker in (1, 2, 3)]
    batch.leader_and_isr([1], T0, metadata=False)
    assert told() == [(1, LeaderAndIsrRequest, [0])]


def test_of_a_topic_to_be_deleted_brokers_hear_the_end(state: ClusterState) -> None:
    state.leader_and_isr[T0] = LeaderAndIsr(1, 3, (1, 2), False, 5, 4)
    state.topics_to_delete.add("t")
    batch = RequestBatch(state, "INTERNAL")
    batch.update_metadata([T0, T1])
    batch.stop_replica([1], T0, delete=True)
    (_, metadata), *_, (_, stop) = batch.messages()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert isinstance(stop, StopReplicaRequest)
    (told,) = metadata.topic_states[0].partition_states
    assert (told.leader, told.leader_epoch, told.zk_version) == (-2, 0, 0)
    assert stop.topic_states[0].partition_states[0].leader_epoch == -2


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
        answered = LeaderAndIsrAnswered(1, LeaderAndIsrResponse(topics=[topic]))
        await notifications.leader_and_isr_answered(active, answered)
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
    decode = controller_store.decode_topic
    turns: list[str] = []
    seen: list[int] = []

    def noted(topic: str, data: bytes) -> Any:
        seen.append(len(turns))
        asyncio.get_running_loop().call_soon(turns.append, topic)
        return decode(topic, data)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        for topic in "abc":
            await cluster.create_topic(topic, [0, 1], [1, 0])
        monkeypatch.setattr(controller_store, "decode_topic", noted)
        found = await cluster.active._active.store.assignments("abc")
        assert {topic: len(one.partitions) for topic, one in found.items()} == dict.fromkeys("abc", 2)

    play(scenario)
    assert seen == [0, 1, 2]


def test_a_brokers_death_reads_no_state_that_the_controller_knows(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 partitions that was a third of the work: what is written names the version that was known anyway, and
    that broker 1, which led t-0, has left its ISR was written by the election."""
    read: list[TopicPartition] = []
    states_of = controller_store.ControllerStore.leader_and_isr

    async def noted(store: Any, partitions: Any) -> Any:
        read.extend(partitions)
        return await states_of(store, partitions)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2, 3], [2, 1, 3], [3, 2, 1])
        monkeypatch.setattr(controller_store.ControllerStore, "leader_and_isr", noted)
        cluster.kill(1)
        await cluster.settle()
        assert [cluster.state("t", index).leader for index in range(3)] == [2, 2, 3]
        assert all(1 not in cluster.state("t", index).isr for index in range(3))
        cluster.check_agreement()

    play(scenario)
    assert read == []


def test_what_an_old_leader_wrote_itself_counts_although_the_controller_has_not_heard_of_it(play: Play) -> None:
    """Before Kafka 2.7 a leader writes its ISR into ZooKeeper, and says so later."""

    async def scenario(cluster: Any) -> None:
        async def write_isr(index: int, *isr: int) -> None:
            written = replace(cluster.state("t", index), isr=isr)
            await cluster.admin.set(state_path("t", index), written.encode())

        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2, 3], [2, 1, 3], [2, 3, 1])
        await cluster.put_in_isr([2, 3], partition=2)
        await write_isr(0, 1, 3)  # the next leader is 3, not the first replica
        await write_isr(1, 2, 1)
        await write_isr(2, 2, 3, 1)  # of which the controller thinks that broker 1 is out
        cluster.kill(1)
        await cluster.settle()
        assert [(cluster.state("t", index).leader, set(cluster.state("t", index).isr)) for index in range(3)] == [
            (3, {3}), (2, {2}), (2, {2, 3}),
        ]  # fmt: skip
        cluster.check_agreement()

    play(scenario)


def test_a_partition_whose_state_is_gone_is_given_up_and_said(play: Play, caplog: Any) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2], [2, 1])
        for index in range(2):
            await cluster.admin.delete(state_path("t", index))
        cluster.kill(1)
        await cluster.settle()

    play(scenario)
    said = [record.getMessage().split(" ", 1)[1] for record in caplog.records if record.levelname == "ERROR"]
    gone = "stays as it was: its state znode does not exist"
    assert said == [f"controller t-0 {gone} (OfflinePartition)"] + [
        f"controller t-{index} {gone} (OfflineReplica 1)" for index in range(2)
    ]
