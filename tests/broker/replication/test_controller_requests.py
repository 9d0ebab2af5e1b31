"""LeaderAndIsr and StopReplica on brokers: disks that fail under a deletion, requests that overtake one another."""

import asyncio
import errno
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from odradek.broker.cluster.controller_messages import StoppedReplica
from odradek.broker.log.checkpoint_format import HIGH_WATERMARKS, decode_offsets
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.replication.controller_fences import DELETED_REMEMBERED_MAX, DeletedReplicas
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.requests import leader_and_isr, stop_replica
from odradek.broker.server import StartFailure
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.protocol.messages.update_metadata import (
    LEADER_DURING_DELETE,
    TYPE_INCREMENTAL,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path
from tests.broker.replication.one_broker import state, with_broker

CONTEXT = RequestContext(7, "controller", "broker-0:1", "PLAINTEXT", connection=100)


def fail_when_setting_aside(cluster: EmbeddedCluster) -> None:
    def rename(old: str, new: str) -> None:
        raise OSError(errno.EIO, "the disk has failed", old)

    cluster.brokers[0].files.rename = rename  # type: ignore[method-assign]


def test_a_log_that_cannot_be_deleted_is_a_storage_error_however_often_it_is_asked() -> None:
    """The second time it was 'deleted': the topic's znodes went, and the disk came back with a topic nobody knew."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        fail_when_setting_aside(cluster)
        deletion = StoppedReplica("t", 0, -2, delete=True)
        answers = [services.controller_requests.stop(deletion) for _ in range(3)]
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert not services.controller_requests.stop(StoppedReplica("unknown", 0, -2, delete=True))

    with_broker(scenario)


def test_a_new_isr_under_the_same_leader_epoch_wakes_no_fetch_of_a_follower() -> None:
    """A follower's fetch looks at thousands of partitions whenever it is woken, and was for each of them."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        heard: list[str] = []
        for name in ("appended", "advanced", "low_watermark_moved"):
            services.replicas.purgatory.listen(getattr(partition, name), partial(heard.append, name))
        for leader_epoch, wakes in ((0, 2), (1, 3)):
            state = LeaderAndIsrPartitionState(
                partition_index=0, leader=0, leader_epoch=leader_epoch, isr=[0], partition_epoch=1, replicas=[0, 1]
            )
            assert services.controller_requests.apply("t", partition.topic_id, state) is ErrorCode.NONE
            assert len(set(heard)) == wakes and ("appended" in heard) == (wakes == 3), heard

    with_broker(scenario)


def test_without_a_session_nothing_is_led_at_once_and_who_waits_hears_of_it_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of a session held the loop of a broker that led thousands for a third of a second."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        replicas, first = services.replicas, services.replicas.partitions["t", 0]
        view = PartitionView(0, 7, (0,), 7, (0,))
        for index in range(1, 4):
            replicas.partitions["t", index] = more = Partition("t", index, 0, first.log)
            more.lead(view, 0.0)
        heard: list[int] = []
        led = [partition for partition in replicas.partitions.values() if partition.is_leader]
        for partition in led:
            replicas.purgatory.listen(partition.appended, partial(heard.append, partition.index))
        monkeypatch.setattr(TimeSlice, "is_over", True)
        assert replicas.stop_leading_all() == led and not any(partition.is_leader for partition in led)
        assert len(heard) == 1
        await asyncio.sleep(0.1)
        assert heard == [partition.index for partition in led] and len(led) >= 3
        for index in range(1, 4):
            del replicas.partitions["t", index]

    with_broker(scenario)


OF_ANOTHER_TOPIC = b"another topic's!"


@pytest.mark.parametrize(
    ("told", "is_there"),
    [
        ({}, False),
        ({"leader_epoch": 0}, True),
        ({"replicas": [0, 1]}, True),
        ({"isr": [0, 1]}, True),
        ({"topic_id": OF_ANOTHER_TOPIC}, True),
        ({"topic_id": ZERO_UUID}, True),
        ({"isr": [0, 1], "leader": LEADER_DURING_DELETE, "leader_epoch": 0}, False),
        ({"replicas": [0, 1], "leader": LEADER_DURING_DELETE}, True),
        ({"topic_id": OF_ANOTHER_TOPIC, "leader": LEADER_DURING_DELETE}, True),
        ({"topic_id": ZERO_UUID, "isr": [0, 1], "leader": LEADER_DURING_DELETE}, True),
    ],
)
def test_a_replica_that_was_moved_away_unheard_is_deleted_when_the_next_controller_names_the_others(
    told: dict[str, Any], is_there: bool
) -> None:
    """The controller that had moved it died before its StopReplica was through: the broker led the partition for ever.
    What is in doubt stays: an old word, another topic, a replica that the ISR counts on."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        states: dict[str, Any] = {"leader": 1, "leader_epoch": 1, "isr": [1], "replicas": [1]} | told
        topic_id = states.pop("topic_id", partition.topic_id)
        topic = UpdateMetadataTopicState(
            topic_name="t", topic_id=topic_id, partition_states=[UpdateMetadataPartitionState(**states)]
        )
        request = UpdateMetadataRequest(type=TYPE_INCREMENTAL, controller_epoch=2, topic_states=[topic])
        services.controller_requests.update_metadata(request)
        assert (("t", 0) in services.replicas.partitions) is is_there
        assert (services.logs.get("t", 0) is not None) is is_there
        late = LeaderAndIsrPartitionState(leader=0, leader_epoch=0, isr=[0], replicas=[0])
        if not is_there and states["leader_epoch"]:
            error = services.controller_requests.apply("t", partition.topic_id, late)
            assert error is ErrorCode.STALE_CONTROLLER_EPOCH, "nor does an older word make it anew"

    with_broker(scenario)


@pytest.mark.parametrize("topic_id", [None, OF_ANOTHER_TOPIC])
def test_a_topic_that_the_metadata_has_forgotten_takes_no_records_before_its_replicas_are_stopped(
    topic_id: bytes | None,
) -> None:
    """DeleteTopics had been answered, and a record that came after it was acknowledged and gone."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        deleted = UpdateMetadataPartitionState(leader=LEADER_DURING_DELETE, isr=[0], replicas=[0])
        topic = UpdateMetadataTopicState(
            topic_name="t", topic_id=topic_id or partition.topic_id, partition_states=[deleted]
        )
        services.controller_requests.update_metadata(
            UpdateMetadataRequest(type=TYPE_INCREMENTAL, controller_epoch=2, topic_states=[topic])
        )
        assert services.logs.get("t", 0) is not None, "its files remain until StopReplica comes"
        assert partition.is_leader is (topic_id is not None)
        if topic_id is None:
            with pytest.raises(KafkaError) as refused:
                services.replicas.led("t", 0)
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(scenario)


def test_a_topic_whose_deletion_waits_is_led_again_only_when_the_metadata_has_it_again() -> None:
    """A new controller tells all brokers of all replicas, and a deletion may wait for a broker that is dead: records
    of the deleted topic were acknowledged again, and a proposal for its ISR was forgotten, but carried out. A
    controller with `delete.topic.enable=false` gives up the deletion."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition, requests = services.replicas.partitions["t", 0], services.controller_requests
        replica = LeaderAndIsrPartitionState(leader=0, leader_epoch=partition.leader_epoch, isr=[0], replicas=[0])
        led = []
        for leader in (LEADER_DURING_DELETE, 0):
            told = UpdateMetadataPartitionState(leader=leader, isr=[0], replicas=[0])
            topic = UpdateMetadataTopicState(topic_name="t", topic_id=partition.topic_id, partition_states=[told])
            requests.update_metadata(
                UpdateMetadataRequest(type=TYPE_INCREMENTAL, controller_epoch=2, topic_states=[topic])
            )
            assert requests.apply("t", partition.topic_id, replica) is ErrorCode.NONE
            led.append(partition.is_leader)
        assert led == [False, True]

    with_broker(scenario)


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_late_leader_and_isr_makes_no_replica_of_a_topic_that_was_deleted(made_anew: bool) -> None:
    """Its leader epoch is the one in which the replica was deleted: the replica was there again, even as the leader,
    and stood in the way of the one of a topic that was made anew."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        former, requests = services.replicas.partitions["t", 0], services.controller_requests
        replica = LeaderAndIsrPartitionState(leader=0, leader_epoch=former.leader_epoch, isr=[0], replicas=[0])
        for topic_id, leader in ((former.topic_id, LEADER_DURING_DELETE), (OF_ANOTHER_TOPIC, 0))[: 1 + made_anew]:
            told = UpdateMetadataPartitionState(leader=leader, isr=[0], replicas=[0])
            topic = UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=[told])
            requests.update_metadata(
                UpdateMetadataRequest(type=TYPE_INCREMENTAL, controller_epoch=2, topic_states=[topic])
            )
        assert requests.stop(StoppedReplica("t", 0, -2, delete=True)) is ErrorCode.NONE
        assert requests.apply("t", former.topic_id, replica) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert services.logs.get("t", 0) is None
        if made_anew:
            assert requests.apply("t", OF_ANOTHER_TOPIC, replica) is ErrorCode.NONE

    with_broker(scenario)


