"""The order in which a broker stops."""

import asyncio

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual


def test_a_disk_that_fails_while_the_broker_stops_is_told_to_nobody() -> None:
    """A task was started that nobody ended: in a test with brokers of its own it asked ZooKeeper for ever."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            [broker] = cluster.brokers
            [directory] = broker.server.services.logs.directories
            broker.files.broken.add(directory)
            before = {task.get_name() for task in asyncio.all_tasks()}
            await broker.stop()
            left = {task.get_name() for task in asyncio.all_tasks()}
            broker.files.broken.discard(directory)
            assert left < before

    run_virtual(main)
