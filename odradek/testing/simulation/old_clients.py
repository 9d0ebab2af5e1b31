"""Clients of before Kafka 0.11: they write and read message sets of formats 0 and 1, and know of no leader epochs.

The producer asks for acks=all and repeats nothing: what it was not told of may be there, once. After a failure it goes
on under another name, for what failed may still be on its way.
"""

import asyncio
import random
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.client.records import TopicPartition
from odradek.protocol.compression import GZIP, NONE, SNAPPY
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.message_set import MAGIC_V0, MAGIC_V1, down_convert, up_convert
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records import Columns
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History

HOST = "old-client"
PATIENCE_MS = 3_000
PAUSE_S = 0.3
FETCH_BYTES = 1 << 20


class OldClient:
    """Asks the leaders of one topic's partitions. It finds them as clients did: from any broker, again after errors."""

    def __init__(self, cluster: EmbeddedCluster, seed: int, topic: str) -> None:
        self.topic, self.clock = topic, cluster.clock
        self.random = random.Random(seed)
        host = cluster.network.host(HOST)
        self._peers = [Peer(host, cluster.clock, broker.host, cluster.port, HOST) for broker in cluster.brokers]
        self._leaders: dict[int, int] = {}

    async def ask_leader(self, partition: int, request: Message, version: int) -> Any:
        """Return the answer of a partition's leader, or None when it cannot be had."""
        if partition not in self._leaders:
            await self._find_leaders()
        leader = self._leaders.get(partition, -1)
        return await self._ask(leader, request, version) if 0 <= leader < len(self._peers) else None

    def forget_leaders(self) -> None:
        """Look for them again."""
        self._leaders = {}

    async def _find_leaders(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)])
        answer = await self._ask(self.random.randrange(len(self._peers)), request, self.random.randrange(2))
        if answer is not None and answer.topics:
            self._leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}

    async def _ask(self, broker: int, request: Message, version: int) -> Any:
        try:
            return await self._peers[broker].request(request, version, PATIENCE_MS)
        except OSError:
            return None

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


class OldProducer(OldClient):
    """Sends message sets of either format with Produce of versions 0 to 2."""

    def __init__(self, cluster: EmbeddedCluster, history: History, seed: int, topic: str) -> None:
        super().__init__(cluster, seed, topic)
        self.partitions = 1
        """Number of the partition from which on it does not send."""
        self._history = history
        self._sent = self._failures = 0

    async def work(self, until_ms: float) -> None:
        """Send until that time, one request after another."""
        while self.clock.monotonic_ms() < until_ms:
            await self._send(self.random.randrange(self.partitions), self.random.randrange(3))
            await asyncio.sleep(PAUSE_S * self.random.choice((0.1, 2.0)))

    async def _send(self, partition: int, version: int) -> None:
        count = self.random.randint(1, 4)
        values: list[bytes | None] = [b"old.%d-%d" % (self._failures, self._sent + n) for n in range(count)]
        self._sent += count
        columns = Columns(list(range(count)), [self.clock.now_ms()] * count, [None] * count, values)
        codec = self.random.choice((NONE, NONE, GZIP, SNAPPY))
        records = down_convert(columns, MAGIC_V1 if version == 2 else MAGIC_V0, codec)
        data = TopicProduceData(
            name=self.topic, partition_data=[PartitionProduceData(index=partition, records=records)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=PATIENCE_MS, topic_data=[data])
        answer = await self.ask_leader(partition, request, version)
        result = answer.responses[0].partition_responses[0] if answer is not None else None
        if result is not None and result.error_code == ErrorCode.NONE:
            for number, value in enumerate(values):
                where = TopicPartition(self.topic, partition)
                self._history.acknowledge(where, result.base_offset + number, value or b"", HOST)
            return
        self._history.note(f"{HOST}: {values} to {self.topic}-{partition}: {result or 'no answer'}")
        self._failures += 1
        self.forget_leaders()


class OldReader(OldClient):
    """Reads all partitions with Fetch of versions 0 to 3, to which the broker answers in the formats of that time."""

    def __init__(self, cluster: EmbeddedCluster, history: History, seed: int, topic: str) -> None:
        super().__init__(cluster, seed, topic)
        self.positions: dict[int, int] = {}
        """The next offset of each partition."""
        self._history = history
        self.reading = asyncio.ensure_future(self._work())

    def assign(self, partitions: int) -> None:
        """Read so many partitions, those that are new from their beginning."""
        for partition in range(partitions):
            self.positions.setdefault(partition, 0)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            for partition in list(self.positions):
                await self._fetch(partition, self.random.randrange(4))

    async def _fetch(self, partition: int, version: int) -> None:
        at, where = self.positions[partition], TopicPartition(self.topic, partition)
        wanted = FetchPartition(partition=partition, fetch_offset=at, partition_max_bytes=FETCH_BYTES)
        topic = FetchTopic(topic=self.topic, partitions=[wanted])
        answer = await self.ask_leader(partition, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), version)
        found = answer.responses[0].partitions[0] if answer is not None and answer.responses else None
        if found is None or found.error_code:
            # the log may begin later by now; or this was a former leader, whose log ends before
            self.forget_leaders()
            self.positions[partition] = max(at, self._history.log_start_of(where)) if self._history.expires else at
            return
        columns = up_convert(found.records or b"", allow_partial_tail=True)
        for offset, value in zip(columns.offsets, columns.values, strict=True):
            expected = self.positions[partition]
            if offset < expected:
                continue  # of a compressed set
            if offset > expected and not self._history.has_expired(where, expected, offset):
                self._history.violated(f"{HOST}: {where} goes on at {offset}, {expected} was to come (Fetch {version})")
            self.positions[partition] = offset + 1
            self._history.read_count += 1
            self._history.at(where, offset, value or b"", f"{HOST}, Fetch {version}")
        if len(columns):
            self._history.read(where, columns.offsets[-1])

    def close(self) -> None:
        self.reading.cancel()
        super().close()


class OldClients:
    """Producer and reader of one simulation."""

    def __init__(self, cluster: EmbeddedCluster, history: History, seed: int, topic: str) -> None:
        self.producer = OldProducer(cluster, history, seed, topic)
        self.reader = OldReader(cluster, history, seed + 1, topic)

    def use(self, partitions: int) -> None:
        """Write and read so many partitions."""
        self.producer.partitions = partitions
        self.reader.assign(partitions)

    def unrest(self, ends: dict[int, int]) -> str | None:
        """Return where the reader is not yet at the end of a partition."""
        behind = {partition: at for partition, at in self.reader.positions.items() if at != ends.get(partition)}
        return f"{HOST} is at {behind} of {ends}" if behind else None

    def stop(self) -> None:
        self.producer.close()
        self.reader.close()
