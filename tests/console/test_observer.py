"""What the page is told, and when: not more often than something is another."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from odradek.client.errors import NoBrokerReachable
from odradek.console.happenings import PAGE, Happening
from odradek.console.observer import Observer
from odradek.console.snapshot import BrokerProcess, Snapshot
from odradek.world.clock import LoopClock
from tests.console.test_snapshot import partition, snapshot


class Cluster:
    """What a look sees."""

    def __init__(self) -> None:
        self.seen: Snapshot | Exception = snapshot(partition(0, 0, (0, 1, 2)))
        self.processes: list[BrokerProcess] = []
        self.told = 0
        self.observer: Observer

    async def look(self) -> Snapshot:
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def list_processes(self) -> Sequence[BrokerProcess]:
        return self.processes

    def tell(self) -> None:
        self.told += 1


def play(scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        cluster = Cluster()
        clock = LoopClock(asyncio.get_running_loop())
        cluster.observer = Observer(cluster.look, clock, None, cluster.list_processes)
        cluster.observer.changed = cluster.tell
        await scenario(cluster)

    asyncio.run(run())


def test_nothing_is_told_while_nothing_changes() -> None:
    async def scenario(cluster: Cluster) -> None:
        observer = cluster.observer
        for _ in range(3):
            await observer.look()
            await observer.read_journals()
        assert (cluster.told, observer.version) == (1, 1)
        cluster.processes = [BrokerProcess(0, 7, "frozen", ["resume"])]
        await observer.look()
        assert (cluster.told, observer.version) == (2, 2) and "frozen" in observer.state

    play(scenario)


def test_a_cluster_that_is_away_keeps_its_last_state_and_says_so() -> None:
    async def scenario(cluster: Cluster) -> None:
        observer = cluster.observer
        await observer.look()
        cluster.seen = NoBrokerReachable({"host:9092": "refused"})
        await observer.look()
        state = json.loads(observer.state)
        assert observer.version == 2 and len(state["topics"]) == 1 and "host:9092" in state["trouble"]
        cluster.seen = snapshot(partition(0, 0, (0, 1, 2)))
        await observer.look()
        assert observer.version == 3 and json.loads(observer.state)["trouble"] == ""

    play(scenario)


def test_what_the_page_did_is_told_even_before_the_first_look() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.observer.note(Happening(1, "action", "broker 1 was killed", "", PAGE))
        assert cluster.told == 1 and cluster.observer.version == 0
        assert [one["title"] for one in cluster.observer.timeline.since(0)] == ["broker 1 was killed"]

    play(scenario)
