"""One broker with one topic, told by the test what a controller would tell it."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.broker.services import Services
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

Scenario = Callable[[EmbeddedCluster, Services], Awaitable[None]]


def with_broker(scenario: Scenario) -> None:
    """One broker that leads a topic `t` in one of two directories."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"log.dirs": "/a,/b"}) as cluster:
            services = cluster.brokers[0].server.services
            while services.metadata.controller_id < 0:
                await asyncio.sleep(0.05)
            await services.auto_create_topic("t")
            while ("t", 0) not in services.replicas.partitions:
                await asyncio.sleep(0.05)
            await scenario(cluster, services)

    run_virtual(main)


def state(index: int, leader_epoch: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index, leader=0, leader_epoch=leader_epoch, isr=[0], partition_epoch=1, replicas=[0]
    )
