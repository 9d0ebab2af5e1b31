"""Positions that groups commit in transactions, as whoever goes on from them is told (OffsetFetch with requireStable).

A position counts when its transaction is committed, with the records of it, or never. It never goes back; but a
coordinator that is cut off from the controller alone, and has not heard of its successor, tells what it knows, as in
Kafka.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odradek.aio import Consumer
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import bootstrap
from odradek.testing.simulation.history import History
from odradek.testing.simulation.unusual_settings import USUAL, Unusual
from odradek.zk_schema.znodes.topics import PartitionState, state_path

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
        self,
        cluster: EmbeddedCluster,
        history: History,
        group: str,
        transactions: Sequence[Transaction],
        unusual: Unusual = USUAL,
    ) -> None:
        self.group, self._history, self._transactions, self._cluster = group, history, transactions, cluster
        self.found: int | None = None
        """What was told last."""
        settings = {"request_timeout_ms": 3_000, "metadata_max_age_ms": 2_000}
        self._consumer = Consumer(
            network=cluster.network.host("committed-reader"),
            clock=cluster.clock,
            random=random.Random(group),
            bootstrap_servers=bootstrap(cluster),
            client_id=group,
            group_id=group,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            **{**settings, **unusual.consumers},
        )
        self._consumer.open(asyncio.get_running_loop())
        self._asking = asyncio.ensure_future(self._ask())

    async def _ask(self) -> None:
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            least = max(
                (one.position or 0 for one in self._transactions if one.outcome is Outcome.COMMITTED), default=0
            )
            epoch = undisputed_epoch(self._cluster, self.group)
            try:
                found = await self._consumer.committed(POSITION_OF, timeout_ms=ASK_TIMEOUT_MS)
            except KafkaError as error:
                self._history.note(f"{self.group}: position: {error!r:.120}")
            else:
                sure = epoch is not None and epoch == undisputed_epoch(self._cluster, self.group)
                self.judge(found, least, sure=sure)

    def judge(self, found: int | None, least: int, *, sure: bool = True) -> None:
        """Compare what was told with what is known; `least` was committed before it was asked for. Unless `sure`, a
        former coordinator may have told it."""
        goes_back = (found or 0) < max(least, self.found or 0)
        if goes_back and not sure:
            self._history.note(f"{self.group}: position {found}, perhaps of a former coordinator")
            return
        if goes_back:
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


def undisputed_epoch(cluster: EmbeddedCluster, group: str) -> int | None:
    """Return the leader epoch of the partition that the group lives in; None while a broker may take itself for the
    group's coordinator that was told of no later epoch."""
    epoch: int | None = None
    for broker in cluster.brokers:
        if not broker.running:
            if broker.alive:  # it stops, and serves until then
                return None
            continue
        services = broker.server.services
        index = services.groups.partition_for(group)
        znode = cluster.zookeeper.tree.get(state_path(CONSUMER_OFFSETS, index))
        if znode is None:
            return None
        epoch = PartitionState.decode(CONSUMER_OFFSETS, index, znode.data).leader_epoch
        replica = services.replicas.partitions.get((CONSUMER_OFFSETS, index))
        if replica is not None and replica.is_leader and replica.leader_epoch < epoch:
            return None
    return epoch


def _last(transactions: Sequence[Transaction]) -> int:
    """Return the last position of these; 0 when none has one."""
    return max((one.position or 0 for one in transactions), default=0)
