"""Elections that ElectLeaders, or the balancing of leaders, asks for: who is refused, and what follows from them."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import Create
from odradek.zk_schema.znodes.admin import PREFERRED_REPLICA_ELECTION_PATH
from odradek.zk_schema.znodes.topics import NO_LEADER, TopicAssignment, topic_path
from tests.controller.conftest import Play

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PREFERRED, UNCLEAN = 0, 1
NONE, NOT_NEEDED = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_is_only_for_what_nobody_leads(play: Play) -> None:
    """A leader that is alive stays, though it is not the preferred one."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2], [2, 1])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t", 1).leader) == (2, 2)
        for partitions in ([T0, T1], None):
            outcomes = await cluster.active.elect_leaders(partitions, UNCLEAN)
            assert {one: code for one, (code, _) in outcomes.items()} == {T0: NOT_NEEDED, T1: NOT_NEEDED}
        assert cluster.state("t").leader == 2

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "error"),
    [(PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_where_nobody_lives_nobody_is_elected(play: Play, kind: int, error: ErrorCode) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2])
        for broker in (2, 1):
            cluster.kill(broker)
        await cluster.settle()
        before = cluster.state("t")
        code, text = (await cluster.active.elect_leaders([T0], kind))[T0]
        assert code is error and text.startswith("Failed to elect leader for partition t-0 under strategy ")
        assert cluster.state("t") == before and before.leader == NO_LEADER

    play(scenario)


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_partitions_that_do_not_exist_or_never_had_a_leader_are_unknown(play: Play, kind: int) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0)
        await cluster.create_topic("t", [0])
        await cluster.create_topic("to come", [5])
        asked = [TopicPartition("to come", 0), T1, TopicPartition("x", 0)]
        outcomes = await cluster.active.elect_leaders([T0, *asked], kind)
        assert outcomes.pop(T0)[0] is NOT_NEEDED
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        assert outcomes == dict.fromkeys(asked, unknown)

    play(scenario)


def test_an_unclean_election_may_be_the_end_of_a_reassignment(play: Play) -> None:
    """Its new leader is all that the reassignment has waited for."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({T0: [3]})
        for broker in (2, 1):
            cluster.kill(broker)
        await cluster.settle()
        assert cluster.state("t").leader == NO_LEADER and T0 in cluster.active.state.reassigning
        assert (await cluster.active.elect_leaders([T0], UNCLEAN))[T0] == (NONE, None)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (3, (3,))
        assert not cluster.active.state.reassigning
        [replicas] = TopicAssignment.decode("t", cluster.zookeeper.data(topic_path("t"))).partitions.values()
        assert (replicas.replicas, replicas.adding, replicas.removing) == ((3,), (), ())

    play(scenario)


@pytest.mark.parametrize(
    ("elsewhere", "settings", "moves"),
    [
        (1, {}, False),
        (2, {}, True),
        (2, {"leader_imbalance_per_broker_percentage": 20}, False),
        (1, {"leader_imbalance_per_broker_percentage": 0}, True),
        (10, {"auto_leader_rebalance_enable": False}, False),
    ],
)
def test_leaders_are_balanced_where_more_of_them_are_elsewhere_than_may_be(
    play: Play, elsewhere: int, settings: dict[str, Any], moves: bool
) -> None:
    """Of ten partitions that prefer broker 1, at most one by default."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], leader_imbalance_check_interval_seconds=10, **settings)
        await cluster.create_topic("t", *([[1, 2]] * elsewhere), *([[1]] * (10 - elsewhere)))
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        for partition in range(elsewhere):
            await cluster.put_in_isr([2, 1], partition)
        assert [cluster.state("t", partition).leader for partition in range(10)] == [2] * elsewhere + [1] * (
            10 - elsewhere
        )
        await cluster.settle(30_000)
        assert [cluster.state("t", partition).leader for partition in range(elsewhere)] == [
            1 if moves else 2
        ] * elsewhere

    play(scenario)


def test_topics_that_are_being_deleted_or_have_no_leader_yet_do_not_count(play: Play) -> None:
    """And the next look is not lost for them."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], leader_imbalance_check_interval_seconds=10)
        await cluster.create_topic("t", [1, 2])
        await cluster.create_topic("to come", [5])
        await cluster.create_topic("deleted", [1, 2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.delete_topic("deleted")
        leaders = cluster.state("t").leader, cluster.state("deleted").leader
        await cluster.settle(30_000)
        assert (cluster.state("t").leader, cluster.state("deleted").leader) == leaders
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.put_in_isr([2, 1])
        await cluster.settle(30_000)
        assert cluster.state("t").leader == 1 and not cluster.tasks.deaths

    play(scenario)


def test_the_old_tool_may_ask_again_at_once(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0], auto_leader_rebalance_enable=False)
        await cluster.create_topic("t", [1, 2], [1, 2])
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        for partition in (0, 1):
            await cluster.put_in_isr([2, 1], partition)

        def ask_again(operations: list[Any], _: int) -> None:
            if operations[-1].path == PREFERRED_REPLICA_ELECTION_PATH:
                cluster.after_commit = None
                cluster.zookeeper.commit([Create(PREFERRED_REPLICA_ELECTION_PATH, asked(1))], 0)

        def asked(partition: int) -> bytes:
            return b'{"version":1,"partitions":[{"topic":"t","partition":%d}]}' % partition

        await cluster.admin.create(PREFERRED_REPLICA_ELECTION_PATH, asked(0))
        cluster.after_commit = ask_again
        await cluster.settle()
        assert [cluster.state("t", partition).leader for partition in (0, 1)] == [1, 1]
        assert not cluster.exists(PREFERRED_REPLICA_ELECTION_PATH)

    play(scenario)
