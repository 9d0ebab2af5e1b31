"""What a broker is told by leader epoch and topic id: what is over changes nothing, what is new is begun anew."""

import errno

import pytest

from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.controller_requests import StoppedReplica
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from odradek.testing.embedded import EmbeddedCluster
from tests.broker.replication.one_broker import state, with_broker


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
        error = services.controller_requests.apply("t", b"another id......", state(0, 9))
        assert error is ErrorCode.INCONSISTENT_TOPIC_ID
        assert (partition.topic_id, partition.leader_epoch) == (topic_id, former)

    with_broker(scenario)
