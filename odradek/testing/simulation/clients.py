"""Clients of a simulation: the public asyncio clients on virtual time, one host each, and what they must not see."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Sequence
from functools import partial

from odradek.aio import Consumer, Producer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.subscription import RebalanceListener
from odradek.client.errors import CorruptRecords
from odradek.client.records import ConsumerRecord, RecordMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History
from odradek.testing.simulation.unusual_settings import USUAL, Unusual

POLL_MS = 80
COMMIT_EVERY_POLLS = 4
POLL_RECORDS = 200


def bootstrap(cluster: EmbeddedCluster) -> list[str]:
    return [f"{broker.host}:{cluster.port}" for broker in cluster.brokers]


def fetch_again(consumer: Consumer, error: KafkaError) -> None:
    """Have damaged records be fetched once more: a consumer, like Java's, raises what it holds until one seeks."""
    if isinstance(error, CorruptRecords):
        for partition, state in consumer.engine.shared.positions.partitions.items():
            if partition == (error.topic, error.partition) and state.located:
                consumer.seek(partition, state.position)


class SimulatedProducer:
    """Idempotent, acks=all: sends numbered records to partitions that chance chooses."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        name: str,
        seed: int,
        topic: str,
        host: str = "",
        *,
        unusual: Unusual = USUAL,
    ) -> None:
        self.name, self.topic = name, topic
        self.partitions = 1
        """Number of the partition from which on it does not send."""
        self.sent = 0
        self.open = 0
        """Sent and not told about yet."""
        self._clock, self._history = cluster.clock, history
        self._random = random.Random(seed)
        settings = {
            "batch_size": self._random.choice((200, 400, 16_384)),
            "linger_ms": self._random.choice((0, 5)),
            "request_timeout_ms": self._random.choice((2_000, 8_000)),
            "delivery_timeout_ms": self._random.choice((15_000, 120_000)),
            "retry_backoff_ms": 50,
            "compression_type": self._random.choice(("none", "none", "lz4")),
        }
        self.producer = Producer(
            network=cluster.network.host(host or name),
            clock=cluster.clock,
            random=random.Random(seed + 1),
            bootstrap_servers=bootstrap(cluster),
            client_id=name,
            acks="all",
            **{**settings, **unusual.producers},
        )

    async def send(self) -> None:
        """Send one record more."""
        topic_partition = TopicPartition(self.topic, self._random.randrange(self.partitions))
        value = b"%s-%d" % (self.name.encode(), self.sent)
        self.sent += 1
        self.open += 1
        await self.producer.start()
        told = partial(self._told, topic_partition, value)
        try:
            await self.producer.send(self.topic, value, partition=topic_partition.partition, callback=told)
        except KafkaError as error:
            told(None, error)

    def _told(
        self, partition: TopicPartition, value: bytes, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        self.open -= 1
        if metadata is not None:
            self._history.acknowledge(partition, metadata.offset, value, self.name)
        else:
            self._history.failed[value] = str(error)
            self._history.note(f"{self.name}: {value!r} to {partition} failed: {error}")

    async def work(self, until_ms: float) -> None:
        """Send in spurts until that time."""
        while self._clock.monotonic_ms() < until_ms:
            for _ in range(self._random.randint(1, 6)):
                await self.send()
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.2, 0.5)))

    def stop(self) -> None:
        """End at once."""
        self.producer.stop()


class SimulatedConsumer(RebalanceListener):
    """Reads partitions from the beginning and compares with what is known."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        name: str,
        seed: int,
        topic: str,
        group: str | None = None,
        host: str = "",
        *,
        is_static: bool = False,
        unusual: Unusual = USUAL,
    ) -> None:
        """`is_static`: who comes after it on its host takes its place in the group."""
        self.name, self.topic, self._grouped = name, topic, group is not None
        self.positions: dict[TopicPartition, int] = {}
        """The next offset that it expects."""
        self.read: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        """What the group's coordinator took last from this member."""
        self._floors: dict[TopicPartition, int] = {}
        """What the group had committed when this member was given a partition."""
        self._clock, self._history = cluster.clock, history
        self._random = random.Random(seed)
        strategy = ("range", "roundrobin", "cooperative-sticky")[seed % 3 if group is None else len(group) % 3]
        settings = {"request_timeout_ms": 3_000, "metadata_max_age_ms": 2_000, "fetch_max_wait_ms": 400}
        self._consumer = Consumer(
            network=cluster.network.host(host or name),
            clock=cluster.clock,
            random=random.Random(seed + 1),
            bootstrap_servers=bootstrap(cluster),
            client_id=name,
            group_id=group,
            group_instance_id=host if is_static else None,
            enable_auto_commit=False,
            auto_offset_reset="earliest" if group or history.expires else "none",
            session_timeout_ms=8_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=20_000,
            default_api_timeout_ms=10_000,
            partition_assignment_strategy=[strategy],
            allow_auto_create_topics=False,
            **{**settings, **unusual.consumers},
        )
        self._consumer.open(asyncio.get_running_loop())
        if group is not None:
            self._consumer.subscribe([topic], listener=self)
        self.on_fenced: Callable[[], bool] = lambda: False
        """Question, when another process has taken its place, whether it ends without a complaint."""
        self.wanders = False
        """True if it goes on, at each poll, from any offset that is known to be there."""
        self._polls = 0
        self.polling = asyncio.ensure_future(self._work())

    @property
    def engine(self) -> ConsumerEngine:
        return self._consumer.engine

    def assign(self, partitions: Sequence[int]) -> None:
        """Read these, without a group; those that are new to it from offset 0."""
        wanted = [TopicPartition(self.topic, number) for number in partitions]
        self._consumer.assign(wanted)
        for topic_partition in wanted:
            if topic_partition not in self.positions:
                self.positions[topic_partition] = 0
                self._consumer.seek(topic_partition, 0)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * POLL_MS / 1000)
            if not self._grouped and not self._consumer.assignment():
                continue
            if self.wanders:
                self._wander()
            try:
                taken = await self._consumer.getmany(max_records=POLL_RECORDS)
            except KafkaError as error:
                if error.code == ErrorCode.FENCED_INSTANCE_ID and self.on_fenced():
                    return
                self._history.refused(self.name, error)
                fetch_again(self._consumer, error)
                continue
            for topic_partition, records in taken.items():
                for record in records:
                    self._take(topic_partition, record)
                if records:
                    self._history.read(topic_partition, records[-1].offset)
            self._polls += 1
            if self._grouped and self._polls % COMMIT_EVERY_POLLS == 0:
                await self._commit()

    def _wander(self) -> None:
        for partition in self.positions:
            begin, known = self._history.log_start_of(partition), self._history.values.get(partition, {})
            if begin <= (last := max(known, default=-1)):
                self.positions[partition] = self._random.randint(begin, last)
                self._consumer.seek(partition, self.positions[partition])

    def _take(self, partition: TopicPartition, record: ConsumerRecord) -> None:
        expected, offset = self.positions.get(partition), record.offset
        if expected is not None and offset != expected and not self._history.has_expired(partition, expected, offset):
            self._history.violated(f"{self.name}: {partition} goes on at {offset}, {expected} was to come")
        if expected is None and self._grouped:
            self._history.begins(partition, offset, self.name, self._floors[partition])
        self.positions[partition] = offset + 1
        self.read.setdefault(partition, set()).add(offset)
        self._history.read_count += 1
        self._history.at(partition, offset, record.value, self.name)

    # -- what the group tells ------------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._commit()
        self._give_up(revoked)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._give_up(lost)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._floors.update({partition: self._history.committed_of(partition) for partition in assigned})
        self._history.note(f"{self.name}: has {sorted(tp.partition for tp in self._consumer.assignment())}")

    def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        for topic_partition in partitions:
            self.positions.pop(topic_partition, None)
            self.committed.pop(topic_partition, None)

    async def _commit(self) -> None:
        consumed = self.engine.shared.positions.consumed()
        if all(self.committed.get(tp) == wanted.offset for tp, wanted in consumed.items()):
            return
        try:
            await self._consumer.commit(consumed)
        except KafkaError as error:
            self._history.note(f"{self.name}: commit: {error}")
        else:
            self.committed = {tp: wanted.offset for tp, wanted in consumed.items()}
            self._history.committed(self.committed)

    async def leave(self) -> None:
        """Leave the group."""
        self.polling.cancel()
        await asyncio.wait([self.polling])
        with contextlib.suppress(KafkaError):
            await self._consumer.close()

    async def close(self) -> None:
        """End it; raises what ended its polls before."""
        self.polling.cancel()
        await asyncio.wait([self.polling])
        self.stop()
        if not self.polling.cancelled():
            self.polling.result()

    def stop(self) -> None:
        """End at once, without a word to the group."""
        self.polling.cancel()
        self._consumer.stop()
