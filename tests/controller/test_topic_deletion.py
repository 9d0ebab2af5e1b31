"""Deletion of topics: in phases, halted and resumed, against full disks, new topics and lost answers."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from odradek.controller.cluster_state import ClusterState, Replica
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import Create
from odradek.zk_schema.znodes.admin import (
    DELETE_TOPICS_PATH,
    REASSIGN_PARTITIONS_PATH,
    delete_topic_path,
    encode_reassignment,
)
from odradek.zk_schema.znodes.configs import topic_config_path
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event
from odradek.zk_schema.znodes.topics import (
    PartitionReplicas,
    TopicAssignment,
    partition_path,
    state_path,
    topic_path,
)
from tests.controller.conftest import Play

T0 = TopicPartition("t", 0)


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


def test_a_topic_is_deleted_after_somebody_has_deleted_the_place_of_the_marks(play: Play) -> None:
    """In Kafka none is before another controller is elected: a znode that is not there has no watch on its children."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        await cluster.admin.delete(DELETE_TOPICS_PATH)
        await cluster.settle()
        assert cluster.exists(DELETE_TOPICS_PATH)
        await cluster.delete_topic("t")
        assert not cluster.exists(topic_path("t"))

    play(scenario)


def test_an_answer_about_one_of_many_topics_to_be_deleted_looks_at_no_other(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To delete a thousand topics took ten seconds of processor: after each of 3,000 answers all were looked at."""
    looked_at: Counter[str] = Counter()
    replicas_of = ClusterState.replicas_of

    def counted(state: ClusterState, topic: str) -> list[Replica]:
        looked_at[topic] += 1
        return replicas_of(state, topic)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        topics = [f"t{number}" for number in range(12)]
        for topic in topics:
            await cluster.create_topic(topic, [1, 2, 0])
        monkeypatch.setattr(ClusterState, "replicas_of", counted)
        await cluster.admin.multi([Create(delete_topic_path(topic)) for topic in topics])
        await cluster.settle()
        assert not cluster.active.state.topics
        assert sorted(looked_at) == sorted(topics)
        assert max(looked_at.values()) <= 6, "when marked, when begun, and with the answers of three brokers"

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


def test_a_move_does_not_go_on_when_its_topic_is_being_deleted(play: Play) -> None:
    """A broker that came back in the midst had it told to all others: they made anew what they had just deleted."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [3, 2]}))
        await cluster.settle()
        cluster.kill(2)
        cluster.kill(3)
        await cluster.settle()
        await cluster.delete_topic("t")
        for broker in (3, 2):
            await cluster.add_broker(broker)
            await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert not any(T0 in cluster.brokers[broker].replicas for broker in (1, 2, 3))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)

    play(scenario)


@pytest.mark.parametrize("dies", [False, True], ids=["same controller", "next controller"])
def test_a_topic_is_deleted_in_the_middle_of_a_move(play: Play, dies: bool) -> None:
    """It waited for the end of the move, which never came: brokers took it for deleted, and nobody led it or copied."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(3)
        await cluster.create_topic("t", [1])
        await cluster.admin.create(REASSIGN_PARTITIONS_PATH, encode_reassignment({("t", 0): [2]}))
        await cluster.settle()

        def die(operations: list[Any], _: int) -> None:
            if operations[-1].path == state_path("t", 0):
                cluster.after_commit = None
                cluster.kill(0)

        cluster.after_commit = die if dies else None
        await cluster.delete_topic("t")
        await cluster.settle()
        assert cluster.holder() == (3 if dies else 0)
        assert not cluster.exists(topic_path("t"))
        assert not cluster.exists(REASSIGN_PARTITIONS_PATH)
        assert not any(T0 in cluster.brokers[broker].replicas for broker in (1, 2))

    play(scenario)


def test_a_replica_that_a_move_has_left_behind_goes_with_the_topic(play: Play) -> None:
    """The controller took the word to its grave, and the next one told nobody, as the topic was to be deleted."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.add_controller(3)
        await cluster.create_topic("t", [1])
        await cluster.active.alter_reassignments({T0: [2]})
        await cluster.settle()
        cluster.brokers[1].answers = False
        await cluster.put_in_isr([1, 2])
        cluster.kill(2)
        await cluster.delete_topic("t")
        cluster.kill(0)
        await cluster.settle()
        cluster.brokers[1].answers = True
        await cluster.add_broker(2)
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert cluster.brokers[1].deleted == [T0]

    play(scenario)


