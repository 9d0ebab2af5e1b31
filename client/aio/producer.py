"""Producer: sends records, on asyncio."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Self

from odradek.client import arguments, metrics
from odradek.client.aio.opening import AsyncClient
from odradek.client.aio.world import named, warn_dropped, world_of
from odradek.client.calls import within
from odradek.client.cluster import Cluster
from odradek.client.config import addresses, load
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout
from odradek.client.metadata import PartitionInfo
from odradek.client.producer.batch import Callback, FutureContext, RecordFuture
from odradek.client.producer.config import ProducerConfig, check, serializer
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.intake import Encoded, RecordIntake
from odradek.client.producer.interceptors import ProducerInterceptors, ProducerRecord
from odradek.client.producer.partitioners import partitioner
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.records import ConsumerGroupMetadata
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock
from odradek.world.network import Network

logger = logging.getLogger(__name__)
NOT_STARTED = "the producer is not started: use `async with`, or `await producer.start()`"
ABANDON_SECONDS = 2.0
"""Longest time that a producer takes to deliver its records when it was dropped without `close`."""


class Producer(AsyncClient):
    """Sends records to the brokers of a cluster; those of one partition in the order of their sends.

    Use it as `async with Producer(...) as producer`, or `await start()` and `await close()`. Its coroutines may be
    awaited only on the event loop on which it was started.
    """

    config: ProducerConfig

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take settings: Kafka's producer configs, as a mapping with Kafka's names or as snake_case keywords.

        `network`, `clock` and `random` replace those of this process, for tests. Raises ConfigError.
        """
        super().__init__(world_of(network, clock, random))
        self.config = named(check(load(ProducerConfig, config, settings)), "producer")
        addresses(self.config.bootstrap_servers)
        self._serializers = (
            serializer(self.config.key_serializer, "key"),
            serializer(self.config.value_serializer, "value"),
        )
        self.interceptors = ProducerInterceptors(list(self.config.interceptor_classes or []))
        self.intercepts = bool(self.interceptors)
        self._partitioner = partitioner(self.config, self._world.random)
        self._engine: ProducerEngine | None = None
        self._intake: RecordIntake | None = None
        self._closing = False
        self._ended = asyncio.Event()
        """Set when the producer is closed, and nothing will be delivered any more."""

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def _begin(self, cluster: Cluster) -> None:
        assert self._loop is not None
        self._engine = engine = ProducerEngine(cluster, self.config, self._partitioner)
        context = FutureContext(engine.lock, self._loop)
        self._intake = RecordIntake(engine, self._partitioner, self._serializers, context, self._call_on_loop)
        engine.start()

    @property
    def engine(self) -> ProducerEngine:
        """Return the engine, which is not for applications. Raises ClientError before `start`."""
        if self._engine is None:
            raise ClientError(NOT_STARTED)
        self._check_loop()
        return self._engine

    @property
    def intake(self) -> RecordIntake:
        """Return the intake of KafkaProducer's `send`, which does not wait. Raises ClientError before `start`."""
        if self._intake is None:
            raise ClientError(NOT_STARTED)
        return self._intake

    async def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Deliver what is queued, then close; records left after `timeout` seconds (None: no limit) fail.

        An open transaction is aborted. When this is cancelled, the producer closes at once. With `null_logger` no
        warning is logged about undelivered records. Calling it again waits for the end of the first call, at most
        `timeout` seconds.
        """
        engine, timeout = self._engine, None if timeout is None else arguments.duration(timeout)
        if engine is None or self._ended.is_set():
            return
        self._check_loop()
        if self._closing:
            with suppress(ClientTimeout):
                await self._within(self._ended.wait(), timeout)
            return
        self._closing = True
        clock = engine.cluster.clock
        end_ms = None if timeout is None else clock.monotonic_ms() + timeout * 1000
        closed = ClientClosed("the producer is closed")
        with engine.lock:
            if engine.ended is None:
                engine.ended = closed
        try:
            try:
                await self._within(engine.flush(), timeout)
            except ClientTimeout:
                level = logging.DEBUG if null_logger else logging.WARNING
                logger.log(level, "producer %s: closed before everything was delivered", self.config.client_id)
            if engine.transactions is not None and engine.ended is closed:
                left_ms = self.config.max_block_ms if end_ms is None else end_ms - clock.monotonic_ms()
                await engine.transactions.close(max(0.0, left_ms))
        finally:
            self.stop()

    def stop(self) -> None:
        """Close at once, without waiting: records that are not acknowledged fail with ClientClosed."""
        self._closing = True
        self._ended.set()
        if self._engine is None:
            return
        self.engine.stop(ClientClosed("the producer was closed before this record was acknowledged"))
        self.engine.cluster.close()

    async def abandon(self) -> None:
        """Close within ABANDON_SECONDS: the application dropped the producer without closing it."""
        await self.close(ABANDON_SECONDS)

    @property
    def undelivered(self) -> int:
        """Number of records that were sent and are not acknowledged yet."""
        return 0 if self._engine is None else sum(len(batch) for batch in list(self._engine.accumulator.unfinished))

    async def _within(self, work: Any, timeout: float | None) -> None:
        """Wait for `work`. Raises ClientTimeout after `timeout` seconds of the client's clock."""
        engine = self.engine

        def too_late() -> ClientTimeout:
            return ClientTimeout(f"{self.undelivered} record(s) are still not acknowledged after {timeout} s")

        await within(engine.cluster, "flush", work, None if timeout is None else timeout * 1000, too_late)

    def __del__(self) -> None:
        engine, loop = self.__dict__.get("_engine"), self.__dict__.get("_loop")
        if engine is None or loop is None or self._closing or engine.ended is not None:
            return
        if self._of_a_blocking_one:
            return
        said = f"producer {self.config.client_id}, with {self.undelivered} record(s) not delivered,"
        warn_dropped(self, said, loop, partial(_abandon, engine))

    # -- sending -------------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Queue a record and return a future; awaiting that returns the RecordMetadata, or raises the delivery's error.

        Keys and values are bytes, or whatever key.serializer and value.serializer take; `headers` are (name, bytes or
        None) pairs; `timestamp_ms` counts from 1970 (None: now). Without `partition` the partitioner chooses one.
        `callback(metadata, error)` is called on the loop once the outcome is known. Waits at most max.block.ms, for
        metadata and for memory together.

        Raises ClientTimeout (topic or partition unknown), BufferExhausted, RecordTooLarge, KafkaError
        (TOPIC_AUTHORIZATION_FAILED …), ClientClosed, ClientBroken; ConfigError for a value out of range, TypeError for
        one of the wrong type. With transactional.id also AbortRequired, and ClientError outside of a transaction.
        """
        self._check_loop()
        if self.intercepts:
            topic, value, key, headers, partition, timestamp_ms, callback = self.interceptors.on_send(
                ProducerRecord(topic, value, key, headers, partition, timestamp_ms), callback
            )
        try:
            intake = self._intake or self.intake
            left_ms: float = self.config.max_block_ms
            while (queued := intake.offer(topic, value, key, headers, partition, timestamp_ms, callback)) is None:
                left_ms = await self.until_known(topic, partition, left_ms)
            return queued if isinstance(queued, RecordFuture) else await self.until_queued(queued, left_ms)
        except Exception as error:
            self.interceptors.on_acknowledgement(None, error)
            raise
        except asyncio.CancelledError:  # while it waited, with nothing queued
            self.interceptors.on_acknowledgement(None, ClientError("the send was cancelled before it was queued"))
            raise

    async def until_known(self, topic: str, partition: int | None, wait_ms: float) -> float:
        """Wait until a topic, and the partition if one is given, is known; return what is left of `wait_ms`.

        Not for applications: `send` does this. Raises as `send`.
        """
        engine, clock = self.engine, self.engine.cluster.clock
        began_ms = clock.monotonic_ms()
        await engine.waits.await_topic(topic, partition, wait_ms)
        return max(0.0, wait_ms - (clock.monotonic_ms() - began_ms))

    async def until_queued(self, record: Encoded, wait_ms: float) -> RecordFuture:
        """Wait until there is memory for a record, then queue it. Raises BufferExhausted after `wait_ms`.

        Not for applications: `send` does this.
        """
        append = partial(self.intake.append, *record)
        return await self.engine.waits.until_queued(append, record.place, record.needed_bytes, wait_ms)

    def wait_until_queued(self, record: Encoded, wait_ms: float) -> RecordFuture:
        """Block the calling thread until there is memory for a record, then queue it: `until_queued` for
        KafkaProducer. Raises BufferExhausted after `wait_ms`."""
        intake = self.intake
        return self.engine.waits.wait_until_queued(
            partial(intake.append, *record), record.place, record.needed_bytes, wait_ms, intake.wake_sender
        )

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def flush(self, timeout: float | None = None) -> None:
        """Send all queued records now, without linger.ms, and wait until each is delivered or has failed.

        Raises ClientTimeout after `timeout` seconds (None: no limit); what is queued is sent all the same.
        """
        limit = None if timeout is None else arguments.duration(timeout)
        await self._within(self.engine.flush(), limit)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions; waits at most max.block.ms. Raises as `send`."""
        return {one.partition for one in await self.describe_partitions(topic)}

    async def describe_partitions(self, topic: str) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; waits at most max.block.ms. Raises as `send`."""
        self.engine.check_open()
        if not self.engine.cluster.view.partition_count(arguments.topic_name(topic)):
            await self.until_known(topic, None, self.config.max_block_ms)
        return list(self.engine.cluster.view.topics[topic].partitions)

    def bootstrap_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return self.engine.cluster.any_connected

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value.

        With `raw`, MetricName → an object with `value()`. Rates, averages and maxima cover metrics.num.samples windows.
        """
        figures = self.engine.metrics()
        return metrics.raw(figures) if raw else figures

    # -- transactions --------------------------------------------------------------------------------------------------

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Fence every other producer with this transactional.id and abort its open transaction. Call this first, once.

        Like all transaction methods it raises ClientTimeout after `timeout` seconds (None: max.block.ms); the request
        continues, and calling the same method again waits for it. All of them need transactional.id, and raise
        ClientError without it or when called in the wrong order. Once the producer is fenced (PRODUCER_FENCED), or may
        not use its id, they and `send` raise that KafkaError every time: close the producer.
        Raises KafkaError (INVALID_TRANSACTION_TIMEOUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED …).
        """
        await self._transactions("init_transactions").initialise(self._timeout_ms(timeout))

    async def begin_transaction(self) -> None:
        """Begin a transaction: each `send` before its end belongs to it. Brokers learn of it with the first record."""
        self._transactions("begin_transaction").begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, Any], group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Commit offsets of a consumer group as part of the transaction (KIP-447): they are lost if it is aborted.

        `offsets`: partition → offset of the next record to read, as an int or an OffsetAndMetadata. `group_metadata` is
        `consumer.group_metadata()`; the consumer needs enable.auto.commit=false. Raises AbortRequired, also when the
        group has begun another generation; ClientTimeout.
        """
        driver = self._transactions("send_offsets_to_transaction")
        wanted, group = arguments.offsets_to_commit(offsets), arguments.group_metadata(group_metadata)
        await driver.send_offsets(wanted, group, self._timeout_ms(timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction, then commit it; on return its coordinator has logged the commit.

        Raises AbortRequired when a record failed: nothing is committed, and `abort_transaction()` must be called.
        After ClientTimeout the outcome is unknown: call this again to learn it.
        """
        await self._transactions("commit_transaction").commit(self._timeout_ms(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: none of its records reaches read_committed consumers. Queued ones fail with
        TransactionAborted."""
        await self._transactions("abort_transaction").abort(self._timeout_ms(timeout))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction for an `async with` block; commit it at the end, or abort it when the block raises.

        If the previous block ended with ClientTimeout, this first waits for its commit or abort. A commit that timed
        out may have succeeded, so go back to the group's offsets (`seek_to_committed`) before sending again.
        """
        await self.begin_block()
        try:
            yield self
        except Exception:
            await self.abort_transaction()
            raise
        except BaseException:  # a cancelled task, say: that is raised even if the abort fails
            with suppress(KafkaError):
                await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except ClientError as error:
            if error.requires_abort:
                await self.abort_transaction()
            raise

    async def begin_block(self) -> None:
        """Begin a transaction, after the end of a previous block that timed out. `transaction` does this."""
        await self._transactions("begin_transaction").begin_after_the_last(self.config.max_block_ms)

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch that its batches carry (KIP-98); both -1 while it has none."""
        sequences = self.engine.sequences
        return (-1, -1) if sequences is None else (sequences.producer_id, sequences.producer_epoch)

    def _transactions(self, method: str) -> TransactionDriver:
        engine = self.engine
        engine.check_open()
        if engine.transactions is None:
            raise ClientError(f"{method}() needs transactional.id, which this producer does not have")
        return engine.transactions

    def _timeout_ms(self, timeout: float | None) -> float:
        return self.config.max_block_ms if timeout is None else arguments.duration(timeout) * 1000


def _abandon(engine: ProducerEngine) -> None:
    engine.stop(ClientClosed("the producer was dropped before this record was acknowledged"))
    engine.cluster.close()