@pytest.mark.parametrize("told", [{"leader": 1, "leader_epoch": 9}, {"leader": LEADER_DURING_DELETE}])
def test_a_late_word_of_an_earlier_topic_of_the_name_deletes_nothing_where_topics_have_no_ids(
    told: dict[str, Any],
) -> None:
    """Controllers of Kafka before 2.8 know no ids: a topic that was made anew here, with less leader epochs than the
    one before it, was deleted by a second copy of what had been said of that one."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        services.replicas.partitions["t", 0].topic_id = ZERO_UUID
        states = [UpdateMetadataPartitionState(topic_name="t", isr=[1], replicas=[1], **told)]
        request = UpdateMetadataRequest(controller_epoch=1, ungrouped_partition_states=states)
        services.controller_requests.update_metadata(request)
        assert ("t", 0) in services.replicas.partitions and services.logs.get("t", 0) is not None

    with_broker(scenario)


def test_so_is_one_that_no_controller_has_spoken_of_before() -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        services.logs.get_or_create("old", 0, b"o" * 16, is_new=True)
        fail_when_setting_aside(cluster)
        deletion = StoppedReplica("old", 0, -2, delete=True)
        answers = [services.controller_requests.stop(deletion) for _ in range(2)]
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    with_broker(scenario)


def test_a_deletion_waits_for_the_end_of_what_the_controller_said_before() -> None:
    """A LeaderAndIsr whose connection had broken went on while the deletion that came after it was carried out, and
    made anew what had just been deleted."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        epoch, count = services.controller_requests.controller_epoch, 50
        states = [
            LeaderAndIsrPartitionState(
                topic_name="many", partition_index=index, controller_epoch=epoch, leader=0, leader_epoch=0, isr=[0],
                partition_epoch=0, replicas=[0], is_new=True,
            )
            for index in range(count)
        ]  # fmt: skip
        told = LeaderAndIsrRequest(
            controller_id=0, controller_epoch=epoch, broker_epoch=-1,
            topic_states=[LeaderAndIsrTopicState(topic_name="many", topic_id=b"m" * 16, partition_states=states)],
        )  # fmt: skip
        deleted = StopReplicaRequest(
            controller_id=0, controller_epoch=epoch, broker_epoch=-1,
            topic_states=[
                StopReplicaTopicState(
                    topic_name="many",
                    partition_states=[
                        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
                        for index in range(count)
                    ],
                )
            ],
        )  # fmt: skip
        held = asyncio.Event()

        async def learn(topics: object) -> None:
            await held.wait()

        services.learn_topic_settings = learn
        applying = asyncio.create_task(_answer(leader_and_isr.handle(services, told, CONTEXT)))
        deleting = asyncio.create_task(_answer(stop_replica.handle(services, deleted, CONTEXT)))
        await asyncio.sleep(1.0)
        held.set()
        await asyncio.gather(applying, deleting)
        assert not [key for key in services.replicas.partitions if key[0] == "many"]
        assert not [log for log in services.logs.all_logs() if log.topic == "many"]

    with_broker(scenario)


