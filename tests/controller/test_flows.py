"""Partition increase, elections on request, balancing, notifications, producer ids."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import (
    ConnectionLost,
    Create,
    MultiFailed,
    NotAuthorized,
    SetData,
    StoreError,
    TooLarge,
)
from odradek.zk_schema.znodes.admin import (
    PREFERRED_REPLICA_ELECTION_PATH,
)
from odradek.zk_schema.znodes.brokers import broker_path
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH, ProducerIdBlock
from odradek.zk_schema.znodes.notifications import (
    ISR_CHANGE_PATH,
    ISR_CHANGE_PREFIX,
    LOG_DIR_EVENT_PATH,
    LOG_DIR_EVENT_PREFIX,
    encode_log_dir_event,
)
from odradek.zk_schema.znodes.topics import (
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
    state_path,
    topic_path,
)
from tests.controller.conftest import Play

T0 = TopicPartition("t", 0)


def test_more_partitions(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        data, _ = await cluster.admin.get(topic_path("t"))
        old = TopicAssignment.decode("t", data)
        more = TopicAssignment({**old.partitions, 1: PartitionReplicas((2, 0))}, old.topic_id)
        await cluster.admin.set(topic_path("t"), more.encode())
        await cluster.settle()
        assert cluster.state("t", 1).leader == 2
        cluster.check_agreement()

    play(scenario)


def test_a_topic_that_could_not_be_read_is_taken_up_when_it_can(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.admin.create(topic_path("t"), b"{nonsense")
        await cluster.settle()
        assert "t" not in cluster.active.state.topics
        await cluster.admin.set(topic_path("t"), TopicAssignment({0: PartitionReplicas((1,))}).encode())
        await cluster.settle()
        assert cluster.state("t").leader == 1
        cluster.check_agreement()

    play(scenario)


@pytest.mark.parametrize("lost", ["/brokers/topics/t/partitions", "/brokers/topics/t/partitions/0", state_path("t", 0)])
def test_a_new_partition_gets_its_leader_though_a_write_was_lost(play: Play, lost: str) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])

        def lose(operations: list[Any], _: int) -> None:
            if any(operation.path == lost for operation in operations):
                cluster.before_commit = None
                raise ConnectionLost(lost)

        cluster.before_commit = lose
        await cluster.create_topic("t", [1, 2])
        assert cluster.before_commit is None
        assert cluster.state("t").leader == 1
        cluster.check_agreement()

    play(scenario)


def test_unclean_elections_allowed_for_the_whole_cluster_are_held_at_once(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.create_topic("safe", [1, 2], unclean_leader_election_enable="false")
        for broker in (2, 1):
            cluster.kill(broker)
            await cluster.settle()
        await cluster.add_broker(2)
        await cluster.settle()
        assert cluster.state("t").leader == -1
        cluster.active.configure(ControllerSettings(unclean_leader_election_enable=True))
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("safe").leader) == (2, -1)

    play(scenario)


def test_a_broker_whose_registration_cannot_be_read_is_not_taken_for_dead(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.admin.set(broker_path(1), b"{nonsense")
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 2))
        assert cluster.active.state.live_broker_ids == {0, 1, 2}
        cluster.kill(1)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        cluster.check_agreement()

    play(scenario)


def test_a_topic_older_than_topic_ids_gets_one(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.admin.create(topic_path("t"), TopicAssignment({0: PartitionReplicas((1,))}).encode())
        await cluster.settle()
        written = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        assert written.topic_id == cluster.active.state.topic_ids["t"]
        assert cluster.state("t").leader == 1

    play(scenario)


def test_a_topic_keeps_its_id_when_a_tool_older_than_topic_ids_adds_partitions(play: Play) -> None:
    """The next controller gave it another id, under which no broker served its replicas any more (KAFKA-14190)."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        topic_id = cluster.active.state.topic_ids["t"]
        written = {0: PartitionReplicas((1, 2)), 1: PartitionReplicas((2, 1))}
        await cluster.admin.set(topic_path("t"), TopicAssignment(written).encode())
        await cluster.settle()
        assert cluster.state("t", 1).leader == 2
        found = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t")))
        assert (found.topic_id, found.partitions) == (topic_id, written)

    play(scenario)


