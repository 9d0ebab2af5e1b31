"""Positions that groups commit in transactions, as whoever goes on from them is told (OffsetFetch with requireStable).

A position counts when its transaction is committed, with the records of it, or never. It never goes back.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odradek.aio import Consumer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import bootstrap
from odradek.testing.simulation.history import History

TOPIC = "transactions"
POSITION_OF = TopicPartition(TOPIC, 0)
ASK_EVERY_S = 0.5
ASK_TIMEOUT_MS = 5_000.0


class Outcome(Enum):
    """End of a transaction, as far as its producer knows."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(eq=False)
class Transaction:
    """Transaction with the values that were sent in it."""

    outcome: Outcome = Outcome.OPEN
    values: list[bytes] = field(default_factory=list)
    is_decided: bool = False
    """True once its commit has been asked for; before nobody may be given any of it."""
    position: int | None = None
    """The offset that its group has committed with it."""
    all_sent: bool = True
    """False when a record may not have been sent at all: then it cannot be committed."""


class TransactionalPositions:
    """Asks again and again for the position of one group. `transactions`: those that may have committed one."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, group: str, transactions: Sequence[Transaction]
    ) -> None:
        self.group, self._history, self._transactions = group, history, transactions
        self.found: int | None = None
        """What was told last."""
        self._consumer = Consumer(
            network=cluster.network.host("committed-reader"),
            clock=cluster.clock,
            random=random.Random(group),
            bootstrap_servers=bootstrap(cluster),
            client_id=group,
            group_id=group,
            enable_auto_commit=False,
            request_timeout_ms=3_000,
            metadata_max_age_ms=2_000,
            allow_auto_create_topics=False,
        )
        self._consumer.open(asyncio.get_running_loop())
        self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            least = max(
                (one.position or 0 for one in self._transactions if one.outcome is Outcome.COMMITTED), default=0
            )
            try:
                found = await self._consumer.committed(POSITION_OF, timeout_ms=ASK_TIMEOUT_MS)
            except KafkaError as error:
                self._history.note(f"{self.group}: position: {error!r:.120}")
            else:
                self.judge(found, least)

    def judge(self, found: int | None, least: int) -> None:
        """Compare what was told with what is known; `least` was committed before it was asked for."""
        if (found or 0) < max(least, self.found or 0):
            self._history.violated(f"{self.group} is at {found}, committed was {least}, told {self.found} before")
        self.found = found
        owner = next((one for one in self._transactions if one.position == found), None)
        if found is not None and (owner is None or not owner.is_decided or owner.outcome is Outcome.ABORTED):
            self._history.violated(f"{self.group} is at {found}, which was not committed: {owner}")

    def unrest(self, seen: Collection[bytes]) -> str | None:
        """Return how the position differs from that of the last transaction whose values readers have `seen`."""
        last = _last([one for one in self._transactions if all(value in seen for value in one.values)])
        return None if (self.found or 0) == last else f"{self.group} is at {self.found}, records say {last}"

    def stop(self) -> None:
        self._asking.cancel()
        self._consumer.stop()


def _last(transactions: Sequence[Transaction]) -> int:
    """Return the last position of these; 0 when none has one."""
    return max((one.position or 0 for one in transactions), default=0)
