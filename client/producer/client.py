"""KafkaProducer: the blocking face of the producer."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from odradek.client.config import load
from odradek.client.errors import BufferExhausted, ClientClosed, ClientError, ClientTimeout, ConfigError
from odradek.client.metadata import PartitionInfo
from odradek.client.producer.accumulator import Appended
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.config import ProducerConfig, check, check_headers, serializer
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.outcome import Callback, RecordFuture
from odradek.client.producer.partitioners import (
    FunctionPartitioner,
    Partitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from odradek.client.producer.transaction_methods import TransactionMethods
from odradek.client.records import Headers, RecordMetadata, TopicPartition
from odradek.client.runtime import Runtime, named

logger = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record as interceptors see it: before serializers and partitioner."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class KafkaProducer(TransactionMethods):
    """Sends records. Thread-safe.

    `send` returns at once with a future; records of one partition are delivered in the order of their sends.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self.config = named(check(load(ProducerConfig, config, settings)), "producer")
        self._key_serializer = serializer(self.config.key_serializer, "key")
        self._value_serializer = serializer(self.config.value_serializer, "value")
        self._interceptors = list(self.config.interceptor_classes or [])
        self._runtime = Runtime(self.config)
        self._partitioner = self._choose_partitioner()
        self._engine = self._runtime.thread.call(
            lambda: ProducerEngine(self._runtime.cluster, self.config, self._partitioner)
        )
        self._runtime.thread.call(self._engine.start)
        self._wake_asked = False
        self._closed = False

    def __enter__(self) -> "KafkaProducer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _choose_partitioner(self) -> Partitioner:
        given, source = self.config.partitioner, self._runtime.random
        if given is None or given == "sticky":
            return StickyPartitioner(source, ignore_keys=self.config.partitioner_ignore_keys)
        if given == "round_robin":
            return RoundRobinPartitioner()
        if given == "random":
            return RandomPartitioner(source)
        if hasattr(given, "partition"):
            chosen: Partitioner = given
            return chosen
        if callable(given):
            return FunctionPartitioner(given)
        self._runtime.stop()
        raise ConfigError(
            f"partitioner must be sticky, round_robin, random, a function or a Partitioner, not {given!r}"
        )

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Queue a record. `callback(metadata, error)` is called on the producer's thread when its fate is known.

        Blocks at most max.block.ms, for metadata and for memory together. Raises ClientTimeout (unknown topic or
        partition), BufferExhausted, RecordTooLarge, KafkaError (TOPIC_AUTHORIZATION_FAILED …), ClientClosed,
        ConfigError (partition or timestamp out of range), TypeError (what is to be sent is no bytes). With
        transactional.id also AbortRequired, and ClientError outside of a transaction.
        """
        if timestamp_ms is not None and (not isinstance(timestamp_ms, int) or timestamp_ms < 0):
            raise ConfigError(f"a timestamp is a whole number of milliseconds since 1970, not {timestamp_ms!r}")
        if self._interceptors:
            record = self._intercepted(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key, headers, partition, timestamp_ms = record
            callback = self._acknowledging(callback)
        started = time.monotonic()
        view = self._engine.cluster.view
        count = view.partition_count(topic)
        if not count or (partition is not None and partition >= count):
            self._await_topic(topic, partition)
            view = self._engine.cluster.view
            count = view.partition_count(topic)
        if headers:
            check_headers(headers)
        key_bytes = self._key_serializer(topic, headers, key)
        value_bytes = self._value_serializer(topic, headers, value)
        if partition is None:
            available = view.available_partitions(topic) if key_bytes is None else ()
            partition = self._partitioner.partition(topic, key_bytes, count, available)
        if not 0 <= partition < count:
            raise ConfigError(f"partition {partition} of topic {topic}: its partitions are 0-{count - 1}")
        place = TopicPartition(topic, partition)
        stamp_ms = self._runtime.clock.now_ms() if timestamp_ms is None else timestamp_ms
        return self._append(place, stamp_ms, key_bytes, value_bytes, headers, callback, started)

    def _append(
        self,
        place: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        callback: Callback | None,
        started: float,
    ) -> RecordFuture:
        engine = self._engine
        with engine.lock:
            if self._closed:
                raise ClientClosed("the producer is closed")
            appended = engine.accumulator.append(
                place, timestamp_ms, key, value, headers, self._runtime.clock.monotonic_ms()
            )
            if appended is None:
                appended = self._append_when_free(place, timestamp_ms, key, value, headers, started)
            if callback is not None:
                appended.batch.callbacks.append((appended.index, callback))
            wake = appended.wake and not self._wake_asked
            self._wake_asked |= wake
        if wake:
            self._runtime.thread.soon(self._wake)
        return RecordFuture(appended.batch, appended.index, engine.lock)

    def _append_when_free(
        self,
        place: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        started: float,
    ) -> Appended:
        """With the lock held: wait for memory, at most until max.block.ms after the send began."""
        engine = self._engine
        if self._runtime.thread.is_current:
            raise BufferExhausted(
                f"{place}: buffer.memory={self.config.buffer_memory} is full, a callback may not wait"
            )
        end = started + self.config.max_block_ms / 1000
        engine.accumulator.memory_wanted += 1
        self._runtime.thread.soon(engine.wake)
        try:
            while True:
                if not engine.memory_freed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise BufferExhausted(
                        f"{place}: buffer.memory={self.config.buffer_memory} was full for "
                        f"max.block.ms={self.config.max_block_ms}: the brokers take records slower than they are sent"
                    )
                if self._closed:
                    raise ClientClosed("the producer was closed")
                now_ms = self._runtime.clock.monotonic_ms()
                appended = engine.accumulator.append(place, timestamp_ms, key, value, headers, now_ms)
                if appended is not None:
                    return appended
        finally:
            engine.accumulator.memory_wanted -= 1

    def _wake(self) -> None:
        self._wake_asked = False
        self._engine.wake()

    def _await_topic(self, topic: str, partition: int | None) -> None:
        if self._closed:
            raise ClientClosed("the producer is closed")
        wait_ms = self.config.max_block_ms
        self._runtime.run(lambda: self._engine.await_topic(topic, partition, wait_ms))

    # -- interceptors --------------------------------------------------------------------------------------------------

    def _intercepted(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                logger.exception("interceptor %s failed in on_send", type(interceptor).__name__)
        return record

    def _acknowledging(self, callback: Callback | None) -> Callback:
        def acknowledge(metadata: RecordMetadata | None, error: Exception | None) -> None:
            for interceptor in self._interceptors:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except Exception:
                    logger.exception("interceptor %s failed in on_acknowledgement", type(interceptor).__name__)
            if callback is not None:
                callback(metadata, error)

        return acknowledge

    # -- the rest ------------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic; blocks at most max.block.ms."""
        if not self._engine.cluster.view.partition_count(topic):
            self._await_topic(topic, None)
        return list(self._engine.cluster.view.topics[topic].partitions)

    def requests_in_flight(self, broker_id: int) -> int:
        """Produce requests that were sent to a broker and are not answered yet (Kafka's metric requests-in-flight)."""
        return self._engine.requests_in_flight(broker_id)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is delivered or failed. Raises ClientTimeout after `timeout` s.

        Not for callbacks: they run on the thread that it waits for. Raises ClientError there.
        """
        if self._runtime.thread.is_current:
            raise ClientError("a callback may not flush: it would wait for itself")
        end = None if timeout is None else time.monotonic() + timeout
        with self._engine.lock:
            self._engine.accumulator.flushing += 1
            waiting = list(self._engine.accumulator.unfinished)
        self._runtime.thread.soon(self._engine.wake)
        try:
            for batch in waiting:
                _wait_for(batch, end)
        finally:
            with self._engine.lock:
                self._engine.accumulator.flushing -= 1

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued, for at most `timeout` seconds (None: however long), then end. Harmless twice.

        A transaction that is open then is aborted.
        """
        with self._engine.lock:
            if self._closed:
                return
            self._closed = True
            self._engine.accumulator.flushing += 1
            waiting = list(self._engine.accumulator.unfinished)
            self._engine.memory_freed.notify_all()
        on_own_thread = self._runtime.thread.is_current
        if not on_own_thread:
            self._runtime.thread.soon(self._engine.wake)
            end = None if timeout is None else time.monotonic() + timeout
            self._drain(waiting, end)
            self._end_open_transaction(None if end is None else max(0.0, end - time.monotonic()))
        self._finish(on_own_thread)

    def _drain(self, waiting: Iterable[ProducerBatch], end: float | None) -> None:
        try:
            for batch in waiting:
                _wait_for(batch, end)
        except ClientTimeout:
            logger.warning("producer %s: closed before everything was delivered", self.config.client_id)

    def _finish(self, on_own_thread: bool) -> None:
        closing = ClientClosed("the producer was closed before this record was acknowledged")
        stop: Callable[[], object] = lambda: self._engine.stop(closing)  # noqa: E731
        if on_own_thread:
            stop()
        else:
            self._runtime.thread.call(stop)
        self._runtime.stop()


def _wait_for(batch: ProducerBatch, end: float | None) -> None:
    """Until a batch, or the halves it was split into, are decided. Raises ClientTimeout at `end` (monotonic s)."""
    left = None if end is None else max(0.0, end - time.monotonic())
    if not batch.outcome.wait(left):
        raise ClientTimeout(f"{batch.topic_partition}: {len(batch)} record(s) are still not acknowledged")
    for half in batch.halves or ():
        _wait_for(half, end)