@pytest.mark.parametrize("refusal", [TooLarge, NotAuthorized])
def test_a_topic_whose_id_zookeeper_does_not_take_is_served_without_one(
    play: Play, caplog: pytest.LogCaptureFixture, refusal: type[StoreError]
) -> None:
    """No controller could take office any more: each one failed when it gave the topic its id."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0, 1])
        await cluster.create_topic("known", [1, 2])

        refused = (topic_path("t"), topic_path("known"))

        def refuse(operations: list[Any], session_id: int) -> None:
            for index, one in enumerate(operations):
                if isinstance(one, SetData) and one.path in refused and session_id != cluster.admin.session_id:
                    raise MultiFailed(index, refusal(one.path))

        cluster.before_commit = refuse
        held = PartitionReplicas((2, 1))
        await cluster.admin.create(topic_path("t"), TopicAssignment({0: held}).encode())
        await cluster.admin.set(topic_path("known"), TopicAssignment({0: held, 1: held}).encode())
        await cluster.settle()
        assert [cluster.state("t").leader, cluster.state("known", 1).leader] == [2, 2]
        assert cluster.holder() == 0
        cluster.kill(0)
        await cluster.settle(4000)
        assert cluster.holder() == 1
        await cluster.create_topic("u", [1, 2])
        assert cluster.state("u").leader == 1
        assert "topic t has no topic id, and none can be written: /brokers/topics/t: " in caplog.text
        assert "controller failed" not in caplog.text

    play(scenario)


def test_a_failed_log_directory_moves_the_leaders_of_topics_that_have_no_id(play: Play) -> None:
    """Brokers answer LeaderAndIsr by topic ids: whose error that of no id was, nobody knew."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])

        def refuse(operations: list[Any], session_id: int) -> None:
            for index, one in enumerate(operations):
                if isinstance(one, SetData) and one.path in (topic_path("t"), topic_path("u")):
                    raise MultiFailed(index, NotAuthorized(one.path))

        cluster.before_commit = refuse
        await cluster.create_topic("with", [1, 2])
        for topic in ("t", "u"):
            await cluster.admin.create(topic_path(topic), TopicAssignment({0: PartitionReplicas((1, 2))}).encode())
        await cluster.settle()
        cluster.brokers[1].storage_errors = {T0}
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
        assert {cluster.state(topic).leader for topic in ("u", "with")} == {1}
        assert cluster.active.state.offline_directories[1] == {T0}

    play(scenario)


def test_preferred_and_unclean_elections_on_request(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2], [2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        outcomes = await cluster.active.elect_leaders([T0, TopicPartition("t", 1), TopicPartition("x", 0)], 0)
        assert [code for code, _ in outcomes.values()] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # 1 is not in sync yet
        ]
        assert outcomes[TopicPartition("t", 1)][1] == "Leader election not needed for topic partition."
        strategy = "PreferredReplicaPartitionLeaderElectionStrategy"  # the word that Kafka's own tests look for
        assert outcomes[T0][1] == f"Failed to elect leader for partition t-0 under strategy {strategy}"
        await cluster.put_in_isr([2, 1])
        assert (await cluster.active.elect_leaders(None, 0))[T0] == (ErrorCode.NONE, None)
        assert cluster.state("t").leader == 1
        cluster.kill(2)
        await cluster.settle()
        await cluster.put_in_isr([1])
        cluster.kill(1)
        await cluster.add_broker(2)
        await cluster.settle()
        assert cluster.state("t").leader == -1
        assert (await cluster.active.elect_leaders([T0], 1))[T0] == (ErrorCode.NONE, None)
        assert (cluster.state("t").leader, cluster.state("t").leader_recovery_state) == (2, 1)

    play(scenario)


