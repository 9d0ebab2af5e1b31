"""AlterPartition: what the controller accepts, and races."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.zk_schema.store import ANY_VERSION, MultiFailed, NoNode, NotAuthorized, SetData, StoreError
from odradek.zk_schema.znodes.topics import PartitionState, state_path
from tests.controller.conftest import Play


def request(cluster: Any, isr: list[Any], version: int = 3, **changes: Any) -> AlterPartitionRequest:
    """Of broker 1, the leader of t-0, proposing an ISR (of ids, or of (id, epoch))."""
    state = cluster.active.state
    members = [m if isinstance(m, tuple) else (m, cluster.brokers[m].epoch) for m in isr]
    partition = PartitionData(
        partition_index=changes.get("partition", 0),
        leader_epoch=changes.get("leader_epoch", cluster.state("t").leader_epoch),
        new_isr=[broker for broker, _ in members] if version < 3 else [],
        new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in members] if version >= 3 else [],
        leader_recovery_state=changes.get("recovery", 0),
        partition_epoch=changes.get("partition_epoch", cluster.version("t")),
    )
    topic = TopicData(topic_id=changes.get("topic_id", state.topic_ids["t"]), partitions=[partition])
    if version < 2:
        topic = TopicData(topic_name="t", partitions=[partition])
    broker_id = changes.get("broker_id", 1)
    epoch = changes.get("broker_epoch", cluster.brokers[broker_id].epoch)
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[topic])


async def propose(cluster: Any, isr: list[Any], version: int = 3, **changes: Any) -> Any:
    asked = request(cluster, isr, version, **changes)
    response = await cluster.active.alter_partition(asked, version)
    assert response.error_code == 0
    (topic,) = response.topics
    assert (topic.topic_id, topic.topic_name) == (asked.topics[0].topic_id, asked.topics[0].topic_name)
    (answer,) = topic.partitions
    return answer


def test_shrink_and_expand_go_out_as_metadata_only(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        told = len(cluster.brokers[2].of(LeaderAndIsrRequest))
        answer = await propose(cluster, [1, 0])
        assert (answer.error_code, answer.isr, answer.partition_epoch, answer.leader_epoch) == (0, [1, 0], 1, 0)
        assert cluster.state("t").isr == (1, 0)
        answer = await propose(cluster, [1, 0, 2])
        assert answer.partition_epoch == 2
        await cluster.settle()
        assert len(cluster.brokers[2].of(LeaderAndIsrRequest)) == told
        assert cluster.brokers[2].of(UpdateMetadataRequest)[-1].topic_states[0].partition_states[0].isr == [1, 0, 2]
        cluster.check_agreement()

    play(scenario)


@pytest.mark.parametrize(
    ("isr", "version", "changes", "error"),
    [
        ([1, 2], 3, {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], 3, {"partition_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ([1, 2], 3, {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2], 3, {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], 3, {"partition": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1, 2], 3, {"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1, 2], 3, {"broker_id": 2}, ErrorCode.INVALID_REQUEST),  # not the leader
        ([2, 0], 3, {}, ErrorCode.INVALID_REQUEST),  # without itself
        ([1, 2, 2], 3, {}, ErrorCode.INVALID_REQUEST),
        ([1, 3], 3, {}, ErrorCode.INVALID_REQUEST),  # 3 does not hold the partition
        ([1, 2], 3, {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ([1], 3, {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ([1, (2, 1)], 3, {}, ErrorCode.INELIGIBLE_REPLICA),  # an earlier life of broker 2
        ([1, (2, -1)], 3, {}, ErrorCode.NONE),
        ([1, 2], 2, {}, ErrorCode.NONE),
        ([1, 2], 1, {}, ErrorCode.NONE),
        ([1, 2], 0, {}, ErrorCode.NONE),
    ],
)
def test_verdicts(play: Play, isr: list[Any], version: int, changes: dict[str, Any], error: ErrorCode) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        await propose(cluster, [1])
        before = cluster.version("t")
        answer = await propose(cluster, isr, version, **changes)
        assert answer.error_code == error
        assert cluster.version("t") == before + (error is ErrorCode.NONE)

    play(scenario)


@pytest.mark.parametrize("version", range(4))
def test_each_partition_is_answered_with_its_state_or_an_error(play: Play, version: int) -> None:
    """Partitions of one topic together, whose leader may have been elected since it was told last."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0], [2, 1, 0], [2, 1])
        cluster.kill(2)
        await cluster.settle()
        asked = request(cluster, [1], version, partition=1, leader_epoch=1, partition_epoch=1)
        for partition, epoch in ((0, 9), (7, 0)):
            again = request(cluster, [1], version, partition=partition, leader_epoch=0, partition_epoch=epoch)
            asked.topics[0].partitions += again.topics[0].partitions
        [topic] = (await cluster.active.alter_partition(asked, version)).topics
        assert (topic.topic_name, topic.topic_id) == (asked.topics[0].topic_name, asked.topics[0].topic_id)
        changed, *refused = sorted(topic.partitions, key=lambda one: one.error_code)
        assert (changed.partition_index, changed.leader_id, changed.leader_epoch) == (1, 1, 1)
        assert (changed.isr, changed.partition_epoch, changed.leader_recovery_state) == ([1], 2, 0)
        assert {(one.partition_index, one.error_code) for one in refused} == {
            (0, ErrorCode.NOT_CONTROLLER),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        }

    play(scenario)