def test_a_replica_that_was_moved_away_is_not_made_anew_by_what_the_controller_said_before() -> None:
    """A LeaderAndIsr of leader epoch 7 came once more after the deletion in epoch 9: the broker led an empty log."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests, topic_id = services.controller_requests, b"m" * 16
        assert requests.apply("moved", topic_id, state(0, 7)) is ErrorCode.NONE
        assert requests.stop(StoppedReplica("moved", 0, 9, delete=True)) is ErrorCode.NONE
        for leader_epoch in (7, 8):
            assert requests.apply("moved", topic_id, state(0, leader_epoch)) is ErrorCode.STALE_CONTROLLER_EPOCH
        assert services.logs.get("moved", 0) is None and ("moved", 0) not in services.replicas.partitions
        assert requests.apply("moved", topic_id, state(1, 7)) is ErrorCode.NONE, "another partition"
        assert requests.apply("moved", topic_id, state(0, 10)) is ErrorCode.NONE, "it has come back"
        assert requests.stop(StoppedReplica("moved", 0, 10, delete=False)) is ErrorCode.NONE
        assert requests.apply("moved", topic_id, state(0, 11)) is ErrorCode.NONE, "it was stopped and is still there"

    with_broker(scenario)


def test_a_leader_whose_log_is_newer_than_zookeeper_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests = services.controller_requests
        assert requests.apply("old", b"o" * 16, state(0, 9)) is ErrorCode.NONE
        services.replicas.append(services.replicas.led("old", 0), make_batch([b"x"]), 1)
        for epoch, said in ((9, False), (10, False), (8, True)):
            services.replicas.partitions["old", 0].leader_epoch = -1  # as after a restart
            assert requests.apply("old", b"o" * 16, state(0, epoch)) is ErrorCode.NONE
            assert ("ZooKeeper's data is older than the logs" in caplog.text) == said

    with_broker(scenario)


class Looked(dict[Any, Any]):
    """Counts the keys that somebody goes through."""

    count = 0

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self.count += 1
            yield key


def test_a_replica_is_deleted_without_a_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deletion went through all that were left: a topic of 10,000 partitions through fifty millions. A topic's
    counters go with its last replica."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests, replicas = services.controller_requests, services.replicas
        partitions = Looked(replicas.partitions)
        monkeypatch.setattr(replicas, "partitions", partitions)
        for again in range(2):
            for index in range(20):
                for topic in ("wide", "other"):
                    assert requests.apply(topic, ZERO_UUID, state(index, again)) is ErrorCode.NONE
            before = partitions.count
            for index in range(20):
                assert {"wide", "other"} <= replicas.traffic.topics.keys()
                assert requests.stop(StoppedReplica("wide", index, -2, delete=True)) is ErrorCode.NONE
            assert partitions.count == before
            assert "wide" not in replicas.traffic.topics and "other" in replicas.traffic.topics

    with_broker(scenario)


def test_a_topic_made_again_under_its_old_name_begins_at_the_first_leader_epoch() -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests = services.controller_requests
        for former, later in ((b"a" * 16, b"b" * 16), (ZERO_UUID, ZERO_UUID)):
            assert requests.apply("again", former, state(0, 5)) is ErrorCode.NONE
            assert requests.stop(StoppedReplica("again", 0, -2, delete=True)) is ErrorCode.NONE
            assert requests.apply("again", later, state(0, 0)) is ErrorCode.NONE
            assert requests.stop(StoppedReplica("again", 0, -2, delete=True)) is ErrorCode.NONE
        assert requests.apply("again", b"a" * 16, state(0, 5)) is ErrorCode.NONE, "its deletion was called off"
        assert requests.stop(StoppedReplica("again", 0, -2, delete=True)) is ErrorCode.NONE
        assert requests.apply("again", b"a" * 16, state(0, 4)) is ErrorCode.STALE_CONTROLLER_EPOCH

    with_broker(scenario)


def test_no_more_than_a_number_of_deleted_replicas_is_remembered() -> None:
    deleted, topic_id = DeletedReplicas(), b"m" * 16
    for index in range(DELETED_REMEMBERED_MAX + 1):
        deleted.note(topic_id, index, 3)
    assert not deleted.deleted_after(topic_id, 0, 2) and deleted.deleted_after(topic_id, 1, 2)
    assert not deleted.deleted_after(topic_id, 1, 3)


async def _answer(outcome: object) -> Reply:
    assert asyncio.iscoroutine(outcome)
    reply = await outcome
    assert isinstance(reply, Reply)
    return reply


def test_high_watermarks_outlive_a_start_in_which_no_controller_speaks() -> None:
    """The file was written without them: a follower whose log has no leader epochs then dropped all that it had,
    while it was in the ISR (KAFKA-1647)."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        broker = cluster.brokers[0]
        partition = services.replicas.led("t", 0)
        services.replicas.append(partition, make_batch([b"1", b"2", b"3"]), -1)
        path = f"{partition.log.log_directory}/{HIGH_WATERMARKS}"
        await broker.stop()
        assert decode_offsets(broker.files.read(path)) == {("t", 0): 3}
        other = cluster.zookeeper.connect(session_timeout_ms=60_000, clock=broker.clock)
        await other.start(60_000)
        elsewhere = BrokerRegistration(0, (Endpoint("PLAINTEXT", "elsewhere", 1),))
        await other.create(broker_path(0), elsewhere.encode(), ephemeral=True)
        with pytest.raises(StartFailure, match="in use"):
            await broker.start()
        assert decode_offsets(broker.files.read(path)) == {("t", 0): 3}
        await other.close()
        await broker.start()

    with_broker(scenario)


