"""Two connections to the only broker of a cluster, for tests of requests that are served beside each other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.broker.replication.partition import Partition
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

PARTITIONS = 8
ABSENT = PARTITIONS
"""Index of a partition that the topic `t` does not have."""
T0 = 1_700_000_000_000
SETTINGS = {
    "log.retention.ms": "-1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
Scenario = Callable[["Asker"], Awaitable[None]]


class Asker:
    """Asks the only broker by two connections."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self._peer, self._other = (
            Peer(cluster.network.host(name), cluster.clock, "broker-0", cluster.port, name) for name in ("one", "other")
        )

    def partition(self, index: int) -> Partition:
        return self.cluster.brokers[0].server.services.replicas.partitions["t", index]

    async def ask(self, request: Message, version: int) -> Any:
        return await self._peer.request(request, version, 60_000)

    async def ask_other(self, request: Message, version: int) -> Any:
        return await self._other.request(request, version, 60_000)

    def close_one(self) -> None:
        """Close the first connection, with what is under way there."""
        self._peer.close()

    async def ask_beside(self, request: Message, version: int) -> Any:
        """Ask, and have another client be answered meanwhile."""
        await self.ask_other(MetadataRequest(topics=[]), 7)
        first = asyncio.ensure_future(self.ask(request, version))
        second = asyncio.ensure_future(self.ask_other(MetadataRequest(topics=[]), 7))
        await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        assert second.done() and not first.done(), "the short one came later and is answered before"
        return await first


def with_topic(scenario: Scenario) -> None:
    """Run it with a topic that has a record in each partition."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, SETTINGS) as cluster:
            asker = Asker(cluster)
            made = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            await asker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
            await asker.ask(produce(*range(PARTITIONS)), 9)
            await scenario(asker)

    run_virtual(main)


def produce(*indexes: int) -> ProduceRequest:
    """Make a request for a record to each of these partitions."""
    data = [
        PartitionProduceData(index=index, records=encode_batch(0, [T0 + index], [None], [b"v"])) for index in indexes
    ]
    return ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
