"""What a broker is told by leader epoch and topic id: what is over changes nothing, what is new is begun anew."""

import asyncio
import errno

import pytest

from odradek.broker.cluster.controller_messages import StoppedReplica
from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.messages.update_metadata import (
    TYPE_FULL,
    TYPE_INCREMENTAL,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from tests.broker.replication.one_broker import state, with_broker

OF_ANOTHER_TOPIC = b"another id......"


@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize(("leader_epoch", "obeyed"), [(4, False), (5, True), (-1, True), (-2, True)])
def test_what_is_to_stop_by_an_older_leader_epoch_goes_on(leader_epoch: int, obeyed: bool, delete: bool) -> None:
    """A request that comes late. -1: none is named; -2: the topic is being deleted, whatever the epoch."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        partition.lead(PartitionView(0, 5, (0,), 7, (0,)), 0.0)
        error = services.controller_requests.stop(StoppedReplica("t", 0, leader_epoch, delete=delete))
        assert error is (ErrorCode.NONE if obeyed else ErrorCode.FENCED_LEADER_EPOCH)
        assert partition.is_leader is not obeyed
        assert (("t", 0) in services.replicas.partitions) is not (obeyed and delete)

    with_broker(scenario)


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "replicas", "error"),
    [
        (4, 9, [0, 1], ErrorCode.STALE_CONTROLLER_EPOCH),
        (5, 2, [0, 1], ErrorCode.STALE_CONTROLLER_EPOCH),
        (6, 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (5, 3, [0, 1], ErrorCode.NONE),
        (6, 0, [0, 1], ErrorCode.NONE),
    ],
)
def test_a_state_that_is_older_or_meant_for_others_changes_nothing(
    leader_epoch: int, partition_epoch: int, replicas: list[int], error: ErrorCode
) -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        partition.lead(PartitionView(0, 5, (0,), 3, (0,)), 0.0)
        told = LeaderAndIsrPartitionState(
            partition_index=0, leader=1, leader_epoch=leader_epoch, isr=[1], partition_epoch=partition_epoch,
            replicas=replicas,
        )  # fmt: skip
        assert services.controller_requests.apply("t", partition.topic_id, told) is error
        now = (partition.is_leader, partition.leader_epoch, partition.partition_epoch)
        assert now == ((True, 5, 3) if error else (False, leader_epoch, partition_epoch))

    with_broker(scenario)


@pytest.mark.parametrize("how", ["it is stopped", "it is deleted", "another leads"])
def test_who_leads_a_coordinators_partition_no_more_coordinates_no_more(how: str) -> None:
    """Two brokers would answer for one group, and each take its members' offsets."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        await services.auto_create_topic(CONSUMER_OFFSETS)
        while not services.groups.serves_partition(0):
            await asyncio.sleep(0.05)
        partition = services.replicas.partitions[CONSUMER_OFFSETS, 0]
        if how == "another leads":
            told = state(0, partition.leader_epoch + 1)
            told.leader, told.replicas = 1, [0, 1]
            assert services.controller_requests.apply(CONSUMER_OFFSETS, partition.topic_id, told) is ErrorCode.NONE
        else:
            stopped = StoppedReplica(CONSUMER_OFFSETS, 0, -1, delete=how == "it is deleted")
            assert services.controller_requests.stop(stopped) is ErrorCode.NONE
        assert not services.groups.serves_partition(0)

    with_broker(scenario)


def test_a_leader_of_a_new_epoch_is_followed_anew_and_one_told_again_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was told that its epoch is over asks that leader no more, until there is another epoch."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition, followed = services.replicas.partitions["t", 0], list[int]()
        fetchers = services.controller_requests._fetchers
        monkeypatch.setattr(fetchers, "follow", lambda one: followed.append(one.leader_epoch))
        for leader, leader_epoch, partition_epoch in ((9, 5, 5), (9, 5, 5), (9, 5, 6), (9, 6, 7), (8, 7, 8)):
            state = LeaderAndIsrPartitionState(
                partition_index=0, leader=leader, leader_epoch=leader_epoch, isr=[leader],
                partition_epoch=partition_epoch, replicas=[0, 8, 9],
            )  # fmt: skip
            assert services.controller_requests.apply("t", partition.topic_id, state) is ErrorCode.NONE
        assert followed == [5, 6, 7]

    with_broker(scenario)


def test_a_former_leader_that_cannot_drop_what_is_unconfirmed_resigns_and_follows_when_it_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its coordinators went on. Nobody told it again, as no disk had failed and only a file could not be opened; and if
    somebody had, it would have believed that it followed."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests, partition = services.controller_requests, services.replicas.partitions["t", 0]
        resigned, followed, failing = list[int](), list[Partition](), [True, False]

        def drop_unconfirmed(dropping: Partition) -> None:
            if failing.pop(0):
                raise StorageFailure(dropping.log.log_directory, OSError(errno.EMFILE, "too many open files"))

        monkeypatch.setattr(Partition, "drop_unconfirmed", drop_unconfirmed)
        monkeypatch.setattr(requests._coordinators, "on_resigned", lambda topic, index: resigned.append(index))
        monkeypatch.setattr(requests._fetchers, "follow", followed.append)
        state = LeaderAndIsrPartitionState(leader=9, leader_epoch=5, isr=[9], partition_epoch=5, replicas=[0, 9])
        assert requests.apply("t", partition.topic_id, state) is ErrorCode.KAFKA_STORAGE_ERROR
        assert (resigned, followed, requests.lacks_room) == ([0], [], True)
        assert requests.apply("t", partition.topic_id, state) is ErrorCode.NONE
        assert (resigned, followed) == ([0], [partition])

    with_broker(scenario)


def test_a_topic_of_another_id_is_not_given_the_log_of_its_namesake() -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        partition = services.replicas.partitions["t", 0]
        topic_id, former = partition.topic_id, partition.leader_epoch
        error = services.controller_requests.apply("t", OF_ANOTHER_TOPIC, state(0, 9))
        assert error is ErrorCode.INCONSISTENT_TOPIC_ID
        assert (partition.topic_id, partition.leader_epoch) == (topic_id, former)

    with_broker(scenario)


@pytest.mark.parametrize("led_first", [False, True])
def test_a_replica_of_a_topic_whose_name_another_has_makes_way(led_first: bool) -> None:
    """It had been moved to other brokers and its topic deleted while this broker was away, and the topic was made anew:
    the broker refused the replica of that until it was started again, also as its leader."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests, former = services.controller_requests, services.replicas.partitions["t", 0]
        services.replicas.append(services.replicas.led("t", 0), make_batch([b"kept"]), 1)
        directory, where = former.log.log_directory, cluster.brokers[0].files
        if led_first:
            topic = LeaderAndIsrTopicState(topic_name="t", topic_id=OF_ANOTHER_TOPIC)
            services.metadata.learn_ids(LeaderAndIsrRequest(controller_epoch=2, topic_states=[topic]))
            assert requests.apply("t", OF_ANOTHER_TOPIC, state(0, 0)) is ErrorCode.INCONSISTENT_TOPIC_ID
        told = UpdateMetadataPartitionState(leader=0, isr=[0], replicas=[0])
        topics = [UpdateMetadataTopicState(topic_name="t", topic_id=OF_ANOTHER_TOPIC, partition_states=[told])]
        requests.update_metadata(UpdateMetadataRequest(type=TYPE_FULL, controller_epoch=2, topic_states=topics))
        assert requests.apply("t", OF_ANOTHER_TOPIC, state(0, 0)) is ErrorCode.NONE
        assert services.replicas.led("t", 0).log.log_end_offset == 0
        (stray,) = [name for name in where.list_directory(directory) if name.endswith("-stray")]
        assert where.read(f"{directory}/{stray}/{0:020d}.log").endswith(b"kept\x00"), "for people to look at"
        requests.update_metadata(UpdateMetadataRequest(type=TYPE_INCREMENTAL, controller_epoch=2, topic_states=topics))
        assert services.replicas.led("t", 0).topic_id == OF_ANOTHER_TOPIC

    with_broker(scenario)


def test_so_does_one_of_a_topic_that_was_deleted_unheard() -> None:
    """What the metadata lacks is deleted, and its replica stayed, for nobody had said that it is not one any more."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        requests, former = services.controller_requests, services.replicas.partitions["t", 0]
        services.replicas.append(services.replicas.led("t", 0), make_batch([b"kept"]), 1)
        requests.update_metadata(UpdateMetadataRequest(type=TYPE_FULL, controller_epoch=2))
        assert requests.apply("t", OF_ANOTHER_TOPIC, state(0, 0)) is ErrorCode.NONE
        assert services.replicas.led("t", 0).log.log_end_offset == 0
        assert requests.apply("t", former.topic_id, state(0, 9)) is ErrorCode.INCONSISTENT_TOPIC_ID, "one that is late"
        assert services.replicas.led("t", 0).topic_id == OF_ANOTHER_TOPIC
        services.metadata.deleted_ids[OF_ANOTHER_TOPIC] = None
        assert requests.apply("t", former.topic_id, state(0, 9)) is ErrorCode.INCONSISTENT_TOPIC_ID, "both are deleted"

    with_broker(scenario)
