"""A follower that comes back while one producer writes without a pause: it is in sync again in seconds."""

import asyncio
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.broker.replication.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import create_topic_request, produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "busy"
PRODUCERS = 40
"""Producers enough that a follower's round trip never sees the log stand still."""


class Client:
    """Of the broker that leads the only partition."""

    def __init__(self, cluster: EmbeddedCluster, leader: int = 0) -> None:
        self.cluster, self.leader = cluster, cluster.brokers[leader]
        self._peer = Peer(cluster.network.host("client"), cluster.clock, self.leader.host, cluster.port, "test")

    async def ask(self, request: Message, version: int) -> Any:
        return await self._peer.request(request, version, 60_000)

    async def create(self, *replicas: int) -> None:
        answer = await self.ask(create_topic_request(TOPIC, list(replicas)), 7)
        assert answer.topics[0].error_code == 0, answer

    async def produce(self, acks: int) -> ErrorCode:
        answer = await self.ask(produce_request(TOPIC, bytes(make_batch([b"x"])), acks=acks, timeout_ms=30_000), 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def produce_without_pause(self, acks: int) -> None:
        while True:
            assert await self.produce(acks) is ErrorCode.NONE

    def partition(self) -> Partition:
        return self.leader.server.services.replicas.partitions[TOPIC, 0]

    async def until_in_sync(self, *brokers: int) -> None:
        while self.partition().committed_isr != set(brokers):
            await asyncio.sleep(0.05)


def test_a_follower_joins_an_isr_of_one_while_a_producer_writes() -> None:
    """The leader was alone in the ISR and acknowledged every record at once, so that whoever was one round trip behind
    never reached the high watermark: the follower stayed outside for as long as the load lasted."""

    async def main(clock: VirtualClock) -> None:
        settings = {"offsets.topic.replication.factor": "2", "controlled.shutdown.enable": "false"}
        async with EmbeddedCluster(clock, brokers=2, overrides=settings) as cluster:
            client = Client(cluster)
            await client.create(0, 1)
            await asyncio.wait_for(client.until_in_sync(0, 1), 10)
            cluster.brokers[1].kill()
            await asyncio.wait_for(client.until_in_sync(0), 60)
            producing = [asyncio.create_task(Client(cluster).produce_without_pause(acks=1)) for _ in range(PRODUCERS)]
            before = client.partition().log.log_end_offset
            await cluster.brokers[1].start()
            await asyncio.wait_for(client.until_in_sync(0, 1), 10)
            assert client.partition().log.log_end_offset > before + 100, "there was hardly any load"
            assert all(one.cancel() for one in producing), "a producer has ended"

    run_virtual(main)


def test_nobody_waits_for_a_follower_that_died_before_it_could_join() -> None:
    """A follower outside the ISR that has just caught up is waited for; when it dies the cluster's metadata says so."""

    async def main(clock: VirtualClock) -> None:
        settings = {"offsets.topic.replication.factor": "2", "controlled.shutdown.enable": "false"}
        async with EmbeddedCluster(clock, brokers=2, overrides=settings) as cluster:
            client = Client(cluster)
            await client.create(0, 1)
            await asyncio.wait_for(client.until_in_sync(0, 1), 10)
            cluster.brokers[1].kill()
            began_ms = clock.monotonic_ms()
            assert await client.produce(acks=-1) is ErrorCode.NONE
            assert clock.monotonic_ms() - began_ms < 10_000, "longer than ZooKeeper's session"
            began_ms = clock.monotonic_ms()
            assert await client.produce(acks=-1) is ErrorCode.NONE
            assert clock.monotonic_ms() - began_ms < 100

    run_virtual(main)


def test_an_isr_shrinks_though_the_controller_that_was_asked_hangs() -> None:
    """A process that stands still keeps its connections: the leader waited half a minute for the answer of a controller
    that had been replaced long before, and acks=all with it."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3, overrides={"replica.lag.time.max.ms": "2000"}) as cluster:
            asked = Client(cluster)
            while cluster.brokers[0].server.services.metadata.controller_id != 0:
                await asyncio.sleep(0.05)
            await asked.create(1, 2)
            client = Client(cluster, leader=1)
            await asyncio.wait_for(client.until_in_sync(1, 2), 10)
            cluster.brokers[0].suspend()
            cluster.network.cut("broker-1", "broker-2")
            began_ms = clock.monotonic_ms()
            assert await client.produce(acks=-1) is ErrorCode.NONE
            assert 2_000 < clock.monotonic_ms() - began_ms < 20_000
            assert client.partition().committed_isr == {1}
            cluster.network.heal("broker-1", "broker-2")
            cluster.brokers[0].resume()
            await asyncio.wait_for(client.until_in_sync(1, 2), 30)

    run_virtual(main)
