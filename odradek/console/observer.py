"""Observer: looks at the cluster again and again, and keeps the state and the time line for the page."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from odradek.client.admin.values import Reassignment
from odradek.client.aio.admin import Admin
from odradek.console.happenings import Happening, Timeline, observed
from odradek.console.journals import Journals
from odradek.console.snapshot import NO_BROKER, BrokerProcess, Model, Snapshot, cluster_model
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock, sleep

PAUSE_MS: Final = 500.0
COST_SHARE, PAUSE_MS_MAX = 10.0, 3_000.0
"""Share of a look in the whole time, as 1 to COST_SHARE, and the longest pause. The share makes looks at ten thousand
partitions rarer. The longest pause is there as a frozen broker makes looks slow, too, and then there is something to
see."""

MOVES_MS_MAX = 1_000.0
"""Longest wait for the controller's list of reassignments, which there is nobody to ask for while one is elected."""

Look = Callable[[], Awaitable[Snapshot]]


def looker(admin: Admin, clock: Clock) -> Look:
    """Return a function that takes a snapshot: the metadata of all topics, and the reassignments where some partition
    lacks a replica. While no controller tells these, they are as they were."""
    moves: list[Reassignment] = []

    async def look() -> Snapshot:
        nonlocal moves
        cluster = await admin.describe_cluster()
        topics = await admin.describe_topics()
        nodes = {node.node_id: node for node in cluster.nodes}
        if any(one.is_under_replicated() for topic in topics for one in topic.partitions):
            with suppress(KafkaError):
                moves = await admin.list_partition_reassignments(timeout_ms=MOVES_MS_MAX)
        else:
            moves = []
        return Snapshot(
            clock.now_ms(),
            cluster.cluster_id,
            cluster.controller_id,
            nodes,
            {topic.name: topic for topic in topics},
            {one.topic_partition: one.adding_replicas for one in moves if one.adding_replicas},
        )

    return look


class Observer:
    """State of the cluster for the page, and the time line. `changed` is called when there is something new."""

    def __init__(
        self,
        look: Look,
        clock: Clock,
        journals: Journals | None = None,
        processes: Callable[[], Sequence[BrokerProcess]] = list,
    ) -> None:
        self._look, self._clock, self._journals, self._processes = look, clock, journals, processes
        self.changed: Callable[[], object] = lambda: None
        self.snapshot: Snapshot | None = None
        self.timeline = Timeline()
        self.version = 0
        """Grows with each change of `state`."""
        self.state = ""
        """State of the cluster; from version 1 on it is JSON: a `cluster_model`, why the cluster cannot be seen, and
        the brokers whose journals are read."""
        self._trouble = ""
        self._happened = 0
        self._facts: list[Any] = []

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            began_ms = self._clock.monotonic_ms()
            await self.look()
            took_ms = self._clock.monotonic_ms() - began_ms
            await self.read_journals()
            await sleep(self._clock, min(max(PAUSE_MS, COST_SHARE * took_ms), PAUSE_MS_MAX))

    async def look(self) -> None:
        """Take one snapshot, and note the differences."""
        try:
            seen = (await self._look()).taken_with(self.snapshot)
        except KafkaError as error:
            self._trouble = str(error)
        else:
            self._trouble = ""
            told = observed(self.snapshot, seen) if self.snapshot is not None else []
            self.snapshot = seen
            self.timeline.add(told, self._clock.now_ms())
        self.tell()

    async def read_journals(self) -> None:
        """Add what the journals have got since the last reading."""
        if self._journals is not None and self.snapshot is not None:
            self.timeline.add(await self._journals.read(self.snapshot.nodes.values()), self._clock.now_ms())
        self.timeline.settle(self._clock.now_ms())
        self.tell()

    async def lag(self, broker: int, path: str) -> Mapping[str, Any]:
        """Return a broker's page /lag; empty if it has no metrics.port, or does not answer."""
        node = None if self.snapshot is None else self.snapshot.nodes.get(broker)
        return {} if self._journals is None or node is None else await self._journals.lag(node, path)

    def note(self, happening: Happening) -> None:
        """Add an action from the page to the time line."""
        self.timeline.add([happening], self._clock.now_ms())
        self.tell()

    def tell(self) -> None:
        """Bring the state up to date, and call `changed` if it, or the time line, has changed."""
        happened, self._happened = self._happened, self.timeline.last_number
        if (self.snapshot is not None or self._trouble) and self._renew():
            self.version += 1
        elif happened == self.timeline.last_number:
            return
        self.changed()

    def _renew(self) -> bool:
        """Bring `state` up to date; return False when nothing has changed."""
        journals = [] if self._journals is None else self._journals.readable
        processes, seen = list(self._processes()), self.snapshot
        facts: list[Any] = [processes, self._trouble, journals]
        if seen is not None:
            facts += [seen.controller_id, seen.nodes, seen.topics, seen.adding]
        if facts == self._facts:
            return False
        self._facts = facts
        empty: Model = {"brokers": [], "topics": [], "figures": None, "controller": NO_BROKER, "cluster": None}
        model = empty if seen is None else cluster_model(seen, processes)
        state = json.dumps(model | {"trouble": self._trouble, "journals": journals}, separators=(",", ":"))
        changed, self.state = state != self.state, state
        return changed
