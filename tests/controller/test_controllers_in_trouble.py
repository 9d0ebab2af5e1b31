"""Controllers in trouble: deposed, cut off, with unreadable znodes, with bugs, with epochs that brokers refuse."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from odradek.controller.controller import ELECTION_RETRY_MS
from odradek.controller.controller_election import EPOCH_MAX
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.update_metadata import TYPE_FULL, TYPE_INCREMENTAL, UpdateMetadataRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.zk_schema.store import (
    ANY_VERSION,
    Create,
    Expired,
    MultiFailed,
    NotAuthorized,
    Operation,
    SetData,
    StoreEvent,
)
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, broker_path
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event
from odradek.zk_schema.znodes.topics import partition_path, partitions_path, state_path, topic_path
from tests.controller.conftest import Play


def test_a_deposed_controller_changes_nothing(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        await cluster.create_topic("t", [0, 1, 2])
        zombie_id = cluster.holder()
        zombie = cluster.active
        cluster.zookeeper.partition(cluster.brokers[zombie_id].store, unnoticed_ms=20_000)
        await cluster.settle(4000)
        assert zombie.is_active, "it has not noticed anything yet"
        assert cluster.holder() not in (zombie_id, -1)
        epoch = cluster.state("t").controller_epoch
        assert epoch == 2
        session = cluster.brokers[zombie_id].store.session_id
        before = len(cluster.commits)
        cluster.zookeeper.heal(cluster.brokers[zombie_id].store)
        with pytest.raises(KafkaError) as refused:
            await zombie.controlled_shutdown(1, -1)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert not zombie.is_active
        await cluster.settle()
        assert not [ops for who, ops in cluster.commits[before:] if who == session]
        assert cluster.state("t").controller_epoch == 2

    play(scenario)


def test_every_write_checks_the_epoch_znode(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.admin.set(CONTROLLER_EPOCH_PATH, b"7")  # as if somebody had been elected behind its back
        before = cluster.state("t")
        with pytest.raises(KafkaError) as refused:
            await cluster.controllers[0].controlled_shutdown(1, -1)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert cluster.state("t") == before
        await cluster.settle()
        assert cluster.active.controller_epoch in (7, 8), "it stands again"
        (session,) = {cluster.brokers[0].store.session_id}
        for who, operations in cluster.commits:
            if who == session and operations[0].path.startswith(("/brokers/topics", "/admin", "/isr")):
                raise AssertionError(f"without a check: {operations}")

    play(scenario)


def test_suspended_for_longer_than_the_session_means_resigning(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1)
        first = cluster.active
        cluster.zookeeper.partition(cluster.brokers[first.broker_id].store)
        await cluster.settle(2000)
        assert first.is_active, "the session may live"
        await cluster.settle(1500)
        assert not first.is_active
        assert first.controller_id == -1
        cluster.zookeeper.heal(cluster.brokers[first.broker_id].store)
        await cluster.settle()
        assert first.controller_id == cluster.holder() == 1 - first.broker_id

    play(scenario)


def test_a_session_that_ends_right_behind_an_answer_leaves_no_channel(play: Play) -> None:
    """The flow went on with the answer: it opened a channel that nobody closed, and sent a request by it."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.add_controller(1)
        store = cluster.brokers[0].store
        get = store.get

        async def get_and_expire(path: str, *, watch: bool = False) -> Any:
            answer = await get(path, watch=watch)
            if path == broker_path(2):
                store.get = get
                cluster.zookeeper.expire_session(store.session_id)
            return answer

        def cut_off(event: StoreEvent) -> None:
            if isinstance(event, Expired):  # so that another one is elected
                cluster.zookeeper.partition(store)

        store.get = get_and_expire
        store.subscribe(cut_off)
        newcomer = await cluster.add_broker(2)
        await cluster.settle(4000)
        assert cluster.holder() == 1
        assert cluster.channels[0].queued_by_broker() == {}
        assert {request.controller_epoch for request in newcomer.received} == {2}

    play(scenario)


