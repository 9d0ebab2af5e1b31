"""A disk that is full when a replica is to be made on it, and has room later."""

import asyncio
import errno
import random

import pytest

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulated_files import Fault
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.history import History
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.topics import PartitionState, state_path

FULL = Fault(0, 1 << 60, errno.ENOSPC, what="room")


@pytest.mark.parametrize("replicas", [[0], [0, 1, 2]])
def test_a_replica_that_had_no_room_is_made_when_there_is_some(replicas: list[int]) -> None:
    """The controller took it for one in a failed directory, which only a restart mends; nobody ever made it."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            administrator = Administrator(cluster, History(clock), random.Random(0), "t", [])
            await asyncio.sleep(2)
            cluster.brokers[0].files.fault = FULL
            await administrator.ask_controller(create_topic_request("t", replicas, timeout_ms=1_000), 7)
            await asyncio.sleep(30)
            assert ("t", 0) not in cluster.brokers[0].server.services.replicas.partitions
            cluster.brokers[0].files.fault = None
            await asyncio.sleep(30)
            state = PartitionState.decode("t", 0, cluster.zookeeper.data(state_path("t", 0)))
            assert state.leader in replicas and sorted(state.isr) == replicas
            for broker_id in replicas:
                partition = cluster.brokers[broker_id].server.services.replicas.partitions["t", 0]
                assert partition.leader == state.leader

    run_virtual(main)
