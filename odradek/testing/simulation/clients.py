"""Clients of a simulation: our own engines on virtual time, one host each."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.consumer.buffer import RecordBuffer
from odradek.client.consumer.commits import Commits
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.steps import Adopt, Prepare, member_settings
from odradek.client.errors import ClientClosed, ClientError
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.partitioners import RoundRobinPartitioner
from odradek.client.records import RecordMetadata, TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.history import History

POLL_MS = 40
COMMIT_EVERY_POLLS = 8
POLL_RECORDS = 200


def bootstrap(cluster: EmbeddedCluster) -> list[str]:
    return [f"{broker.host}:{cluster.port}" for broker in cluster.brokers]


class SimulatedProducer:
    """Idempotent, acks=all: sends numbered records to partitions that chance chooses."""

    def __init__(self, cluster: EmbeddedCluster, history: History, name: str, seed: int, topic: str) -> None:
        self.name, self.topic = name, topic
        self.partitions = 1
        """It sends to partitions below this."""
        self.sent = 0
        self.open = 0
        """Sent and not told about yet."""
        self._clock, self._history = cluster.clock, history
        self._random = random.Random(seed)
        config = load(
            ProducerConfig,
            None,
            {
                "bootstrap_servers": bootstrap(cluster),
                "client_id": name,
                "acks": "all",
                "batch_size": self._random.choice((200, 400, 16_384)),
                "linger_ms": self._random.choice((0, 5)),
                "request_timeout_ms": self._random.choice((2_000, 8_000)),
                "delivery_timeout_ms": self._random.choice((15_000, 120_000)),
                "retry_backoff_ms": 50,
                "compression_type": self._random.choice(("none", "none", "lz4")),
            },
        )
        network = cluster.network.host(name)
        self._cluster = Cluster(network, cluster.clock, random.Random(seed + 1), config)
        self.engine = ProducerEngine(self._cluster, config, RoundRobinPartitioner())
        self.running = asyncio.ensure_future(self.engine.run())

    def send(self) -> None:
        """One record more."""
        topic_partition = TopicPartition(self.topic, self._random.randrange(self.partitions))
        value = b"%s-%d" % (self.name.encode(), self.sent)
        now_ms = self._clock.monotonic_ms()
        with self.engine.lock:
            appended = self.engine.accumulator.append(topic_partition, self._clock.now_ms(), None, value, (), now_ms)
        assert appended is not None, "the producer's memory is full"
        appended.batch.callbacks.append((appended.index, partial(self._told, topic_partition, value)))
        self.sent += 1
        self.open += 1
        self.engine.wake()

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
                self.send()
            await asyncio.sleep(self._random.choice((0.0, 0.01, 0.1, 0.3)))

    async def close(self) -> None:
        self.engine.stop(ClientClosed("the run is over"))
        await self.running
        self._cluster.close()


class SimulatedConsumer:
    """Reads partitions from the beginning and compares with what is known."""

    def __init__(
        self, cluster: EmbeddedCluster, history: History, name: str, seed: int, topic: str, group: str | None = None
    ) -> None:
        self.name, self.topic = name, topic
        self.positions: dict[TopicPartition, int] = {}
        """The next offset that it expects."""
        self.read: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        """What the group's coordinator took last from this member."""
        self._clock, self._history = cluster.clock, history
        self._random = random.Random(seed)
        strategy = ("range", "roundrobin", "cooperative-sticky")[seed % 3 if group is None else len(group) % 3]
        config = load(
            ConsumerSettings,
            None,
            {
                "bootstrap_servers": bootstrap(cluster),
                "client_id": name,
                "auto_offset_reset": "earliest" if group else "none",
                "session_timeout_ms": 8_000,
                "heartbeat_interval_ms": 1_000,
                "max_poll_interval_ms": 20_000,
                "request_timeout_ms": 3_000,
                "default_api_timeout_ms": 10_000,
                "metadata_max_age_ms": 2_000,
                "fetch_max_wait_ms": 200,
                "partition_assignment_strategy": [strategy],
                "allow_auto_create_topics": False,
                **({"group_id": group} if group else {}),
            },
        )
        self._cluster = Cluster(cluster.network.host(name), cluster.clock, random.Random(seed + 1), config)
        self.engine = ConsumerEngine(self._cluster, config)
        self._buffer = RecordBuffer(self.engine.shared, config, None, None)
        self._polls = 0
        if group is not None:
            driver = self.engine.group = GroupDriver(self._cluster, Membership(member_settings(config)), lambda: None)
            self._commits = Commits(driver)
            driver.membership.subscribe([topic])
            self._cluster.needs.want_exactly({topic}, cluster.clock.monotonic_ms())
            self.engine.spawn(driver.run())
        self.running = asyncio.ensure_future(self.engine.run())
        self.polling = asyncio.ensure_future(self._work())

    def assign(self, partitions: Sequence[int]) -> None:
        """Read these, without a group; those that are new to it from offset 0."""
        wanted = [TopicPartition(self.topic, number) for number in partitions]
        self.engine.shared.positions.assign(wanted)
        for topic_partition in wanted:
            if topic_partition not in self.positions:
                self.positions[topic_partition] = 0
                self.engine.shared.positions.jump(topic_partition, 0)
        self._cluster.needs.want_exactly({self.topic}, self._clock.monotonic_ms())
        self.engine.wake()

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * POLL_MS / 1000)
            await self._poll()

    async def _poll(self) -> None:
        failure = self.engine.shared.take_failure()
        if failure is not None:
            self._history.violated(f"{self.name}: {failure!r}")
        self._polls += 1
        if self.engine.group is not None:
            await self._take_part(self.engine.group)
        if self.engine.group is not None and self.engine.group.membership.lost:
            return
        taken = self._buffer.take(POLL_RECORDS)
        for topic_partition, records in taken.items():
            for record in records:
                self._take(topic_partition, record.offset, record.value)
        self.engine.wake()

    def _take(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        expected = self.positions.get(partition)
        if expected is not None and offset != expected:
            self._history.violated(f"{self.name}: {partition} goes on at {offset}, {expected} was to come")
        if expected is None and self.engine.group is not None:
            self._history.begins(partition, offset, self.name)
        self.positions[partition] = offset + 1
        self.read.setdefault(partition, set()).add(offset)
        self._history.read_count += 1
        self._history.at(partition, offset, value, self.name)

    # its part in a group, as KafkaConsumer plays it

    async def _take_part(self, group: GroupDriver) -> None:
        membership = group.membership
        if membership.polled(self._clock.monotonic_ms()):
            group.wake()
        if membership.failure is not None:
            self._history.violated(f"{self.name}: {membership.failure!r}")
        turn = membership.turn
        if isinstance(turn, Prepare):
            if turn.revoked:
                await self._commit()
            self._give_up([*turn.revoked, *turn.lost])
        elif isinstance(turn, Adopt):
            self._give_up(turn.revoked)
            with self.engine.shared.lock:
                self.engine.shared.positions.assign(turn.all)
            self._history.note(f"{self.name}: has {[tp.partition for tp in turn.all]}")
        if turn is not None:
            membership.turn_done(turn)
            group.wake()
            self.engine.wake()
        elif self._polls % COMMIT_EVERY_POLLS == 0:
            await self._commit()

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        with self.engine.shared.lock:
            kept = [tp for tp in self.engine.shared.positions.partitions if tp not in partitions]
            self.engine.shared.positions.assign(kept)
        for topic_partition in partitions:
            self.positions.pop(topic_partition, None)
            self.committed.pop(topic_partition, None)

    async def _commit(self) -> None:
        consumed = self.engine.shared.positions.consumed()
        if all(self.committed.get(tp) == wanted.offset for tp, wanted in consumed.items()):
            return
        try:
            await self._commits.commit(consumed, self.engine.deadline("committing offsets"))
        except (KafkaError, ClientError) as error:
            self._history.note(f"{self.name}: commit: {error}")
        else:
            self.committed = {tp: wanted.offset for tp, wanted in consumed.items()}
            self._history.committed(self.committed)

    async def close(self) -> None:
        self.polling.cancel()
        await asyncio.wait([self.polling])
        if not self.polling.cancelled():
            self.polling.result()
        self.engine.stop()
        await self.running
        self._cluster.close()