def test_a_short_interruption_changes_nothing_and_the_event_goes_on(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        cluster.zookeeper.partition(cluster.brokers[0].store)
        await cluster.create_topic("t", [1, 2])
        assert not cluster.exists("/brokers/topics/t/partitions")
        cluster.zookeeper.heal(cluster.brokers[0].store)
        await cluster.settle()
        assert cluster.active.controller_epoch == 1
        assert cluster.state("t").leader == 1

    play(scenario)


def test_lost_answer_of_the_election_is_found_by_the_owner(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[])

        def lose(operations: list[Any], session_id: int) -> None:
            if operations[0].path == CONTROLLER_PATH:
                cluster.before_commit = None
                cluster.brokers[0].store.lose_next_answer()

        cluster.before_commit = lose
        await cluster.add_controller(0)
        await cluster.settle()
        assert cluster.active.broker_id == 0
        assert cluster.active.controller_epoch == 1

    play(scenario)


def test_unreadable_controller_data_leads_to_new_attempts_until_it_is_gone(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, controllers=[])
        await cluster.admin.create(CONTROLLER_PATH, b"{nonsense", ephemeral=True)
        await cluster.add_controller(0)
        await cluster.settle()
        assert not cluster.controllers[0].is_active
        assert cluster.controllers[0].controller_id == -1
        await cluster.admin.delete(CONTROLLER_PATH)
        await cluster.settle()
        assert cluster.active.broker_id == 0

    play(scenario)


@pytest.mark.parametrize("elected_before", [True, False], ids=["in office", "not elected yet"])
def test_a_controller_is_elected_once_the_epoch_can_be_read_again(play: Play, elected_before: bool) -> None:
    """The broker that had been the controller kept `/controller` for ever, and nobody acted."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0, 1] if elected_before else [])
        spoil = SetData if elected_before else Create
        MemoryZooKeeper.commit(cluster.zookeeper, [spoil(CONTROLLER_EPOCH_PATH, b"nonsense")], cluster.admin.session_id)
        if elected_before:
            await cluster.create_topic("t", [0, 1])
        else:
            await cluster.add_controller(0)
        await cluster.settle()
        assert not any(controller.is_active for controller in cluster.controllers.values())
        assert not cluster.exists(CONTROLLER_PATH)
        assert {controller.controller_id for controller in cluster.controllers.values()} == {-1}
        await cluster.admin.set(CONTROLLER_EPOCH_PATH, b"7")
        await cluster.settle(ELECTION_RETRY_MS)
        assert cluster.active.controller_epoch == 8
        if elected_before:
            assert cluster.state("t").leader == 0
            cluster.check_agreement()

    play(scenario)


def test_an_access_list_that_forbids_to_raise_the_epoch_is_named(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """The task of every controller died of it, once a second, each time with a traceback."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        store = cluster.brokers[0].store
        multi = store.multi

        async def forbidden(operations: Sequence[Operation]) -> Sequence[object]:
            raise MultiFailed(1, NotAuthorized(operations[1].path))

        store.multi = forbidden
        await cluster.admin.delete(CONTROLLER_PATH)
        await cluster.settle()
        said = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert {record.getMessage() for record in said} == {f"no election: {CONTROLLER_EPOCH_PATH}: not authorized"}
        assert not any(record.exc_info for record in said)
        store.multi = multi
        await cluster.settle(ELECTION_RETRY_MS)
        assert cluster.active.controller_epoch == 2

    play(scenario)


@pytest.mark.parametrize("path", [topic_path("u"), state_path("u", 0)], ids=["topic", "partition"])
@pytest.mark.parametrize("mended", [True, False], ids=["mended", "removed"])
def test_a_znode_that_cannot_be_read_is_not_said_to_be_gone(play: Play, path: str, mended: bool) -> None:
    """Brokers would take the partition for deleted, and drop what groups have committed for it."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        await cluster.create_topic("t", [0, 1, 2])
        await cluster.create_topic("u", [0, 1, 2])
        good, _ = await cluster.admin.get(path)
        MemoryZooKeeper.commit(cluster.zookeeper, [SetData(path, b"{nonsense", ANY_VERSION)], cluster.admin.session_id)
        cluster.kill(cluster.holder())
        await cluster.settle()
        words = [
            word for word in cluster.brokers[cluster.holder()].of(UpdateMetadataRequest) if word.controller_epoch == 2
        ]
        assert [topic.topic_name for topic in words[0].topic_states] == ["t"]
        assert {word.type for word in words} == {TYPE_INCREMENTAL}
        if mended:
            await cluster.admin.set(path, good)
        else:
            for gone in (state_path("u", 0), partition_path("u", 0), partitions_path("u"), topic_path("u")):
                await cluster.admin.delete(gone)
        await cluster.settle()
        await cluster.add_broker(3)  # partitions without a leader are looked at again
        await cluster.settle()
        told = await cluster.add_broker(4)
        await cluster.settle()
        assert told.received[0].type == TYPE_FULL
        assert {topic.topic_name for topic in told.received[0].topic_states} == ({"t", "u"} if mended else {"t"})
        cluster.check_agreement()

    play(scenario)


def test_a_bug_makes_another_broker_the_controller(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.add_controller(1)

        def broken(*_: Any) -> None:
            raise AssertionError("a bug of ours")

        cluster.channels[0].send = broken
        await cluster.create_topic("t", [2, 1])
        assert not cluster.controllers[0].is_active
        assert cluster.active.broker_id == 1
        assert cluster.tasks.deaths == {"controller": 1}
        cluster.check_agreement()
        del cluster.channels[0].send
        await cluster.settle(2_000)
        assert cluster.controllers[0].controller_id == 1, "it looks again"
        cluster.kill(1)
        await cluster.settle()
        assert cluster.active.broker_id == 0, "and stands again"
        assert cluster.state("t").leader == 2

    play(scenario)


def test_the_only_controller_goes_on_after_a_bug(play: Play, caplog: Any) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, controllers=[0])
        send = cluster.channels[0].send

        def broken(*_: Any) -> None:
            cluster.channels[0].send = send
            raise AssertionError("a bug of ours")

        cluster.channels[0].send = broken
        await cluster.create_topic("t", [0])
        assert not cluster.controllers[0].is_active and cluster.controllers[0].controller_id == -1
        await cluster.settle(2_000)
        assert (cluster.active.broker_id, cluster.active.controller_epoch) == (0, 2)
        assert cluster.state("t").leader == 0
        cluster.check_agreement()

    play(scenario)
    assert [r.levelname for r in caplog.records if "task controller has died" in r.getMessage()] == ["ERROR"]


def test_a_request_that_meets_a_bug_is_not_taken_from_controller_to_controller(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, controllers=[0])
        with pytest.raises(KafkaError) as refused:
            await cluster.active.alter_reassignments(None)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        await cluster.settle(2_000)
        assert cluster.active.controller_epoch == 2

    play(scenario)


@pytest.mark.parametrize("name", ["9" * 5000, "99999999999", "٣", "-1", "x"])
def test_a_name_among_the_brokers_that_is_no_number_is_nobodys(play: Play, name: str) -> None:
    """Whoever may write to ZooKeeper may make one: the cluster had no controller as long as it was there."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        store = cluster.brokers[0].store
        await store.create(f"{BROKER_IDS_PATH}/{name}", b"{}")
        await cluster.settle()
        await cluster.create_topic("t", [1, 0])
        assert (cluster.active.broker_id, cluster.active.controller_epoch) == (0, 1)
        cluster.kill(1)
        await cluster.settle()
        assert cluster.state("t").leader == 0
        cluster.check_agreement()

    play(scenario)


def test_deleting_the_controller_znode_forces_an_election(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1)
        await cluster.admin.delete(CONTROLLER_PATH)
        await cluster.settle()
        assert cluster.active.controller_epoch == 2
        assert [c.is_active for c in cluster.controllers.values()].count(True) == 1

    play(scenario)


def test_brokers_that_refuse_an_epoch_have_it_raised(play: Play) -> None:
    """`/controller_epoch` was deleted, and a broker elected that has just been started: it knew no later epoch than 1.
    In Kafka all others refuse it until they are restarted."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(1, 2, 3, controllers=())
        for refusing in (2, 3):
            cluster.brokers[refusing].controller_epoch = 1000
        await cluster.add_controller(1)
        await cluster.settle()
        await cluster.create_topic("t", [2, 3])
        assert cluster.active.controller_epoch > 1000
        assert cluster.brokers[2].led() == {TopicPartition("t", 0)}
        cluster.check_agreement()

    play(scenario)


def test_an_epoch_before_that_of_a_written_state_is_left_at_once(play: Play) -> None:
    """Elections in such partitions failed for ever: "its state was written by a later controller"."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(1, 2, 3, controllers=[1])
        await cluster.create_topic("t", [2, 3])
        state = replace(cluster.state("t"), controller_epoch=70)
        await cluster.admin.set(state_path("t", 0), state.encode())
        await cluster.admin.delete(CONTROLLER_PATH)
        await cluster.settle()
        assert cluster.active.controller_epoch == 71
        cluster.kill(2)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").controller_epoch) == (3, 71)

    play(scenario)


def test_the_last_epoch_of_all_cannot_be_passed(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """Any client that may send a LeaderAndIsr can send it: the broker refuses all until it is restarted, as in Kafka,
    and the others are led on, after few elections."""
    caplog.set_level(logging.INFO)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(1, 2, 3, controllers=())
        cluster.brokers[3].controller_epoch = EPOCH_MAX
        await cluster.add_controller(1)
        await cluster.settle()
        for topic in ("t", "u", "v"):
            await cluster.create_topic(topic, [2, 3])
        assert cluster.active.controller_epoch == EPOCH_MAX // 2 + 1
        assert cluster.brokers[2].led() == {TopicPartition(topic, 0) for topic in ("t", "u", "v")}
        assert caplog.text.count("is the controller, epoch") == 9
        assert caplog.text.count("until it is restarted") == 1
        assert "broker 3 has obeyed a later controller" in caplog.text and "refuses LeaderAndIsr" not in caplog.text

    play(scenario)


def test_a_broker_of_kafka_that_has_been_told_already_is_no_trouble(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers so in each rolling upgrade, for each partition: "broker 0 refuses LeaderAndIsr for t-0: 11"."""
    caplog.set_level(logging.INFO)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(1, 2, controllers=[1])
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[2].refuses_repetitions = True
        asked = len(cluster.brokers[2].of(LeaderAndIsrRequest))
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), sequential=True)
        await cluster.settle()
        assert len(cluster.brokers[2].of(LeaderAndIsrRequest)) == asked + 1
        assert "refuses" not in caplog.text

    play(scenario)


def test_a_broker_that_refuses_everything_is_named_once_in_each_of_its_lives(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Each change of a partition that it has was one more line."""

    def refusals() -> list[str]:
        return [record.getMessage() for record in caplog.records if "refuses" in record.getMessage()]

    async def scenario(cluster: Any) -> None:
        await cluster.begin(1, 2, 3, controllers=[1])
        for life in (1, 2):
            cluster.brokers[3].refuses_all_with = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            for topic in ("t", "u", "v"):
                await cluster.create_topic(f"{topic}{life}", [2, 3])
            told = refusals()
            assert len(told) == life and "broker 3" in told[-1] and "ClusterAction" in told[-1]
            cluster.kill(3)
            await cluster.settle()
            await cluster.add_broker(3)

    play(scenario)
