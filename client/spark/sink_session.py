"""Session of a sink with a cluster: a producer for at least once, transactional producers, and committed offsets."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy

from odradek.client.aio.producer import Producer
from odradek.client.aio.world import World
from odradek.client.calls import Deadline
from odradek.client.offsets import committed_offsets
from odradek.client.producer.bulk import BulkSender, Columns
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.client.spark.process import here
from odradek.client.spark.rows import Records
from odradek.client.spark.sink_options import SinkOptions

PATIENCE = "max.block.ms"


def sink_session_for(options: SinkOptions) -> "SinkSession":
    """Return this process's session with these settings. Raises ConfigError."""
    return here().session(("sink", *sorted(options.client.items())), lambda world: SinkSession(options, world))


class SinkSession:
    """Session with a cluster for writing. On the process's loop."""

    def __init__(self, options: SinkOptions, world: World) -> None:
        self.config = options.config()
        self.cluster = world.cluster(self.config)
        self._options, self._world = options, world
        self._producer: Producer | None = None

    async def producer(self) -> Producer:
        """Return the producer that all tasks of this process share; a new one when the last is broken."""
        if self._producer is None or self._producer.engine.ended is not None:
            self._producer = await self._made({})
        return self._producer

    async def transactional(self, transactional_id: str, **more: Any) -> Producer:
        """Return a new, started producer with this id. The caller closes it, or stops it and leaves its transaction
        open."""
        return await self._made({"transactional_id": transactional_id, **more})

    async def _made(self, more: Mapping[str, Any]) -> Producer:
        network, clock, random = self._world
        producer = Producer(self._options.client, network=network, clock=clock, random=random, **more)
        return await producer.start()

    async def offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all offsets that a group has committed, after the end of open transactions that commit to it."""
        what = f"reading the offsets of group {group_id}"
        return await committed_offsets(self.cluster, group_id, None, self.deadline(what))

    def deadline(self, what: str) -> Deadline:
        """Return the deadline max.block.ms from now."""
        return Deadline(self.cluster, self.config.max_block_ms, what, PATIENCE)

    async def close(self) -> None:
        """Deliver what is queued, then close all connections."""
        if self._producer is not None:
            await self._producer.close()
        self.cluster.close()


class RecordWriter:
    """Sends records in bulk to partitions that a column, their keys, or chance decide."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._engine = producer.engine
        self._sender = BulkSender(producer.engine)

    async def write(self, records: Records) -> None:
        """Queue records; waits for memory. Raises as `BulkSender.send`, ClientTimeout for an unknown topic."""
        timestamp_ms = self._engine.cluster.clock.now_ms()
        if records.partition is not None:
            await self._known(records.topic, records.partition)
            await self._send(records, TopicPartition(records.topic, records.partition), None, timestamp_ms)
            return
        await self._known(records.topic, None)
        count = self._engine.cluster.view.partition_count(records.topic)
        for partition, rows in self._by_partition(records, count):
            await self._send(records, TopicPartition(records.topic, partition), rows, timestamp_ms)

    async def flush(self) -> None:
        """Wait until everything is delivered. Raises the failure of a record."""
        await self._sender.flush()

    async def _known(self, topic: str, partition: int | None) -> None:
        count = self._engine.cluster.view.partition_count(topic)
        if not count or (partition is not None and partition >= count):
            await self._producer.until_known(topic, partition, self._producer.config.max_block_ms)

    def _by_partition(self, records: Records, count: int) -> list[tuple[int, list[int] | slice]]:
        """Return rows by partition. Keys decide, as in every Kafka client; records without one go, in runs of the size
        of a batch, to partitions with a leader."""
        if records.hashes is None or self._producer.config.partitioner_ignore_keys:
            return self._in_turns(records, range(len(records)))
        partitions = (records.hashes & numpy.uint32(0x7FFFFFFF)).astype(numpy.int64) % count
        keyed = numpy.array([key is not None for key in records.keys])
        found: list[tuple[int, list[int] | slice]] = [
            (partition, numpy.flatnonzero(keyed & (partitions == partition)).tolist())
            for partition in numpy.unique(partitions[keyed]).tolist()
        ]
        if not keyed.all():
            found += self._in_turns(records, numpy.flatnonzero(~keyed).tolist())
        return found

    def _in_turns(self, records: Records, rows: "range | list[int]") -> list[tuple[int, list[int] | slice]]:
        """Cut rows into runs of about the size of a batch, each for a random partition (KIP-480)."""
        sizes = numpy.cumsum([len(records.values[row] or b"") + len(records.keys[row] or b"") + 16 for row in rows])
        filled = sizes // max(self._engine.config.batch_bytes, 1)  # 0: every record is a batch of its own
        bounds = [0, *(numpy.flatnonzero(numpy.diff(filled)) + 1).tolist(), len(rows)]
        available = self._engine.cluster.available_partitions(records.topic)
        choices = available or range(self._engine.cluster.view.partition_count(records.topic))
        source = self._engine.cluster.random
        return [
            (source.choice(choices), list(rows[start:end]) if isinstance(rows, list) else slice(start, end))
            for start, end in pairwise(bounds)
        ]

    async def _send(
        self, records: Records, place: TopicPartition, rows: "list[int] | slice | None", timestamp_ms: int
    ) -> None:
        keys, values, headers = records.keys, records.values, records.headers
        if isinstance(rows, slice):
            keys, values, headers = keys[rows], values[rows], headers[rows] if headers is not None else None
        elif rows is not None:
            keys, values = [keys[row] for row in rows], [values[row] for row in rows]
            headers = [headers[row] for row in rows] if headers is not None else None
        await self._sender.send(place, Columns(keys, values, headers, timestamp_ms))
