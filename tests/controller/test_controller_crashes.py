"""The controller dies after each of its ZooKeeper transactions in turn, or ZooKeeper fails it at each of its calls; it,
or the next one, finishes what was begun."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.controller.cluster_state import PartitionPhase
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.topics import topic_path
from tests.controller.conftest import Play

Step = Callable[[Any], Awaitable[None]]


def crash_after(cluster: Any, transactions: int) -> None:
    """Kill broker 0, the controller, when it has done so many more transactions."""
    session = cluster.brokers[0].store.session_id
    left = transactions

    def count(operations: list[Any], session_id: int) -> None:
        nonlocal left
        if session_id == session:
            left -= 1
            if left == 0:
                cluster.after_commit = None
                cluster.clock.call_soon(lambda: cluster.kill(0))

    cluster.after_commit = count
    if not transactions:
        cluster.clock.call_soon(lambda: cluster.kill(0))


async def ask(call: Awaitable[Any]) -> None:
    """A request to the controller, which may die over it."""
    try:
        await call
    except KafkaError:
        return


async def create(cluster: Any) -> None:
    await cluster.create_topic("new", [1, 2], [2, 3], [3, 1])
    await cluster.settle(4000)
    assert [cluster.state("new", p).leader for p in range(3)] == [1, 2, 3]


async def delete(cluster: Any) -> None:
    await cluster.delete_topic("t")
    await cluster.settle(4000)
    assert not cluster.exists(topic_path("t"))
    assert not cluster.exists("/admin/delete_topics/t")
    assert not cluster.exists("/config/topics/t")
    for broker in (1, 2, 3):
        assert not cluster.brokers[broker].replicas
        assert not cluster.brokers[broker].metadata


async def kill_a_leader(cluster: Any) -> None:
    cluster.kill(1)
    await cluster.settle(4000)
    assert [cluster.state("t", p).leader for p in range(2)] == [2, 2]
    assert cluster.state("t").isr == (2, 3)


async def shut_down(cluster: Any) -> None:
    await ask(cluster.active.controlled_shutdown(1, cluster.brokers[1].epoch))
    await cluster.settle(4000)
    cluster.kill(1)
    await cluster.settle()
    assert [cluster.state("t", p).leader for p in range(2)] == [2, 2]


async def shrink(cluster: Any) -> None:
    partition = PartitionData(
        leader_epoch=0, partition_epoch=0, new_isr_with_epochs=[BrokerState(broker_id=1, broker_epoch=-1)]
    )
    topic = TopicData(topic_id=cluster.active.state.topic_ids["t"], partitions=[partition])
    request = AlterPartitionRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch, topics=[topic])
    await ask(cluster.active.alter_partition(request, 3))
    await cluster.settle(4000)
    assert cluster.state("t").isr in ((1,), (1, 2, 3))


async def move(cluster: Any) -> None:
    """Move t-1 from 2 and 1 to 3 and 2; whoever leads then tells that all are in sync."""
    moved = TopicPartition("t", 1)
    await ask(cluster.active.alter_reassignments({moved: [3, 2]}))
    await cluster.settle(4000)
    if await cluster.active.list_reassignments([moved]):
        await ask(cluster.put_in_isr([1, 2, 3], 1))
        await cluster.settle(4000)
        assert not await cluster.active.list_reassignments(None)
    assert cluster.state("t", 1).leader in (2, 3)


@pytest.mark.parametrize("step", [create, delete, kill_a_leader, shut_down, shrink, move])
def test_crash_after_each_transaction(play: Play, step: Step) -> None:
    transactions_seen = []

    def run_with(transactions: int) -> None:
        async def scenario(cluster: Any) -> None:
            await cluster.begin(0, 1, 2, 3, controllers=[0])
            await cluster.add_controller(3)
            await cluster.create_topic("t", [1, 2, 3], [2, 1])
            await cluster.settle()
            assert cluster.holder() == 0
            session, begun = cluster.brokers[0].store.session_id, len(cluster.commits)
            crash_after(cluster, transactions)
            await step(cluster)
            transactions_seen.append(sum(who == session for who, _ in cluster.commits[begun:]))
            if cluster.holder() == 0:
                cluster.kill(0)
                await cluster.settle()
            assert cluster.holder() == 3
            cluster.check_agreement()

        play(scenario)

    run_with(10_000)  # undisturbed: how many transactions are there?
    for transactions in range(transactions_seen[0] + 1):
        run_with(transactions)
    assert max(transactions_seen) > 0


def cut_off(cluster: Any, store: Any) -> None:
    cluster.zookeeper.partition(store)
    cluster.clock.call_later(50, lambda: cluster.zookeeper.heal(store))


FAULTS: dict[str, Callable[[Any, Any], object]] = {
    "the session ends": lambda cluster, store: cluster.zookeeper.expire_session(store.session_id),
    "the answer is lost": lambda cluster, store: store.lose_next_answer(),
    "it is cut off": cut_off,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", [create, delete, kill_a_leader])
def test_zookeeper_fails_at_each_call(play: Play, step: Step, fault: str) -> None:
    def calls_with(number: int) -> int:
        """Have the fault strike at that call of the controller; return how many there were."""
        calls = 0

        async def scenario(cluster: Any) -> None:
            await cluster.begin(0, 1, 2, 3, controllers=[0])
            await cluster.add_controller(3)
            await cluster.create_topic("t", [1, 2, 3], [2, 1])
            store = cluster.brokers[0].store
            call = store._call

            async def struck(*question: Any, **more: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == number:
                    FAULTS[fault](cluster, store)
                return await call(*question, **more)

            store._call = struck
            await step(cluster)
            store._call = call
            await cluster.settle(4000)
            if cluster.holder() == 3:  # whoever has lost the election has no channel
                assert cluster.channels[0].queued_by_broker() == {}
            cluster.kill(0)
            await cluster.settle(4000)
            assert cluster.holder() == 3
            cluster.check_agreement()

        play(scenario)
        return calls

    for number in range(1, calls_with(0) + 1):
        calls_with(number)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_life(play: Play, seed: int) -> None:
    """Brokers die, come back, are cut off; topics come and go; at last everybody agrees."""

    async def scenario(cluster: Any) -> None:
        randomness = random.Random(seed)
        await cluster.begin(0, 1, 2, 3, unclean_leader_election_enable=bool(seed % 2))
        for number in range(25):
            await one_blow(cluster, randomness, number)
            await cluster.settle(randomness.choice([0, 1, 5, 50, 4000]))
        for broker in cluster.brokers.values():
            broker.answers = True
            if broker.alive:
                cluster.zookeeper.heal(broker.store)
        await cluster.settle(8000)
        for broker_id, broker in list(cluster.brokers.items()):
            if broker.alive and not cluster.exists(f"/brokers/ids/{broker_id}"):
                cluster.kill(broker_id)  # its session ended while it was cut off: a real broker registers again
        for broker_id, broker in list(cluster.brokers.items()):
            if not broker.alive:
                await cluster.add_broker(broker_id)
                await cluster.add_controller(broker_id, unclean_leader_election_enable=bool(seed % 2))
        await cluster.settle(8000)
        assert PartitionPhase.OFFLINE not in cluster.active.state.partition_phases.values()
        assert not cluster.active.state.topics_to_delete
        cluster.check_agreement()

    play(scenario)


async def one_blow(cluster: Any, randomness: random.Random, number: int) -> None:
    living = [broker for broker in cluster.brokers.values() if broker.alive]
    broker = randomness.choice(living)
    match randomness.randrange(8):
        case 0 if len(living) > 1:
            cluster.kill(broker.id)
        case 1:
            for dead in [b.id for b in cluster.brokers.values() if not b.alive]:
                await cluster.add_broker(dead)
                await cluster.add_controller(dead)
        case 2:
            cluster.zookeeper.partition(broker.store)
        case 3:
            for other in living:
                cluster.zookeeper.heal(other.store)
        case 4:
            broker.answers = not broker.answers
        case 5:
            topics = sorted(set(cluster.zookeeper.tree.node("/brokers/topics").children))
            if topics and not cluster.exists(f"/admin/delete_topics/{topics[0]}"):
                await cluster.delete_topic(topics[0])
        case _:
            replicas = [randomness.sample(range(4), randomness.randint(1, 3)) for _ in range(randomness.randint(1, 3))]
            await cluster.create_topic(f"t{number}", *replicas)