def test_each_partition_of_a_topic_that_nobody_knows_is_told_so(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1])
        asked = request(cluster, [1], topic_id=b"x" * 16, partition=3)
        [topic] = (await cluster.active.alter_partition(asked, 3)).topics
        assert topic.topic_id == b"x" * 16
        assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(3, ErrorCode.UNKNOWN_TOPIC_ID)]

    play(scenario)


def test_a_replica_that_shuts_down_or_is_dead_may_not_join(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        await cluster.active.controlled_shutdown(2, cluster.brokers[2].epoch)
        for version in range(4):
            error = ErrorCode.OPERATION_NOT_ATTEMPTED if version < 2 else ErrorCode.INELIGIBLE_REPLICA
            assert (await propose(cluster, [1, 0, 2], version)).error_code == error
        cluster.kill(2)
        await cluster.settle()
        assert (await propose(cluster, [1, 0, (2, -1)])).error_code == ErrorCode.INELIGIBLE_REPLICA

    play(scenario)


def test_an_old_broker_epoch_and_an_unknown_broker_are_stale(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        asked = request(cluster, [1], broker_epoch=1)
        for asked.broker_id in (1, 7):
            assert (await cluster.active.alter_partition(asked, 3)).error_code == ErrorCode.STALE_BROKER_EPOCH

    play(scenario)


def test_a_repeated_proposal_gets_the_same_answer(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        first = await propose(cluster, [1, 2])
        again = await propose(cluster, [1, 2], partition_epoch=0)
        assert (again.error_code, again.isr, again.partition_epoch) == (0, first.isr, first.partition_epoch)

    play(scenario)


def test_lost_answer_of_the_write(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])

        def lose(operations: list[Any], session_id: int) -> None:
            cluster.before_commit = None
            cluster.brokers[0].store.lose_next_answer()

        cluster.before_commit = lose
        answer = await propose(cluster, [1, 2])
        assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2], 1)

    play(scenario)


def test_somebody_else_wrote_the_state_meanwhile(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        other = PartitionState(1, 0, (1, 0), 1)
        await cluster.admin.set(state_path("t", 0), other.encode())  # as a broker before 2.7 does
        answer = await propose(cluster, [1, 2], partition_epoch=0)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.state("t").isr == (1, 0)
        answer = await propose(cluster, [1, 0, 2])
        assert answer.partition_epoch == 2

    play(scenario)


def test_what_a_later_controller_has_written_is_not_taken_over(play: Play) -> None:
    """Whoever reads it has been deposed, and is not to go on from there."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        later = PartitionState(1, 0, (1, 0), cluster.active.state.controller_epoch + 1)
        await cluster.admin.set(state_path("t", 0), later.encode())
        for partition_epoch, error in enumerate([ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NOT_CONTROLLER]):
            assert (await propose(cluster, [1, 2], partition_epoch=partition_epoch)).error_code == error
        assert cluster.state("t") == later

    play(scenario)


@pytest.mark.parametrize(
    ("refusal", "error"),
    [(NoNode, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (NotAuthorized, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_a_write_that_zookeeper_refuses_is_not_tried_again(
    play: Play, refusal: type[StoreError], error: ErrorCode
) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        refused = []

        def refuse(operations: list[Any], session_id: int) -> None:
            for index, one in enumerate(operations):
                if isinstance(one, SetData):
                    refused.append(one.path)
                    raise MultiFailed(index, refusal(one.path))

        cluster.before_commit = refuse
        assert (await propose(cluster, [1, 2])).error_code == error
        assert refused == [state_path("t", 0)]
        cluster.before_commit = None
        assert (await propose(cluster, [1, 2])).isr == [1, 2], "the controller still has what was before"

    play(scenario)


def test_a_proposal_for_a_state_that_nobody_can_read_is_refused(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2, 0])
        proposal = request(cluster, [1, 2])
        MemoryZooKeeper.commit(cluster.zookeeper, [SetData(state_path("t", 0), b"{", ANY_VERSION)], 0)
        response = await cluster.active.alter_partition(proposal, 3)
        assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert cluster.zookeeper.data(state_path("t", 0)) == b"{"

    play(scenario)


def test_recovered_leader_may_add_others(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [2, 1], unclean_leader_election_enable="true")
        await propose(cluster, [2], broker_id=2)
        cluster.kill(2)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").leader_recovery_state) == (1, 1)
        again = await propose(cluster, [1], recovery=1)
        assert (again.error_code, again.leader_recovery_state) == (0, 1), "nothing has changed"
        await cluster.add_broker(2)
        await cluster.settle()
        refused = await propose(cluster, [1, 2], recovery=1)
        assert refused.error_code == ErrorCode.INVALID_REQUEST, "nobody joins before it has recovered"
        assert (await propose(cluster, [1])).error_code == 0
        assert cluster.state("t").leader_recovery_state == 0

    play(scenario)