def test_a_broker_that_refuses_the_whole_request_has_deleted_nothing(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[2].refuses_all_with = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await cluster.delete_topic("t")
        await cluster.settle()
        assert cluster.exists(topic_path("t")) and cluster.active.state.deletion_halted == {"t"}
        cluster.brokers[2].refuses_all_with = None
        cluster.kill(2)
        await cluster.settle()
        await cluster.add_broker(2)
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert cluster.brokers[2].deleted

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


def test_a_deletion_that_a_full_disk_halted_goes_on_when_there_is_room(play: Play) -> None:
    """The disk was full when the replica was made, so the controller counts it as offline. (The simulator's seed
    700002.)"""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        cluster.brokers[2].storage_errors = {T0}
        await cluster.create_topic("t", [1, 2])
        await cluster.delete_topic("t")
        assert cluster.exists(topic_path("t"))
        cluster.brokers[2].storage_errors = set()
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), sequential=True)
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert cluster.brokers[2].deleted == [T0]

    play(scenario)


def test_a_deletion_asked_for_before_the_controller_has_seen_the_topic_is_carried_out(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("old", [1, 2])
        busy = asyncio.Event()

        async def keep_busy(_: Any) -> None:
            await busy.wait()

        asking = asyncio.ensure_future(cluster.active._call("Busy", keep_busy))
        await cluster.delete_topic("old")  # this is what makes the controller look at the marks
        await cluster.create_topic("t", [1, 2])
        await cluster.delete_topic("t")
        busy.set()
        await asking
        await cluster.settle()
        for topic in ("old", "t"):
            assert not cluster.exists(topic_path(topic))
            assert not cluster.exists(delete_topic_path(topic))

    play(scenario)


def test_a_topic_made_anew_is_not_deleted_over_a_lost_answer(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        anew = TopicAssignment({0: PartitionReplicas((2, 1))}, b"n" * 16)

        def before(operations: list[Any], _: int) -> None:
            if any(operation.path == delete_topic_path("t") for operation in operations[1:]) and len(operations) > 2:
                cluster.brokers[0].store.lose_next_answer()

        def after(operations: list[Any], _: int) -> None:
            if any(operation.path == topic_path("t") for operation in operations):
                cluster.after_commit = cluster.before_commit = None
                asyncio.ensure_future(cluster.admin.create(topic_path("t"), anew.encode()))  # noqa: RUF006

        await cluster.admin.create(delete_topic_path("t"))
        cluster.before_commit, cluster.after_commit = before, after
        await cluster.settle(2_000)
        assert TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))).topic_id == b"n" * 16
        assert cluster.state("t").leader == 2
        assert not cluster.exists(delete_topic_path("t"))
        cluster.check_agreement()

    play(scenario)


def test_a_mark_that_somebody_takes_away_does_not_stop_a_deletion_half_way(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[1].answers = False
        await cluster.delete_topic("t")
        await cluster.admin.delete(delete_topic_path("t"))
        cluster.brokers[1].answers = True
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))
        assert not cluster.exists(delete_topic_path("t"))

    play(scenario)


def test_partitions_that_are_added_to_a_topic_that_is_being_deleted_are_taken_out_again(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        cluster.brokers[1].answers = False
        await cluster.delete_topic("t")
        data, stat = await cluster.admin.get(topic_path("t"))
        before = TopicAssignment.decode("t", data)
        more = {**before.partitions, 1: PartitionReplicas((1,))}
        await cluster.admin.set(topic_path("t"), TopicAssignment(more, before.topic_id).encode(), stat.version)
        await cluster.settle()
        assert TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))) == before
        assert not cluster.exists(state_path("t", 1))
        cluster.brokers[1].answers = True
        await cluster.settle()
        assert not cluster.exists(topic_path("t"))

    play(scenario)


def test_znodes_that_somebody_has_put_below_a_topic_go_with_it(play: Play) -> None:
    """Kafka deletes all that there is; here the topic was there, without replicas, for as long as they were."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        for path in (f"{partition_path('t', 0)}/of/a/tool", f"{topic_path('t')}/note", f"{topic_config_path('t')}/old"):
            await cluster.admin.create(path, parents=True)
        await cluster.delete_topic("t")
        for path in (topic_path("t"), topic_config_path("t"), delete_topic_path("t")):
            assert not cluster.exists(path)
        assert not cluster.active.state.topics

    play(scenario)
