"""A replica is added to a topic of 6 MB: how long that takes by which limit, and who else notices (KIP-73)."""

import asyncio
import os
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import create_topic_request, produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

MOVED, BESIDE = "moved", "beside"
BATCHES, BATCH_BYTES = 60, 100_000
RATE = 500_000
SECONDS = BATCHES * BATCH_BYTES / RATE
TOPICS, BROKERS = 2, 4
SET, DELETE = 0, 1


class Administrator:
    """Of three brokers of which 0 leads everything and is the controller."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        network = cluster.network.host("client")
        self._peers = [Peer(network, cluster.clock, broker.host, cluster.port, "test") for broker in cluster.brokers]

    async def ask(self, request: Message, version: int, broker: int = 0) -> Any:
        return await self._peers[broker].request(request, version, 60_000)

    async def create(self, topic: str, replicas: list[int]) -> None:
        answer = await self.ask(create_topic_request(topic, replicas), 7)
        assert answer.topics[0].error_code == 0, answer

    async def produce(self, topic: str) -> None:
        answer = await self.ask(produce_request(topic, bytes(make_batch([os.urandom(BATCH_BYTES)]))), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    async def configure(self, kind: int, name: str, setting: str, value: str | None) -> None:
        change = AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        broker = int(name) if kind == BROKERS else 0
        answer = await self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, broker)
        assert answer.responses[0].error_code == 0, answer

    async def throttle(self, side: str, broker: int, rate: int | None = RATE, replicas: str = "*") -> None:
        """As kafka-reassign-partitions --throttle does it."""
        await self.configure(BROKERS, str(broker), f"{side}.replication.throttled.rate", str(rate) if rate else None)
        await self.configure(TOPICS, MOVED, f"{side}.replication.throttled.replicas", replicas)

    async def reassign(self, replicas: list[int]) -> None:
        moved = ReassignableTopic(
            name=MOVED, partitions=[ReassignablePartition(partition_index=0, replicas=list(replicas))]
        )
        answer = await self.ask(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000), 0)
        assert answer.error_code == 0 and not answer.responses[0].partitions[0].error_code, answer

    def in_sync(self) -> frozenset[int]:
        return self.cluster.brokers[0].server.services.replicas.partitions[MOVED, 0].committed_isr

    async def seconds_until_in_sync(self, replica: int) -> float:
        began_ms = self.cluster.clock.monotonic_ms()
        while replica not in self.in_sync():
            await asyncio.sleep(0.05)
        return (self.cluster.clock.monotonic_ms() - began_ms) / 1000


def with_throttles(*throttles: tuple[str, int, str]) -> float:
    """How many seconds a third replica takes: by limits of (side, broker, replicas that the topic names)."""

    async def main(clock: VirtualClock) -> float:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            administrator = Administrator(cluster)
            await administrator.create(MOVED, [0, 1])
            await administrator.create(BESIDE, [0, 1, 2])
            for _ in range(BATCHES):
                await administrator.produce(MOVED)
            for side, broker, replicas in throttles:
                await administrator.throttle(side, broker, RATE, replicas)
            await administrator.reassign([0, 1, 2])
            adding = asyncio.create_task(administrator.seconds_until_in_sync(2))
            for topic in (MOVED, BESIDE, MOVED):  # neither who is in sync nor another topic waits
                began_ms = clock.monotonic_ms()
                await administrator.produce(topic)
                assert clock.monotonic_ms() - began_ms < 100
            return await adding

    return run_virtual(main)


@pytest.mark.parametrize(
    "throttles",
    [
        [("leader", 0, "*")],
        [("follower", 2, "*")],
        [("leader", 0, "0:0,0:1"), ("follower", 2, "0:2")],
    ],
    ids=["leader", "follower", "both"],
)
def test_a_throttled_replica_takes_its_time(throttles: list[tuple[str, int, str]]) -> None:
    assert 0.8 * SECONDS < with_throttles(*throttles) < 1.5 * SECONDS


@pytest.mark.parametrize(
    "throttles",
    [[], [("leader", 1, "*"), ("follower", 0, "*")], [("leader", 0, "0:1"), ("follower", 2, "1:2")]],
    ids=["none", "of other brokers", "of other replicas"],
)
def test_nobody_else_waits(throttles: list[tuple[str, int, str]]) -> None:
    assert with_throttles(*throttles) < 1


@pytest.mark.parametrize(("side", "broker"), [("leader", 0), ("follower", 2)])
def test_a_limit_that_is_lifted_holds_nobody_back(side: str, broker: int) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            administrator = Administrator(cluster)
            await administrator.create(MOVED, [0, 1])
            for _ in range(BATCHES):
                await administrator.produce(MOVED)
            await administrator.throttle(side, broker, 1_000)
            await administrator.reassign([0, 1, 2])
            await asyncio.sleep(8)
            assert 2 not in administrator.in_sync()
            await administrator.throttle(side, broker, None)
            assert await administrator.seconds_until_in_sync(2) < 2

    run_virtual(main)