def test_an_election_for_all_is_not_for_a_topic_that_is_being_deleted(play: Play) -> None:
    """The tool failed for as long as the deletion waited for a dead broker ("The topic is being deleted"); with Kafka
    only whoever names it is told so."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2])
        await cluster.create_topic("kept", [2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.delete_topic("t")
        assert cluster.exists("/admin/delete_topics/t")
        for kind in (0, 1):
            assert [*await cluster.active.elect_leaders(None, kind)] == [TopicPartition("kept", 0)]
            assert (await cluster.active.elect_leaders([T0], kind))[T0][0] is ErrorCode.INVALID_TOPIC_EXCEPTION

    play(scenario)


def test_an_election_for_all_is_not_for_partitions_that_never_had_a_leader(play: Play) -> None:
    """The tool failed on a topic whose replicas are all to come ("The partition does not exist."); not with Kafka."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0)
        await cluster.create_topic("t", [0])
        await cluster.create_topic("to come", [5])
        for kind in (0, 1):
            assert [*await cluster.active.elect_leaders(None, kind)] == [T0]

    play(scenario)


def test_leaders_are_balanced_and_the_old_tool_is_obeyed(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], leader_imbalance_check_interval_seconds=10)
        await cluster.create_topic("t", [1, 2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.put_in_isr([2, 1])
        assert cluster.state("t").leader == 2
        asked = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"unknown","partition":0}]}'
        await cluster.admin.create(PREFERRED_REPLICA_ELECTION_PATH, asked)
        await cluster.settle()
        assert cluster.state("t").leader == 1
        assert not cluster.exists(PREFERRED_REPLICA_ELECTION_PATH)
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.put_in_isr([2, 1])
        await cluster.settle(20_000)
        assert cluster.state("t").leader == 1
        cluster.check_agreement()

    play(scenario)


def test_isr_written_by_an_older_broker(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.admin.set(state_path("t", 0), PartitionState(1, 0, (1,), 1).encode())
        change = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        await cluster.admin.create(ISR_CHANGE_PREFIX, change, sequential=True)
        await cluster.settle()
        assert not await cluster.admin.children(ISR_CHANGE_PATH)
        cluster.check_agreement()

    play(scenario)


def test_news_that_cannot_be_read_is_dropped_and_the_rest_heeded(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.brokers[1].storage_errors = {T0}
        for path in (ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH):
            cluster.zookeeper.commit([Create(f"{path}/nonsense", b"{")], 0)
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert cluster.state("t").leader == 2
        for path in (ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH):
            assert not await cluster.admin.children(path)
        assert cluster.active.controller_epoch == 1 and not cluster.tasks.deaths

    play(scenario)


def test_a_failed_log_directory_moves_its_leaders(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2], [1, 2])
        cluster.brokers[1].storage_errors = {T0}
        await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True)
        await cluster.settle()
        assert [cluster.state("t", p).leader for p in range(2)] == [2, 1]
        assert not await cluster.admin.children(LOG_DIR_EVENT_PATH)
        told = cluster.brokers[0].of(UpdateMetadataRequest)[-1].topic_states[0].partition_states
        assert [(p.partition_index, p.offline_replicas) for p in told] == [(0, [1])]

    play(scenario)