def test_a_high_watermark_that_is_taken_back_while_its_checkpoint_waits_is_not_written() -> None:
    """A slow disk wrote it after all, behind the checkpoint that had lowered it: the next start believed it."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        broker, partition = cluster.brokers[0], services.replicas.led("t", 0)
        services.replicas.append(partition, make_batch([b"1", b"2", b"3"]), -1)
        broker.disk_latency_ms = (500.0, 500.0)
        for _ in range(2):  # the second waits for the first
            broker.server._checkpoint_watermarks()
        partition.truncate_to(0)
        services.replicas.append(partition, make_batch([b"4"]), -1)
        await asyncio.sleep(1.5)
        path = f"{partition.log.log_directory}/{HIGH_WATERMARKS}"
        assert decode_offsets(broker.files.read(path)) == {("t", 0): 1}

    with_broker(scenario)


def test_a_topic_id_that_a_later_controller_gives_is_on_the_disk_at_once() -> None:
    """The first controller of a cluster that knows ids gives them to the topics that are there. The broker wrote it
    down after its next start only: a topic of that name made anew meanwhile was given the records of the former one."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests = services.controller_requests
        for leader_epoch, topic_id in enumerate((ZERO_UUID, OF_ANOTHER_TOPIC)):
            replica = LeaderAndIsrPartitionState(
                leader=0, leader_epoch=leader_epoch, isr=[0], replicas=[0], is_new=topic_id == ZERO_UUID
            )
            assert requests.apply("old", topic_id, replica) is ErrorCode.NONE
        assert services.logs.topic_id("old", 0) == OF_ANOTHER_TOPIC

    with_broker(scenario)
