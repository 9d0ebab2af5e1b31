"""Transactions of a simulation: producers with transactional ids, a reader of what is committed, and what it must see.

Each transaction writes some records to partitions that chance chooses, and is committed or aborted. A producer that
does not know how its transaction ended is left behind, alive: its successor, of the same transactional id, fences it.
What the reader is given must be all of a transaction or nothing, never of one that was aborted, and everything once.
Many commit the position of a group as well: `transactional_positions` looks at those. One is left open for good.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence

from odradek.aio import Consumer, Producer
from odradek.broker.replication.partition import Partition
from odradek.broker.transactions.transaction_state import ONGOING
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.protocol.control_records import ControlType, control_type
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import batches
from odradek.protocol.records import decode_records
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import bootstrap, fetch_again
from odradek.testing.simulation.history import History
from odradek.testing.simulation.transactional_positions import (
    POSITION_OF,
    TOPIC,
    Outcome,
    Transaction,
    TransactionalPositions,
)
from odradek.testing.simulation.unusual_settings import USUAL, Unusual

PARTITIONS = 2
TIMEOUT_MS = 8_000
"""Time after which a coordinator aborts what was left open."""
CALL_S = 12.0
FORGOTTEN = 0.05
"""How often a producer is believed dead after a transaction, and goes on beside its successor."""
ZOMBIE_TRANSACTIONS = 20
WITH_POSITION = 0.6
"""How often a transaction commits a position."""


class TransactionalProducer:
    """A transactional id, and the producers that it has one after another."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        name: str,
        seed: int,
        transaction_of: dict[bytes, Transaction],
        unusual: Unusual = USUAL,
    ) -> None:
        self.name, self.transaction_of, self._unusual = name, transaction_of, unusual
        self.transactions: list[Transaction] = []
        self.group = f"group-of-{name}"
        self._cluster, self._history, self._clock = cluster, history, cluster.clock
        self._random = random.Random(seed)
        self._producers: list[Producer] = []
        self._zombies: list[asyncio.Task[None]] = []
        self._sent = 0

    async def work(self, until_ms: float) -> None:
        """Carry out transactions until that time; the last one is ended for certain."""
        while self._clock.monotonic_ms() < until_ms:
            try:
                producer = await self._successor()
                while self._clock.monotonic_ms() < until_ms and self._random.random() > FORGOTTEN:
                    await self._one(producer)
                    await asyncio.sleep(self._random.choice((0.0, 0.05, 0.5)))
                self._zombies.append(asyncio.ensure_future(self._linger(producer)))
            except KafkaError as error:
                self._history.note(f"{self.name}: {error!r:.120}")
                await asyncio.sleep(0.2)
        await self.settle()

    async def _linger(self, producer: Producer) -> None:
        """Go on as one who was believed dead: it must be fenced, and do no harm to its successor."""
        with contextlib.suppress(KafkaError):
            for _ in range(ZOMBIE_TRANSACTIONS):
                await self._one(producer)
                await asyncio.sleep(self._random.choice((0.0, 0.05, 0.5)))

    async def _successor(self) -> Producer:
        """Return the next producer of this id; the former ones live on."""
        own = random.Random(self._random.random())
        settings = {
            "request_timeout_ms": 3_000,
            "retry_backoff_ms": 50,
            "batch_size": self._random.choice((200, 16_384)),
            "linger_ms": self._random.choice((0, 5)),
        }
        self._producers.append(
            Producer(
                network=self._cluster.network.host(self.name),
                clock=self._clock,
                random=own,
                bootstrap_servers=bootstrap(self._cluster),
                client_id=self.name,
                transactional_id=self.name,
                transaction_timeout_ms=TIMEOUT_MS,
                delivery_timeout_ms=6_000,
                **{**settings, **self._unusual.producers},
            )
        )
        producer = await self._producers[-1].start()
        await producer.init_transactions(CALL_S)
        for transaction in self.transactions:
            if transaction.outcome is Outcome.OPEN:
                transaction.outcome = Outcome.UNKNOWN
        return producer

    async def _one(self, producer: Producer) -> None:
        """Run one transaction from its beginning to its end. Raises KafkaError when its end is not known."""
        transaction = Transaction()
        self.transactions.append(transaction)
        position = len(self.transactions)
        await producer.begin_transaction()
        for _ in range(self._random.randint(1, 5)):
            value = b"%s-%d" % (self.name.encode(), self._sent)
            self._sent += 1
            transaction.values.append(value)
            self.transaction_of[value] = transaction
            transaction.all_sent = False
            await producer.send(TOPIC, value, partition=self._random.randrange(PARTITIONS))
            transaction.all_sent = True
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.choice((0.0, 0.02, 0.3)))
        if self._random.random() < WITH_POSITION:
            offsets = {POSITION_OF: OffsetAndMetadata(position)}
            transaction.position = position
            await producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(self.group), CALL_S)
        if self._random.random() < 0.25:
            await producer.abort_transaction(CALL_S)
            transaction.outcome = Outcome.ABORTED
        else:
            transaction.is_decided = True
            await producer.commit_transaction(CALL_S)
            transaction.outcome = Outcome.COMMITTED

    async def settle(self) -> None:
        """Let a successor end whatever is open."""
        while True:
            try:
                await self._successor()
            except KafkaError as error:
                self._history.note(f"{self.name}: {error!r:.120}")
                await asyncio.sleep(0.5)
            else:
                break
        for zombie in self._zombies:
            await zombie

    def stop(self) -> None:
        for zombie in self._zombies:
            zombie.cancel()
        for producer in self._producers:
            producer.stop()


