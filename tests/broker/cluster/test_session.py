"""A broker's registration that goes from ZooKeeper while its session lives: somebody has deleted it."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.memory_store import MemoryStore
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import TOPIC, create_topic
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path

Scene = Callable[[EmbeddedCluster, MemoryStore], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            await create_topic(cluster, [0, 1])
            somebody = cluster.zookeeper.connect()
            await somebody.start(1000)
            await scene(cluster, somebody)

    run_virtual(main)


def leaders(broker: EmbeddedBroker) -> tuple[bool, int]:
    """Return whether the broker leads the partition, and who does to those who ask it."""
    services = broker.server.services
    state = services.metadata.partition(TOPIC, 0)
    assert state is not None
    return services.replicas.partitions[TOPIC, 0].is_leader, state.leader


def test_a_broker_whose_registration_was_deleted_registers_again() -> None:
    """In Kafka it stays outside, and tells those who know it alone that it leads what others lead."""

    async def scene(cluster: EmbeddedCluster, somebody: MemoryStore) -> None:
        first, second = cluster.brokers[0], cluster.brokers[1]
        before = first.server.services.identity.broker_epoch
        assert leaders(first) == (True, 0)
        await somebody.delete(broker_path(0))
        await asyncio.sleep(20)
        assert first.server.services.identity.broker_epoch > before
        assert leaders(first) == (False, 1)
        assert leaders(second) == (True, 1)
        assert second.server.services.replicas.partitions[TOPIC, 0].committed_isr == {0, 1}
        _, stat = await somebody.get(broker_path(0))
        assert stat.czxid == first.server.services.identity.broker_epoch

        before = stat.czxid
        await somebody.delete(broker_path(0))
        await asyncio.sleep(20)
        assert first.server.services.identity.broker_epoch > before, "it is noticed each time"

    play(scene)


def test_a_registration_that_is_written_anew_is_watched_on() -> None:
    async def scene(cluster: EmbeddedCluster, somebody: MemoryStore) -> None:
        identity = cluster.brokers[0].server.services.identity
        before = identity.broker_epoch
        data, stat = await somebody.get(broker_path(0))
        await somebody.set(broker_path(0), data, stat.version)
        await asyncio.sleep(5)
        assert identity.broker_epoch == before and leaders(cluster.brokers[0]) == (True, 0)
        await somebody.delete(broker_path(0))
        await asyncio.sleep(20)
        assert identity.broker_epoch > before

    play(scene)


def test_a_broker_whose_id_another_one_has_taken_stops() -> None:
    async def scene(cluster: EmbeddedCluster, somebody: MemoryStore) -> None:
        first = cluster.brokers[0].server
        assert not first.broken.is_set()
        await somebody.delete(broker_path(0))
        other = BrokerRegistration(0, (Endpoint("PLAINTEXT", "elsewhere", 9092),))
        await somebody.create(broker_path(0), other.encode(), ephemeral=True)
        await asyncio.wait_for(first.broken.wait(), 60)

    play(scene)