def test_producer_ids_are_handed_out_once(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.add_controller(1)
        epoch = cluster.brokers[1].epoch
        first = await cluster.active.allocate_producer_ids(1, epoch)

        def once_written(fault: Callable[[list[Any], int], None]) -> None:
            def before_commit(operations: list[Any], session_id: int) -> None:
                if any(operation.path == PRODUCER_ID_BLOCK_PATH for operation in operations):
                    cluster.before_commit = None
                    fault(operations, session_id)

            cluster.before_commit = before_commit

        def lose_the_answer(operations: list[Any], session_id: int) -> None:
            cluster.brokers[0].store.lose_next_answer()

        def be_quicker(operations: list[Any], session_id: int) -> None:
            cluster.zookeeper.commit([SetData(PRODUCER_ID_BLOCK_PATH, ProducerIdBlock(2, 5000, 5999).encode())], 0)

        once_written(lose_the_answer)
        second = await cluster.active.allocate_producer_ids(1, epoch)
        once_written(be_quicker)
        later = await cluster.active.allocate_producer_ids(1, epoch)
        assert (second.first, later.first) == (2000, 6000), "1000 to 1999 were written, and nobody heard of it"
        assert (first.first, first.last) == (0, 999)
        with pytest.raises(KafkaError) as refused:
            await cluster.active.allocate_producer_ids(1, 1)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(KafkaError) as refused:
            await cluster.active.allocate_producer_ids(9, 1)
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.kill(0)
        await cluster.settle()
        third = await cluster.active.allocate_producer_ids(1, cluster.brokers[1].epoch)
        assert third.first == later.last + 1
        assert b'"block_start":"%d"' % third.first in cluster.zookeeper.data(PRODUCER_ID_BLOCK_PATH)

    play(scenario)


@pytest.mark.parametrize("another_is_quicker", [False, True])
def test_a_missing_block_is_made_with_its_content(play: Play, another_is_quicker: bool) -> None:
    """It was made empty first: had the controller died then, one of Kafka's gave out no ids."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0)
        await cluster.admin.delete(PRODUCER_ID_BLOCK_PATH)
        seen: list[bytes] = []

        def look(operations: list[Any], session_id: int) -> None:
            cluster.before_commit = None
            seen.extend(operation.data for operation in operations if operation.path == PRODUCER_ID_BLOCK_PATH)
            if another_is_quicker:
                cluster.zookeeper.commit([Create(PRODUCER_ID_BLOCK_PATH, ProducerIdBlock(2, 0, 999).encode())], 0)

        cluster.before_commit = look
        block = await cluster.active.allocate_producer_ids(0, cluster.brokers[0].epoch)
        assert block.first == (1000 if another_is_quicker else 0)
        assert seen == [ProducerIdBlock(0, 0, 999).encode()]

    play(scenario)


@pytest.mark.parametrize("data", [b"{", ProducerIdBlock(1, 2**63 - 1000, 2**63 - 1).encode()])
def test_no_producer_ids_follow_a_block_that_cannot_be_read_or_is_the_last(play: Play, data: bytes) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0)
        await cluster.admin.set(PRODUCER_ID_BLOCK_PATH, data)
        with pytest.raises(KafkaError) as refused:
            await cluster.active.allocate_producer_ids(0, cluster.brokers[0].epoch)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert cluster.zookeeper.data(PRODUCER_ID_BLOCK_PATH) == data

    play(scenario)


def test_state_changes_are_logged_for_the_timeline(play: Play, caplog: Any) -> None:
    caplog.set_level("INFO", "state.change.logger")

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.active.controlled_shutdown(1, cluster.brokers[1].epoch)

    play(scenario)
    made, moved = [record.getMessage() for record in caplog.records if record.name == "state.change.logger"]
    assert made.split(" ", 1)[0].isdigit()
    assert made.split(" ", 1)[1] == (
        "controller t-0 leader none → 1, ISR {1,2}, leader epoch 0, partition epoch 0, controller epoch 1: "
        "a new partition is led by its first live replica (NewPartition)"
    )
    assert moved.split(" ", 1)[1] == (
        "controller t-0 leader 1 → 2, ISR {1,2} → {2}, leader epoch 0 → 1, partition epoch 1, controller epoch 1: "
        "the leader is shutting down and has handed over first (ControlledShutdown)"
    )


def test_the_last_broker_shuts_down_without_an_error(play: Play, caplog: Any) -> None:
    """Each election was tried, failed, and was logged as one."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, controllers=[0])
        await cluster.create_topic("t", [1, 0])
        cluster.kill(1)
        await cluster.settle()
        assert await cluster.active.controlled_shutdown(0, cluster.brokers[0].epoch) == [TopicPartition("t", 0)]
        assert cluster.state("t", 0).leader == 0

    play(scenario)
    assert not [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
