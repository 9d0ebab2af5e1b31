"""State machines of partitions and replicas, the requests that follow, and what an election trusts."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from odradek.controller import (
    controller_store,
    partition_machine,
    replica_machine,
    request_batch,
)
from odradek.controller.cluster_state import (
    Assignment,
    ClusterState,
    LeaderAndIsr,
    PartitionPhase,
    Replica,
    ReplicaPhase,
)
from odradek.controller.partition_machine import Strategy
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrRequest,
)
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import ConnectionLost, Create, MultiFailed, NotAuthorized, SetData
from odradek.zk_schema.znodes.topics import state_path
from tests.controller.conftest import Play
from tests.controller.known_cluster import T0, T1, known_state


@pytest.fixture
def state() -> ClusterState:
    return known_state()


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
    said = said_of(caplog)
    gone = "stays as it was: its state znode does not exist"
    assert said == [f"controller t-0 {gone} (OfflinePartition)"] + [
        f"controller t-{index} {gone} (OfflineReplica 1)" for index in range(2)
    ]


def said_of(caplog: Any) -> list[str]:
    return [record.getMessage().split(" ", 1)[1] for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("kind", [Create, SetData])
def test_a_partition_whose_state_zookeeper_does_not_take_is_given_up_and_said(
    play: Play, caplog: Any, kind: type[Create] | type[SetData]
) -> None:
    """The first state of a new partition, or that of a new leader; the others of the topic get their leaders."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])

        def refuse(operations: list[Any], session_id: int) -> None:
            for index, one in enumerate(operations):
                if isinstance(one, kind) and one.path == state_path("t", 0):
                    raise MultiFailed(index, NotAuthorized(one.path))

        cluster.before_commit = refuse
        await cluster.create_topic("t", [1, 2], [1, 2])
        if kind is SetData:
            cluster.kill(1)
            await cluster.settle()
        assert cluster.state("t", 1).leader == (1 if kind is Create else 2)
        assert cluster.active.controller_epoch == 1 and not cluster.tasks.deaths

    play(scenario)
    assert (
        said_of(caplog)[0] == f"controller t-0 stays as it was: {NotAuthorized(state_path('t', 0))} (OfflinePartition)"
    )


def test_an_election_is_tried_again_as_long_as_its_write_is_lost(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        left = 3

        def lose(operations: list[Any], session_id: int) -> None:
            nonlocal left
            if left and any(isinstance(one, SetData) and one.path == state_path("t", 0) for one in operations):
                left -= 1
                raise ConnectionLost("/")

        cluster.before_commit = lose
        cluster.kill(1)
        await cluster.settle()
        assert (left, cluster.state("t").leader, cluster.state("t").leader_epoch) == (0, 2, 1)
        cluster.check_agreement()

    play(scenario)


def test_a_new_partition_whose_answer_was_lost_is_found_to_have_a_state(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])

        def lose(operations: list[Any], session_id: int) -> None:
            if any(isinstance(one, Create) and one.path == state_path("t", 0) for one in operations):
                cluster.before_commit = None
                cluster.brokers[0].store.lose_next_answer()

        cluster.before_commit = lose
        await cluster.create_topic("t", [1, 2])
        assert cluster.before_commit is None
        assert cluster.state("t").leader == 1
        cluster.check_agreement()

    play(scenario)


def test_a_partition_whose_replicas_are_all_to_come_is_said_to_have_no_leader(play: Play, caplog: Any) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [5, 6])

    play(scenario)
    assert said_of(caplog) == [
        "controller t-0 stays as it was: none of the assigned replicas [5, 6] is live (OfflinePartition)"
    ]


@pytest.mark.parametrize("strategy", Strategy)
def test_who_is_told_of_a_leader(state: ClusterState, strategy: Strategy) -> None:
    """A broker that shuts down follows once more after an election that it did not cause, as in Kafka."""
    del state.brokers[1]
    state.shutting_down.add(2)
    state.assign(T0, Assignment((1, 2, 3)))
    told = {Strategy.OFFLINE_PARTITION: [3], Strategy.CONTROLLED_SHUTDOWN: [2, 3]}
    assert partition_machine._recipients(state, strategy, T0) == told.get(strategy, [1, 2, 3])