class AbandonedProducer(TransactionalProducer):
    """A transactional id whose only producer leaves a transaction open: its coordinator has to abort it in time."""

    _ending: asyncio.Task[None] | None = None

    async def work(self, until_ms: float) -> None:
        """Commit a position, at some time until then, and leave a transaction open with a newer one."""
        left_ms = until_ms - self._clock.monotonic_ms()
        await asyncio.sleep(self._random.random() * max(0.0, left_ms) / 1000)
        try:
            producer = await self._successor()
            await producer.begin_transaction()
            await self._commit_position(producer, 1)
            await producer.commit_transaction(CALL_S)
            await producer.begin_transaction()
            await self._commit_position(producer, 2)
            transaction = Transaction()
            self.transactions.append(transaction)
            for number in range(self._random.randint(1, 3)):
                value = b"%s-%d" % (self.name.encode(), number)
                transaction.values.append(value)
                self.transaction_of[value] = transaction
                await producer.send(TOPIC, value, partition=self._random.randrange(PARTITIONS))
        except KafkaError as error:
            self._history.note(f"{self.name}: {error!r:.120}")

    async def _commit_position(self, producer: Producer, position: int) -> None:
        offsets = {POSITION_OF: OffsetAndMetadata(position)}
        await producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(self.group), CALL_S)

    async def settle(self) -> None:
        """Leave it to the coordinator."""

    def see_to_clocks(self) -> None:
        """Have a successor end the transaction after all, when it began ahead of its coordinator's clock, which was put
        back by less than the timeout. If by more, the coordinator aborts it."""
        for broker in self._cluster.brokers if self._ending is None else ():
            states = dict(broker.server.services.transactions.list_transactions()[1]) if broker.running else {}
            state = states.get(self.name)
            if state is not None and state.status is ONGOING:
                left_ms = state.started_ms + state.timeout_ms - broker.clock.now_ms()
                if TIMEOUT_MS < left_ms <= 2 * TIMEOUT_MS:
                    self._ending = asyncio.ensure_future(super().settle())

    def stop(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        super().stop()


class CommittedReader:
    """Reads all partitions of the topic with isolation.level=read_committed."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        history: History,
        seed: int,
        transaction_of: dict[bytes, Transaction],
        name: str = "committed-reader",
        unusual: Unusual = USUAL,
    ) -> None:
        self._name, self._transaction_of = name, transaction_of
        self.seen: dict[bytes, tuple[TopicPartition, int]] = {}
        self.positions: dict[TopicPartition, int] = {}
        self._history = history
        settings = {"request_timeout_ms": 3_000, "metadata_max_age_ms": 2_000, "fetch_max_wait_ms": 400}
        self._consumer = Consumer(
            network=cluster.network.host(name),
            clock=cluster.clock,
            random=random.Random(seed),
            bootstrap_servers=bootstrap(cluster),
            client_id=name,
            isolation_level="read_committed",
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            **{**settings, **unusual.consumers},
        )
        self._consumer.open(asyncio.get_running_loop())
        self.wanted = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self._consumer.assign(self.wanted)
        for partition in self.wanted:
            self._consumer.seek(partition, 0)
        self.polling = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(0.08)
            try:
                taken = await self._consumer.getmany(max_records=200)
            except KafkaError as error:
                self._history.refused(self._name, error)
                fetch_again(self._consumer, error)
                continue
            for partition, records in taken.items():
                for record in records:
                    self._take(partition, record.offset, record.value)
                if records:
                    self._history.read(partition, records[-1].offset)
            positions = self._consumer.engine.shared.positions.partitions
            self.positions = {at: positions[at].position for at in self.wanted if positions[at].position is not None}

    def _take(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        before = self.seen.get(value)
        if before is not None:
            self._history.violated(f"committed {value!r} is at {before} and at {partition} {offset}")
        if not self._transaction_of[value].is_decided:
            self._history.violated(f"{value!r} at {partition} {offset} is read, and nobody has asked to commit it")
        self.seen[value] = (partition, offset)
        self._history.read_count += 1

    def stop(self) -> None:
        self.polling.cancel()
        self._consumer.stop()


def may_be_seen(transaction: Transaction, seen: Sequence[bytes]) -> bool:
    """Tell whether readers of committed data may have been given so much of a transaction, in the end."""
    whole = len(seen) == len(transaction.values)
    match transaction.outcome:
        case Outcome.COMMITTED:
            return whole
        case Outcome.ABORTED:
            return not seen
        case _:
            return not seen or (whole and transaction.all_sent)


def held_back(leader: Partition, position: int | None) -> str | None:
    """Return what keeps a reader of committed data, who is at `position`, from a partition's end; None: nothing."""
    end = leader.log.log_end_offset
    if leader.last_stable_offset != end:
        return f"{leader}: last stable offset {leader.last_stable_offset}, end {end}"
    if position != end:
        return f"committed-reader is at {position} of {end}: {leader}"
    return None


def aborted_in(data: bytes) -> set[tuple[int, int, int]]:
    """Return the aborted transactions of whole batches: producer id, first offset, offset of the marker."""
    begun: dict[int, int] = {}
    aborted = set()
    for position, header in batches(data):
        if not header.is_control and header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
        elif header.is_control and header.producer_id in begun:
            first = begun.pop(header.producer_id)
            if control_type(decode_records(data, position).keys[0] or b"") is ControlType.ABORT:
                aborted.add((header.producer_id, first, header.base_offset))
    return aborted


class Transactions:
    """Transactional producers and the reader of one simulation."""

    def __init__(self, cluster: EmbeddedCluster, history: History, seed: int, unusual: Unusual = USUAL) -> None:
        self._cluster, self._history = cluster, history
        self._seed, self._unusual = seed, unusual
        self._transaction_of = of = dict[bytes, Transaction]()
        self.producers = [
            TransactionalProducer(cluster, history, f"transactor-{n}", seed + n, of, unusual) for n in range(2)
        ]
        self.reader = CommittedReader(cluster, history, seed + 9, of, unusual=unusual)
        self.positions = [
            TransactionalPositions(cluster, history, producer.group, producer.transactions, unusual)
            for producer in self.producers
        ]
        self._abandoned = AbandonedProducer(cluster, history, "abandoned", seed + 5, of, unusual)
        self.producers.append(self._abandoned)

    def read_again(self) -> CommittedReader:
        """Make a reader who reads everything once more."""
        seed, unusual = self._seed + 8, self._unusual
        return CommittedReader(self._cluster, self._history, seed, self._transaction_of, "again-committed", unusual)

    def unrest(self) -> str | None:
        """Return what has to come yet: the reader is at the end of each partition, and no transaction holds it back."""
        self._abandoned.see_to_clocks()
        for partition in self.reader.wanted:
            for broker in self._cluster.brokers:
                held = broker.server.services.replicas.partitions.get((partition.topic, partition.partition))
                if held is None:
                    return f"{broker.host} does not hold {partition}"
                text = held_back(held, self.reader.positions.get(partition)) if held.is_leader else None
                if text is not None:
                    return text
        seen = self.reader.seen.keys()
        return next((text for one in self.positions if (text := one.unrest(seen)) is not None), None)

    def judge(self) -> None:
        """Compare, after rest, what was read with what the producers know."""
        for producer in self.producers:
            for transaction in producer.transactions:
                self._judge(producer.name, transaction)

    def _judge(self, name: str, transaction: Transaction) -> None:
        seen = [value for value in transaction.values if value in self.reader.seen]
        if not may_be_seen(transaction, seen):
            self._history.violated(
                f"{name}: {transaction.outcome.value} transaction of {transaction.values}: committed are {seen}"
            )

    def stop(self) -> None:
        for producer in self.producers:
            producer.stop()
        for position in self.positions:
            position.stop()
        self.reader.stop()
