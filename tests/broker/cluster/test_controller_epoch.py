"""A controller epoch that goes back: somebody has deleted its znode, or ZooKeeper has an older state."""

import asyncio

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH

SETTLED_S = 5


def test_brokers_obey_who_is_elected_after_the_epoch_was_deleted() -> None:
    """In Kafka nobody is obeyed until there were as many elections again, or all brokers are restarted."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            somebody = cluster.zookeeper.connect()
            await somebody.start(1000)
            for _ in range(3):
                await somebody.delete(CONTROLLER_PATH)
                await asyncio.sleep(SETTLED_S)
            requests = [one.server.services.controller_requests for one in cluster.brokers]
            assert [one.controller_epoch for one in requests] == [4, 4]
            await somebody.delete(CONTROLLER_EPOCH_PATH)
            await somebody.delete(CONTROLLER_PATH)
            await asyncio.sleep(SETTLED_S)
            (active,) = [
                one.server.services.controller for one in cluster.brokers if one.server.services.controller.is_active
            ]
            assert active.controller_epoch == 5
            assert [one.controller_epoch for one in requests] == [5, 5]

    run_virtual(main)


def test_brokers_obey_one_that_has_just_been_started() -> None:
    """It knows of no epoch, and is elected in epoch 1: what the others answer has it raise the znode."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            somebody = cluster.zookeeper.connect()
            await somebody.start(1000)
            for _ in range(4):
                await somebody.delete(CONTROLLER_PATH)
                await asyncio.sleep(SETTLED_S)
            other, fresh = cluster.brokers
            await fresh.stop()
            other.suspend()
            await somebody.delete(CONTROLLER_EPOCH_PATH)
            await somebody.delete(CONTROLLER_PATH)
            await fresh.start()
            await asyncio.sleep(1)
            first_epoch = fresh.server.services.controller.controller_epoch
            other.resume()
            await asyncio.sleep(SETTLED_S)
            assert first_epoch == 1
            requests = [one.server.services.controller_requests for one in cluster.brokers]
            assert requests[0].controller_epoch == requests[1].controller_epoch > 5
            assert all(one.server.services.metadata.is_alive(0) for one in cluster.brokers)

    run_virtual(main)
