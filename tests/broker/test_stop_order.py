"""The order in which a broker stops."""

import asyncio

import pytest

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


def test_a_request_that_comes_as_the_broker_ends_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python warned in the broker's log of one that was not: that its coroutine was never awaited."""
    begun: list[str] = []

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            [broker] = cluster.brokers
            sockets, controller = broker.server.sockets, broker.server.services.controller
            stop_controller = controller.stop

            async def request() -> None:
                begun.append("request")

            async def stop() -> None:
                await stop_controller()
                sockets.run(request())

            monkeypatch.setattr(controller, "stop", stop)
            await broker.stop()

    run_virtual(main)
    assert begun == ["request"]
