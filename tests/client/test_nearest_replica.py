"""Reading from the nearest replica (KIP-392), brokers and consumers on the virtual clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.aio import Admin, Consumer, Producer
from odradek.broker.replication.replica_selection import RACK_AWARE
from odradek.client.admin.values import NewTopic
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

T0 = TopicPartition("t", 0)
LEADER, NEAREST = 0, 2
FOLLOWERS_WAIT_MS = 400
SETTINGS = {
    "broker.rack": "rack-{}",
    "replica.selector.class": RACK_AWARE,
    "replica.fetch.wait.max.ms": str(FOLLOWERS_WAIT_MS),
}


class Stage:
    """A topic that broker 0 leads, with replicas in three racks, and a consumer in that of broker 2."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, rack: str, **settings: Any) -> None:
        self.cluster, self.clock = cluster, clock
        self.world: dict[str, Any] = {"clock": clock, "bootstrap_servers": "broker-1:9092"}
        self.consumer = Consumer(
            network=cluster.network.host("reader"),
            client_rack=rack,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            request_timeout_ms=2_000,
            **self.world,
            **settings,
        )
        self.producer = Producer(network=cluster.network.host("writer"), **self.world)

    async def send(self, *values: bytes) -> None:
        for value in values:
            await (await self.producer.send("t", value, partition=0))

    async def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                found += [one.value for records in (await self.consumer.getmany(500)).values() for one in records]
        return found

    @property
    def replica(self) -> int:
        """Where it reads; -1 for the leader."""
        return self.consumer.engine.shared.positions.partitions[T0].replica

    @property
    def in_sync(self) -> frozenset[int]:
        """The replicas in sync, as the leader knows them."""
        return self.cluster.brokers[LEADER].server.services.replicas.partitions[T0].committed_isr

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.consumer.getmany(100)


def play(work: Callable[[Stage], Awaitable[None]], rack: str = "rack-2", **settings: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            stage = Stage(cluster, clock, rack, **settings)
            async with Admin(network=cluster.network.host("admin"), **stage.world) as admin:
                await asyncio.sleep(1)  # until the controller knows all three
                await admin.create_topics([NewTopic("t", replica_assignments={0: [LEADER, 1, NEAREST]})])
            async with stage.producer, stage.consumer:
                await stage.send(b"first")
                stage.consumer.assign([T0])
                await work(stage)

    run_virtual(main)


def test_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    async def work(stage: Stage) -> None:
        assert await stage.read(1) == [b"first"] and stage.replica == NEAREST
        stage.cluster.network.cut("reader", f"broker-{LEADER}")
        await stage.send(b"second")
        assert await stage.read(1) == [b"second"], "the leader is not asked any more"

    play(work)


def test_without_a_replica_there_or_a_rack_the_leader_serves() -> None:
    async def work(stage: Stage) -> None:
        assert await stage.read(1) == [b"first"] and stage.replica == -1

    for rack in ("rack-0", "rack-9", ""):
        play(work, rack)


def test_the_nearest_replica_serves_a_record_as_soon_as_it_may_be_read() -> None:
    """A follower heard of the high watermark with the next record, or after replica.fetch.wait.max.ms."""

    async def work(stage: Stage) -> None:
        await stage.read(1)
        await asyncio.sleep(2)
        for number in range(5):
            await stage.send(b"%d" % number)  # acks=all: from here on consumers may read it
            written_ms = stage.clock.monotonic_ms()
            assert await stage.read(1) == [b"%d" % number]
            assert stage.clock.monotonic_ms() - written_ms < FOLLOWERS_WAIT_MS / 8

    play(work)


def test_a_replica_that_dies_sends_its_readers_back_to_the_leader() -> None:
    async def work(stage: Stage) -> None:
        await stage.read(1)
        stage.cluster.brokers[NEAREST].kill()
        await stage.until(lambda: stage.replica == -1)
        await asyncio.sleep(8)  # until the ISR is without it
        await stage.send(b"second")
        assert await stage.read(1) == [b"second"] and stage.replica == -1

    play(work)


def test_a_replica_that_the_metadata_lack_is_looked_up_when_the_leader_names_it() -> None:
    """A reader whose nearest broker was down when it asked for metadata, and is up again: it asked the leader, was sent
    to that broker, which it did not know, and asked the leader again, without a record for metadata.max.age.ms."""

    async def work(stage: Stage) -> None:
        await stage.read(1)
        nearest = stage.cluster.brokers[NEAREST]
        nearest.kill()
        await stage.until(lambda: NEAREST not in stage.consumer.engine.cluster.view.nodes)
        await nearest.start()
        await stage.until(lambda: NEAREST in stage.in_sync)
        began_ms = stage.clock.monotonic_ms()
        await stage.send(b"second")
        assert await stage.read(1) == [b"second"]
        assert stage.clock.monotonic_ms() - began_ms < 5_000
        await stage.until(lambda: stage.replica == NEAREST)

    play(work)


def test_a_replica_that_leaves_the_isr_is_left_after_metadata_max_age() -> None:
    async def work(stage: Stage) -> None:
        await stage.read(1)
        stage.cluster.network.cut(f"broker-{LEADER}", f"broker-{NEAREST}")
        await asyncio.sleep(45)  # replica.lag.time.max.ms
        await stage.send(b"second")
        assert await stage.read(1) == [b"second"] and stage.replica == -1, "it asked the leader again"
        stage.cluster.network.heal()
        await asyncio.sleep(5)
        await stage.send(b"third")
        assert await stage.read(1) == [b"third"]
        await stage.until(lambda: stage.replica == NEAREST)

    play(work, metadata_max_age_ms=10_000)


def test_what_a_follower_does_not_have_is_asked_of_the_leader() -> None:
    """OFFSET_OUT_OF_RANGE of a replica that lags is no reason to begin anew."""

    async def work(stage: Stage) -> None:
        await stage.read(1)
        stage.cluster.network.cut(f"broker-{LEADER}", f"broker-{NEAREST}")
        await asyncio.sleep(45)
        await stage.send(b"second", b"third")
        stage.consumer.seek(T0, 2)
        assert await stage.read(1) == [b"third"]

    play(work)
