"""Readers of Kafka 0.8's kind: members of a group who share its partitions by themselves, in ZooKeeper.

Who reads a partition owns it there, alone among all whose sessions live. Whoever goes on with it begins no further back
than its offset in ZooKeeper, which never goes back itself; and in the end the group has seen everything.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable

from odradek.client.records import ConsumerRecord, TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.core import ConnectorCore
from odradek.client.zookeeper.streams import ConsumerTimeout, MessageStream
from odradek.protocol.errors import KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.virtual_process import InsideClock
from odradek.zk_schema.store import ConnectionLost
from odradek.zk_schema.znodes.consumers import STATIC, ConsumerRegistration, decode_offset, offset_path, owner_path

GROUP = "connectors"
SETTINGS = {
    "zookeeper.connect": "memory:1",
    "group.id": GROUP,
    "zookeeper.session.timeout.ms": 6_000,
    "zookeeper.sync.time.ms": 500,
    "auto.commit.interval.ms": 700,
    "auto.offset.reset": "smallest",
    "consumer.timeout.ms": 0,
    "socket.timeout.ms": 3_000,
}
POLL_MS = 50.0
POLL_RECORDS = 20


class SimulatedConnector:
    """A member with one stream, of the topic `topic`. Made in the process that it lives in."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, name: str, seed: int, topic: str, host: str, strategy: str
    ) -> None:
        self.name, self.topic = name, topic
        self.read: dict[TopicPartition, set[int]] = {}
        self._cluster, self._history = cluster, history
        self._random = random.Random(seed)
        settings = settings_of({**SETTINGS, "partition.assignment.strategy": strategy}, {})
        self.store = cluster.zookeeper.connect(
            session_timeout_ms=settings.zookeeper_session_timeout_ms, clock=InsideClock(cluster.clock)
        )
        self.core = ConnectorCore(
            settings, self.store, cluster.clock, self._random, name, lambda _: cluster.network.host(host)
        )
        self._stream = MessageStream(
            settings.queued_max_message_chunks, settings.consumer_timeout_ms, None, None, self.core.consumption.wake
        )
        self.core.streams.add(topic, [self._stream])
        self._expected: dict[TopicPartition, tuple[int, int]] = {}
        """The number of a claim, and the next offset in it."""
        self._beginning: asyncio.Task[None] | None = None
        self.polling = asyncio.ensure_future(self._work(settings.connection_timeout_ms))

    @property
    def has_session(self) -> bool:
        """Tell whether ZooKeeper keeps the session in which it owns what it reads. Who has stood still may have another
        one already, and not know."""
        return self._cluster.zookeeper.has_session(self.core.member.balance.session_id)

    @property
    def owned(self) -> dict[TopicPartition, str]:
        """What it reads now, and its name as the owner."""
        balance = self.core.member.balance
        return {where: balance.owned.get(where, "nobody") for where in self.core.consumption.claimed}

    async def _work(self, connection_timeout_ms: float) -> None:
        while not self.store.connected:
            with contextlib.suppress(ConnectionLost):
                await self.store.start(connection_timeout_ms)
        self._beginning = asyncio.ensure_future(self.core.begin(ConsumerRegistration({self.topic: 1}, STATIC)))
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * POLL_MS / 1000)
            with contextlib.suppress(ConsumerTimeout):
                for _ in range(POLL_RECORDS):
                    self._read_one()

    def _read_one(self) -> None:
        try:
            record = next(self._stream)
        except ConsumerTimeout:
            raise
        except KafkaError as error:
            self._history.refused(self.name, error)
        else:
            self._take(TopicPartition(record.topic, record.partition), record)

    def _take(self, where: TopicPartition, record: ConsumerRecord) -> None:
        history, offset = self._history, record.offset
        claim = self.core.consumption.claimed[where].progress.claim
        before, expected = self._expected.get(where, (0, 0))
        if claim != before:
            if self.has_session:  # else it has stood still, and others may have committed meanwhile
                history.begins(where, offset, self.name, committed(self._cluster, where))
        elif offset != expected and not history.has_expired(where, expected, offset):
            history.violated(f"{self.name}: {where} goes on at {offset}, {expected} was to come")
        self._expected[where] = (claim, offset + 1)
        self.read.setdefault(where, set()).add(offset)
        history.read_count += 1
        history.at(where, offset, record.value, self.name)
        history.read(where, offset)

    def stop(self) -> None:
        """End at once, without a word to anybody."""
        self.polling.cancel()
        self._cluster.zookeeper.crash(self.store)

    async def close(self) -> None:
        """Leave the group; raises what ended its polls before."""
        self.polling.cancel()
        await asyncio.wait([self.polling])
        if not self.polling.cancelled():
            self.polling.result()
        if self._beginning is not None:
            await self._beginning
        await self.core.close(in_hand=True)


def committed(cluster: EmbeddedCluster, where: TopicPartition) -> int:
    """Return the offset in ZooKeeper; 0 when there is none."""
    znode = cluster.zookeeper.tree.get(offset_path(GROUP, *where))
    return 0 if znode is None else decode_offset(GROUP, *where, znode.data)


class OwnedPartitions:
    """Watches the group's partitions: their owners, and their offsets."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, connectors: Callable[[], Iterable[SimulatedConnector]]
    ) -> None:
        self._cluster, self._history, self._connectors = cluster, history, connectors
        self._offsets: dict[TopicPartition, int] = {}

    def look(self) -> None:
        """Look at all members, and at ZooKeeper."""
        readers: dict[TopicPartition, str] = {}
        for one in self._connectors():
            for where, name in one.owned.items() if one.has_session else ():
                owner = self._cluster.zookeeper.tree.get(owner_path(GROUP, *where))
                told = None if owner is None else owner.data.decode()
                if told != name:
                    self._history.violated(f"{one.name} reads {where} as {name}, its owner is {told}")
                first = readers.setdefault(where, one.name)
                if first != one.name:
                    self._history.violated(f"{where} is read by {first} and {one.name}")
        for where in {*self._offsets, *readers}:
            offset = committed(self._cluster, where)
            before = self._offsets.get(where, 0)
            if offset < before:
                self._history.violated(f"group {GROUP} is put back from {before} to {offset} in {where}")
            self._offsets[where] = offset

    def unrest(self, ends: dict[TopicPartition, int]) -> str | None:
        """Return what is missing until every partition has one reader, who has read and committed all."""
        for where, end in ends.items():
            readers = [one.name for one in self._connectors() if where in one.owned]
            if len(readers) != 1 or committed(self._cluster, where) != end:
                return f"group {GROUP} of {readers} is at {committed(self._cluster, where)} of {end} in {where}"
        return None
