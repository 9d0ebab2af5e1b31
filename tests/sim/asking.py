"""Asking brokers of a cluster on virtual time, for tests that send requests themselves."""

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.protocol.fields import Message
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster


class Asking:
    """Asks brokers; a connection for each request, so that none is left over of a broker that has died."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster

    async def ask(self, broker: EmbeddedBroker, request: Message, version: int) -> Any:
        peer = Peer(self.cluster.network.host("client"), self.cluster.clock, broker.host, self.cluster.port, "test")
        try:
            return await peer.request(request, version, 120_000)
        finally:
            peer.close()

    async def find(self, wanted: Callable[[EmbeddedBroker], bool]) -> EmbeddedBroker:
        while True:
            for broker in self.cluster.brokers:
                if broker.running and wanted(broker):
                    return broker
            await asyncio.sleep(0.1)
