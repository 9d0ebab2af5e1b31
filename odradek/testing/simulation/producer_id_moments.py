"""Blocks of producer ids that are asked for while somebody else takes some.

A broker of Kafka before 3.0, as there is one in the midst of an upgrade, asks no controller: it takes its blocks from
ZooKeeper itself (KIP-730).
"""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.testing.simulation.coordinators import Coordinators
from odradek.testing.simulation.faults import Faults
from odradek.zk_schema.store import SetData
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH, ProducerIdBlock

OLD_BROKER = 100
BLOCK_SIZE = 1000
SLOW_MS = (10.0, 10.0)
WITHIN_S = 0.04
"""Time that the controller needs to read, and to write, with such answers of ZooKeeper."""


class ProducerIdMoments:
    """Takers of producer ids of one cluster; `coordinators` watches that no block has two owners."""

    def __init__(self, others: Faults, coordinators: Coordinators) -> None:
        self._others, self._coordinators, self._cluster = others, coordinators, others.cluster
        self._random = others.random
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {"producer_ids": self.producer_ids}

    async def producer_ids(self) -> None:
        """Ask the controller for blocks, and have one taken from ZooKeeper before it has written each."""
        with self._others.zookeeper_latency.at(SLOW_MS):
            for _ in range(self._random.randint(1, 6)):
                asked = asyncio.ensure_future(self._ask())
                await asyncio.sleep(self._random.uniform(0.0, WITHIN_S))
                self._take()
                await asked

    async def _ask(self) -> None:
        broker = self._others.pick()
        if broker is None:
            return
        request = AllocateProducerIdsRequest(
            broker_id=broker.broker_id, broker_epoch=broker.server.services.identity.broker_epoch
        )
        answer = await self._others.administrator.ask_controller(request, 0)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self._coordinators.answer(answer.producer_id_start + answer.producer_id_len)

    def _take(self) -> None:
        """Take the next block as such a broker does: if nobody has since it has read which is the last."""
        zookeeper = self._cluster.zookeeper
        node = zookeeper.tree.get(PRODUCER_ID_BLOCK_PATH)
        last = ProducerIdBlock.decode(node.data) if node is not None else None
        if node is None or last is None or not zookeeper.serving:
            return
        block = ProducerIdBlock(OLD_BROKER, last.last + 1, last.last + BLOCK_SIZE)
        zookeeper.commit([SetData(PRODUCER_ID_BLOCK_PATH, block.encode(), node.version)], 0)
        self._others.history.note(f"an old broker takes the producer ids up to {block.last}")
        self._coordinators.give_out(block.last + 1, "an old broker")
