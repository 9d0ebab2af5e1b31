"""Looks at the cluster again and again, and knows what the page is to be told."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from odradek.client.aio.admin import Admin
from odradek.console.journals import Journals
from odradek.console.sentences import Happening, observed
from odradek.console.snapshot import BrokerProcess, Snapshot, cluster_model
from odradek.console.timeline import Timeline
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock, sleep

log = logging.getLogger(__name__)

PAUSE_MS: Final = 500.0
COST_SHARE: Final = 10.0
"""Looking may take a tenth of the time: a cluster of ten thousand partitions is looked at more seldom."""

Look = Callable[[], Awaitable[Snapshot]]


def looker(admin: Admin, clock: Clock) -> Look:
    """Return what asks for the metadata of all topics."""

    async def look() -> Snapshot:
        cluster = await admin.describe_cluster()
        topics = await admin.describe_topics()
        nodes = {node.node_id: node for node in cluster.nodes}
        return Snapshot(
            clock.now_ms(), cluster.cluster_id, cluster.controller_id, nodes, {topic.name: topic for topic in topics}
        )

    return look


class Observer:
    """The cluster's state as the page has it, and the time line. `changed` is called when there is more to tell."""

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
        """From version 1 on JSON: a `cluster_model`, why the cluster cannot be seen, whose journals are read."""
        self._trouble = ""
        self._told_happening = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            began_ms = self._clock.monotonic_ms()
            await self.look()
            took_ms = self._clock.monotonic_ms() - began_ms
            await sleep(self._clock, max(PAUSE_MS, COST_SHARE * took_ms))

    async def look(self) -> None:
        """Look once."""
        try:
            seen = (await self._look()).taken_with(self.snapshot)
        except KafkaError as error:
            self._trouble = str(error)
        else:
            self._trouble = ""
            told = observed(self.snapshot, seen) if self.snapshot is not None else []
            self.snapshot = seen
            self.timeline.add(told, self._clock.now_ms())
        if self._journals is not None and self.snapshot is not None:
            self.timeline.add(await self._journals.read(self.snapshot.nodes.values()), self._clock.now_ms())
        self.timeline.settle(self._clock.now_ms())
        self.tell()

    def note(self, happening: Happening) -> None:
        """Add what was done from the page."""
        self.timeline.add([happening], self._clock.now_ms())
        self.tell()

    def tell(self) -> None:
        """Make the state anew; who listens hears of it when it is another."""
        if self.snapshot is None and not self._trouble:
            self.changed()  # it has not been looked at yet
            return
        if self.snapshot is None:
            model: dict[str, Any] = {"brokers": [], "topics": [], "figures": None, "controller": -1, "cluster": None}
        else:
            model = cluster_model(self.snapshot, self._processes())
        model["trouble"] = self._trouble
        model["journals"] = [] if self._journals is None else self._journals.readable
        state = json.dumps(model, separators=(",", ":"))
        happened, self._told_happening = self._told_happening, self.timeline.last_number
        if state != self.state:
            self.state = state
            self.version += 1
        elif happened == self.timeline.last_number:
            return
        self.changed()
