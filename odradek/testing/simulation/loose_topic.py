"""A topic that may lose records: written with acks=0 and acks=1, and led by whoever is there when the ISR is not.

It may lose exactly this: with acks=1 what an election came upon before it was replicated; with unclean elections also
what was committed before one. With acks=0 anything; but nothing is there twice, for nothing is repeated, and nothing
that nobody has sent.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from functools import partial

from odradek.aio import Producer
from odradek.broker.log.errors import StorageFailure
from odradek.broker.replication.partition import Partition
from odradek.client.records import RecordMetadata
from odradek.protocol.errors import KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import bootstrap
from odradek.testing.simulation.history import History
from odradek.testing.simulation.inspection import bytes_of, records_of

TOPIC = "loose"
WHERE = (TOPIC, 0)
SETTINGS = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


class LooseTopic:
    """Producers of one simulation's topic, and what may have become of their records."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, leader: Callable[[tuple[str, int]], Partition | None]
    ) -> None:
        """`leader` finds the present leader of a partition, while it runs and knows that it leads."""
        self._cluster, self._history, self._clock = cluster, history, cluster.clock
        self._leader = leader
        self.producers: list[Producer] = []
        self._sent: set[bytes] = set()
        self._told: dict[int, bytes] = {}
        """What was acknowledged with acks=1 since the last election, by the leader that it made."""
        self._committed: dict[int, bytes] = {}
        """What leaders had below their high watermark since the last unclean election."""
        self._end = 0

    # the producers

    async def work(self, seed: int, until_ms: float) -> None:
        """Write until that time."""
        chance = random.Random(seed)
        for acks in (0, 1):
            self.producers.append(self._producer(acks, seed))
            await self.producers[-1].start()
        while self._clock.monotonic_ms() < until_ms:
            for acks, producer in enumerate(self.producers):
                await self._send(acks, producer)
            await asyncio.sleep(chance.choice((0.01, 0.2, 0.5)))

    def _producer(self, acks: int, seed: int) -> Producer:
        name = f"loose-{acks}"
        return Producer(
            network=self._cluster.network.host(name),
            clock=self._clock,
            random=random.Random(seed + acks),
            bootstrap_servers=bootstrap(self._cluster),
            client_id=name,
            acks=acks,
            enable_idempotence=False,
            retries=0,
            request_timeout_ms=2_000,
            delivery_timeout_ms=6_000,
            max_block_ms=1_000,
        )

    async def _send(self, acks: int, producer: Producer) -> None:
        value = b"loose-%d-%d" % (acks, len(self._sent))
        self._sent.add(value)
        try:
            await producer.send(TOPIC, value, partition=0, callback=partial(self._hear, value))
        except KafkaError as error:
            self._history.note(f"{value!r}: {error!r:.120}")

    def _hear(self, value: bytes, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Take note of an acknowledgement, unless it comes of a leader that another one has followed already."""
        if metadata is not None and metadata.offset >= 0:
            held = self._records(metadata.offset, committed=False)
            if held.get(metadata.offset) == value:
                self._told[metadata.offset] = value

    def _records(self, begin: int, *, committed: bool) -> dict[int, bytes]:
        """Return what the present leader has from there on, all or what is `committed`; nothing when it is away or its
        disk has failed, or rotted."""
        leader = self._leader(WHERE)
        if leader is None or leader.local_id in self._history.rotten:
            return {}
        end = leader.high_watermark if committed else leader.log.log_end_offset
        begin = max(begin, leader.log.log_start_offset)
        try:
            return dict(records_of(bytes_of(leader.log, begin, end))) if begin < end else {}
        except (OSError, StorageFailure):
            return {}

    def stop(self) -> None:
        for producer in self.producers:
            producer.stop()

    # what happens to it

    def elected(self, where: tuple[str, int], unclean: bool) -> None:
        """Note an election, in the moment in which ZooKeeper takes it."""
        if where == WHERE:
            self._told = {}
            if unclean:
                self._history.note(f"{TOPIC}: an unclean election")
                self._committed, self._end = {}, 0

    def look(self) -> None:
        """Look at what the present leader counts as committed."""
        for offset, value in self._records(self._end, committed=True).items():
            if self._committed.setdefault(offset, value) != value:
                self._history.violated(
                    f"{TOPIC} offset {offset}: {self._committed[offset]!r} was committed, now {value!r}"
                )
            self._end = max(self._end, offset + 1)

    # the verdict

    def judge(self, there: Mapping[int, bytes]) -> None:
        """Compare, after rest, what is in the log with what was sent, told and committed."""
        places: dict[bytes, int] = {}
        for offset, value in there.items():
            if value not in self._sent:
                self._history.violated(f"{TOPIC} offset {offset}: nobody has sent {value!r}")
            if value in places:
                self._history.violated(f"{TOPIC}: {value!r} is at {places[value]} and at {offset}")
            places[value] = offset
        for held, without in ((self._told, "an election"), (self._committed, "an unclean election")):
            lost = {offset: value for offset, value in held.items() if there.get(offset) != value}
            if lost:
                self._history.violated(f"{TOPIC}: lost without {without}: {lost}")
