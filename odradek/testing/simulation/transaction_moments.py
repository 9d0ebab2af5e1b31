"""Faults that wait for the moment between a transaction's decision and its markers: its coordinator changes."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.broker.cluster.metadata_cache import TRANSACTION_STATE
from odradek.broker.transactions.transaction_state import PREPARED
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.directing import Cast, Director
from odradek.testing.simulation.faults import Faults

SLOW_MARKER_MS = (250.0, 400.0)
"""So long a marker is under way, and its answer."""


class TransactionMoments(Director):
    """Situations of the transaction coordinators of one cluster."""

    def __init__(self, others: Faults) -> None:
        super().__init__(others)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {"moved_decisions": self.moved_decisions}

    async def moved_decisions(self) -> None:
        """A coordinator has decided, and is gone before its markers are there: it dies, or what it sends is held back
        until another one has carried the decision out, and the producer goes on."""
        cast = self.cast(TRANSACTION_STATE)
        if cast is None:
            return
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to decide, and to be gone")
            former, self.network.latency_ms = self.network.latency_ms, SLOW_MARKER_MS
            decided = await self.until(lambda: _has_decided(cast))
            self.network.latency_ms = former
            if not decided or not cast.leader.running:
                return
            if self.random.random() < 0.4:
                await self.others.kill_and_start(cast.leader)
            else:
                await self._hold_back(cast)

    async def _hold_back(self, cast: Cast) -> None:
        ways = [(cast.leader.host, other.host) for other in cast.followers]
        for source, target in ways:
            self.network.cut(source, target, one_way=True)
        await self.others.administrator.give_the_lead_to_the_next((cast.topic, cast.index))
        await asyncio.sleep(self.random.uniform(0.5, 7.0))
        for source, target in ways:
            self.network.heal_way(source, target)


def _has_decided(cast: Cast) -> bool:
    """Tell whether a transaction of the partition waits for its markers; or whether nothing can be told any more."""
    broker: EmbeddedBroker = cast.leader
    if not broker.running:
        return True
    coordinator = broker.server.services.transactions
    return any(
        state.status in PREPARED and coordinator.partition_for(name) == cast.index
        for name, state in coordinator.all()[1]
    )
