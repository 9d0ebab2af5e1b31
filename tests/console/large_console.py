"""A console of a cluster that exists in fixtures alone: ten thousand partitions, a thousand groups."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from odradek.client.admin.values import GroupDescription, GroupListing, PartitionLag
from odradek.client.metadata import Node, PartitionInfo, TopicInfo
from odradek.client.records import TopicPartition
from odradek.console.observer import Observer
from odradek.console.reading import Reader
from odradek.console.server import Console
from odradek.console.snapshot import Snapshot
from odradek.console.views import Views
from odradek.protocol.errors import ErrorCode
from odradek.world.clock import LoopClock
from odradek.world.tasks import OnDeath, Tasks

TOPICS, PARTITIONS, GROUPS, BROKERS = 100, 10_000, 1_000, 9


def large_snapshot() -> Snapshot:
    """A topic of a hundred partitions, a hundred times."""
    topics = {}
    for number in range(TOPICS):
        name = f"topic-{number:03}"
        partitions = []
        for one in range(PARTITIONS // TOPICS):
            replicas = tuple((number + one + step) % BROKERS for step in range(3))
            partitions.append(PartitionInfo(name, one, replicas[0], 5, replicas, replicas, (), ErrorCode.NONE))
        topics[name] = TopicInfo(name, number.to_bytes(16, "big"), False, tuple(partitions))
    nodes = {number: Node(number, "10.0.0.1", 9092 + number, f"rack-{number % 3}") for number in range(BROKERS)}
    return Snapshot(0, "large", 1, nodes, topics)


class LargeAdmin:
    """Answers of its coordinators."""

    async def list_groups(self) -> list[GroupListing]:
        return [GroupListing(f"group-{number:04}", "consumer", "Stable") for number in range(GROUPS)]

    async def group_lag(self, group: str) -> list[PartitionLag]:
        return [PartitionLag(TopicPartition("topic-000", 0), 3, 10, 7)]

    async def describe_groups(self, groups: list[str]) -> list[GroupDescription]:
        return [GroupDescription(group, "Stable", "consumer", "range", [], 1) for group in groups]


class LargeConsole:
    """Its page, served on a thread while it is entered."""

    def __init__(self) -> None:
        self._address: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        clock = LoopClock(self._loop)
        seen = large_snapshot()

        async def look() -> Snapshot:
            return seen

        observer = Observer(look, clock)
        admin: Any = LargeAdmin()
        console = Console(observer, Views(admin, Reader(admin, {}, clock), observer, clock), clock)
        port = await console.serve("127.0.0.1", 0, "token")
        tasks = Tasks(clock, print)
        tasks.spawn("observer", observer.run, OnDeath.END)
        self._address.set_result(f"http://127.0.0.1:{port}/#token=token")
        await self._over.wait()
        tasks.close()
        await console.close()

    def __enter__(self) -> str:
        self._thread.start()
        return self._address.result()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
