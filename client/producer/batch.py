"""Batch of records of one partition, as columns, until it is acknowledged or given up, and the records' futures.

A batch holds one `Outcome`, which is set once and can be waited for on any thread and any loop. The futures share it:
a record costs two references and no lock.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from odradek.client import arguments
from odradek.client.errors import ClientClosed, ClientError, ClientTimeout, of_record
from odradek.client.records import Headers, RecordMetadata, TopicPartition
from odradek.client.waiting import call_soon

logger = logging.getLogger(__name__)
Callback = Callable[[RecordMetadata | None, Exception | None], object]
"""Called with (metadata, None) or (None, error), on the producer's own thread: it must not block."""


class Outcome:
    """Outcome of a batch: delivered at an offset, or failed. Set once by the producer's thread, read by any."""

    __slots__ = (
        "_waiters", "awake", "base_offset", "decided", "error", "log_append_time_ms", "timestamps_ms",
        "topic_partition",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._waiters: dict[Callable[[], object], None] = {}
        self.awake = False
        """True once `wake` was called: nobody need wait any longer."""
        self.decided = False
        """True when the batch is delivered or has failed. The callbacks are called then, and `wake` after them."""
        self.topic_partition = topic_partition
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.timestamps_ms: list[int] = []
        self.error: Exception | None = None

    def deliver(self, base_offset: int, log_append_time_ms: int, timestamps_ms: list[int]) -> None:
        """Note that the batch is acknowledged. `log_append_time_ms` is -1 unless the topic uses LogAppendTime."""
        assert not self.decided, f"{self.topic_partition}: decided twice"
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.timestamps_ms = timestamps_ms
        self.decided = True

    def fail(self, error: Exception) -> None:
        """Note that the batch is given up."""
        assert not self.decided, f"{self.topic_partition}: decided twice"
        self.error = error
        self.decided = True

    def wake(self) -> None:
        """Wake those who wait: the batch is decided and its callbacks were called, or it was split."""
        self.awake = True  # before the calls: whoever comes meanwhile adds itself, and then looks at this
        for call in self._waiters.copy():  # a copy: those that time out remove themselves, on their own threads
            call()

    async def until_awake(self) -> None:
        """Wait for `wake`, on any thread's loop."""
        if not self.awake:
            await self._until_woken()

    async def _until_woken(self) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def woken() -> None:
            if asyncio._get_running_loop() is loop:
                end()
            else:
                call_soon(loop, end)

        self._waiters[woken] = None
        try:
            if self.awake:  # set meanwhile on the producer's thread, which may not have seen this waiter
                end()
            await waiter
        finally:
            self._leave(woken)

    def forked(self, error: Exception) -> None:
        """Fail in this process, which is a fork: its parent goes on with the delivery."""
        self._waiters = {}
        if not self.decided:
            self.fail(error)
        self.awake = True

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait until `wake`; False when the time is up before that."""
        return self.awake or self._wait(timeout_seconds)

    def _wait(self, timeout_seconds: float | None) -> bool:
        limit = None if timeout_seconds is None else min(arguments.duration(timeout_seconds), threading.TIMEOUT_MAX)
        woken = threading.Event()  # made only here: nobody waits for most batches
        wake = woken.set
        self._waiters[wake] = None
        try:
            return self.awake or woken.wait(limit)
        finally:
            self._leave(wake)

    def _leave(self, wake: Callable[[], object]) -> None:
        """Remove a waiter: a batch may be open for minutes, and be waited for many times a second."""
        self._waiters.pop(wake, None)  # `forked` may have emptied them

    def metadata(self, index: int) -> RecordMetadata:
        """Return the metadata of the record at `index` of the batch. Only when it was delivered."""
        topic, partition = self.topic_partition
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp_ms = self.log_append_time_ms if self.log_append_time_ms >= 0 else self.timestamps_ms[index]
        return RecordMetadata(topic, partition, offset, timestamp_ms)

    def call_back(self, index: int, callback: Callback) -> None:
        """Call the callback of the record at `index`, as `call_all_back` does. Only when the batch is decided."""
        metadata = self.metadata(index) if self.error is None else None
        try:
            callback(metadata, None if self.error is None else of_record(self.error, index))
        except (Exception, asyncio.CancelledError):
            logger.exception("%s: a delivery callback failed", self.topic_partition)

    def call_all_back(self, callbacks: Sequence[Callback | None]) -> None:
        """Call the callback of each record that has one; what a callback raises is logged. On the loop."""
        error, times_ms, base_offset = self.error, self.timestamps_ms, self.base_offset
        (topic, partition), append_time_ms = self.topic_partition, self.log_append_time_ms
        metadata: RecordMetadata | None = None
        for index, callback in enumerate(callbacks):
            if callback is None:
                continue
            if error is None:
                offset = base_offset + index if base_offset >= 0 else -1
                time_ms = append_time_ms if append_time_ms >= 0 else times_ms[index]
                metadata = tuple.__new__(RecordMetadata, (topic, partition, offset, time_ms))  # takes half the time
            try:
                callback(metadata, None if error is None else of_record(error, index))
            except (Exception, asyncio.CancelledError):
                logger.exception("%s: a delivery callback failed", self.topic_partition)
            except (SystemExit, KeyboardInterrupt) as end:  # these end the loop, but after all callbacks
                asyncio.get_running_loop().call_soon(_raise, end)


def _raise(error: BaseException) -> None:
    raise error


def in_turn(first: Callback, second: Callback) -> Callback:
    """Return a callback that calls both, the second also when the first raises."""

    def both(metadata: RecordMetadata | None, error: Exception | None) -> None:
        try:
            first(metadata, error)
        finally:
            second(metadata, error)

    return both


BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21
"""The most that length, attributes, deltas and the two length fields of one record take (Kafka: DefaultRecord)."""
HEADER_OVERHEAD_BYTES = 10


def record_size_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound of the bytes that a record takes in a batch, without compression."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        for name, content in headers:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + (len(content) if content else 0)
    return size


class ProducerBatch:
    """Records of one partition, as columns, and the state of their delivery.

    `base_sequence` is -1 until the first send of an idempotent producer; from then on it belongs to these records
    through every retry. Other threads than the producer's touch nothing but the columns.
    """

    __slots__ = (
        "attempts", "base_sequence", "callbacks", "closed", "created_ms", "halves", "headers", "keys", "order",
        "outcome", "producer_epoch", "producer_id", "ready_at_ms", "size_bytes", "timestamps_ms", "topic_partition",
        "values",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition, created_ms: float, order: tuple[int, int] = (0, 0)) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.order = order
        """Place among all batches: the number of the batch, and, after a split, that of its first record in it."""
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.timestamps_ms: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []
        self.callbacks: list[Callback | None] = []
        self.outcome = Outcome(topic_partition)
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None
        self.closed = False
        """True if the batch takes no more records and does not linger: it was sent, or is part of one that was."""
        self.attempts = 0
        self.ready_at_ms = 0.0
        """Time before which the batch is not sent again: the end of the backoff after a failed attempt."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1

    def __len__(self) -> int:
        return len(self.values)

    def split(self) -> "tuple[ProducerBatch, ProducerBatch]":
        """Split a batch that a broker found too large into two with the same records in the same order.

        Sequences and callbacks go with the records; futures find theirs through `halves`.
        """
        assert len(self) > 1, f"{self.topic_partition}: one record cannot be split"
        middle = len(self) // 2
        first, second = self._part(0, middle), self._part(middle, len(self))
        self.halves = (first, second)
        self.outcome.wake()
        return first, second

    def _part(self, start: int, end: int) -> "ProducerBatch":
        part = ProducerBatch(self.topic_partition, self.created_ms, (self.order[0], self.order[1] + start))
        part.timestamps_ms, part.headers = self.timestamps_ms[start:end], self.headers[start:end]
        part.keys, part.values = self.keys[start:end], self.values[start:end]
        part.callbacks = self.callbacks[start:end]
        part._measure()
        part.closed = True  # but its attempts are 0: the part itself was never refused
        part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
        if self.base_sequence >= 0:
            part.base_sequence = following_sequence(self.base_sequence, start)
        return part

    def _measure(self) -> None:
        sizes = map(record_size_bytes, self.keys, self.values, self.headers)
        self.size_bytes = BATCH_OVERHEAD_BYTES + sum(sizes)

    def drop_half_a_record(self) -> None:
        """Cut the columns to the records that are in all of them, after an `append` that was interrupted."""
        columns: tuple[list[Any], ...] = (self.callbacks, self.timestamps_ms, self.keys, self.values, self.headers)
        count = min(map(len, columns))
        for column in columns:
            del column[count:]
        self._measure()

    @property
    def last_sequence(self) -> int:
        """Sequence of the batch's last record; -1 without sequences."""
        return -1 if self.base_sequence < 0 else following_sequence(self.base_sequence, len(self) - 1)


def following_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` after `sequence`: after 2147483647 comes 0."""
    return (sequence + count) & 0x7FFFFFFF


class FutureContext:
    """What the futures of one producer share: the lock of its queues, and the loop on which callbacks are called."""

    __slots__ = ("lock", "loop")

    def __init__(self, lock: threading.Lock, loop: asyncio.AbstractEventLoop) -> None:
        self.lock = lock
        self.loop = loop


class RecordFuture:
    """Result of sending one record, as `send` returns it. Awaitable, and with the methods of kafka-python's future.

    Any thread may wait for it, and any event loop await it.
    """

    __slots__ = ("_batch", "_context", "_index")

    def __init__(self, batch: ProducerBatch, index: int, context: FutureContext) -> None:
        self._batch = batch
        self._index = index
        self._context = context

    def _place(self) -> "tuple[ProducerBatch, int]":
        """Return the batch that holds the record now, after any splits, and its index in that."""
        batch, index = self._batch, self._index
        while batch.halves is not None:
            first, second = batch.halves
            in_first = index < len(first)
            batch, index = (first, index) if in_first else (second, index - len(first))
        return batch, index

    def _wait(self, timeout_seconds: float | None) -> "tuple[ProducerBatch, int]":
        batch, index = self._place()
        loop = self._context.loop
        if not batch.outcome.awake and asyncio._get_running_loop() is loop:
            raise ClientError("code on the producer's loop, such as a callback, may not block for a record: await it")
        if not batch.outcome.awake and loop.is_closed():
            raise ClientClosed("the producer's event loop was closed before this record was acknowledged")
        if not batch.outcome.wait(timeout_seconds):
            raise ClientTimeout(
                f"{batch.topic_partition}: the record is not acknowledged after waiting {timeout_seconds} s"
            )
        return (batch, index) if batch.halves is None else self._wait(timeout_seconds)

    def done(self) -> bool:
        """Tell whether the record is delivered or has failed."""
        return self._place()[0].outcome.awake

    @property
    def is_done(self) -> bool:
        """True when the record is delivered or has failed (kafka-python's name)."""
        return self.done()

    def succeeded(self) -> bool:
        """Tell whether the record is delivered."""
        outcome = self._place()[0].outcome
        return outcome.awake and outcome.error is None

    def failed(self) -> bool:
        """Tell whether the send has failed."""
        outcome = self._place()[0].outcome
        return outcome.awake and outcome.error is not None

    @property
    def value(self) -> RecordMetadata | None:
        """RecordMetadata of the record once it is delivered; None before, and if it has failed."""
        batch, index = self._place()
        return batch.outcome.metadata(index) if self.succeeded() else None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is delivered, and return its RecordMetadata.

        Raises what the send failed with; ClientTimeout after `timeout` seconds (None: no limit); ClientError on the
        producer's own loop, where callbacks run.
        """
        batch, index = self._wait(timeout)
        return _answer(batch, index)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait as `result` does (kafka-python's name)."""
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait as `result` does, and return what the send failed with, or None if the record was delivered."""
        batch, index = self._wait(timeout)
        return None if batch.outcome.error is None else of_record(batch.outcome.error, index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait until the record is delivered, and return its RecordMetadata. Raises what the send failed with."""
        return self._awaited().__await__()

    async def _awaited(self) -> RecordMetadata:
        while True:
            batch, index = self._place()
            await batch.outcome.until_awake()
            if batch.halves is None:
                return _answer(batch, index)

    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call `callback(*args, metadata, **kwargs)` once the record is delivered; at once when it is already.

        What `callback` raises is logged in either case.
        """
        arguments.callback(callback, "the argument of add_callback")
        return self._add(lambda metadata, error: None if metadata is None else callback(*args, metadata, **kwargs))

    def add_errback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call `callback(*args, error, **kwargs)` once the record has failed; at once when it has already."""
        arguments.callback(callback, "the argument of add_errback")
        return self._add(lambda metadata, error: None if error is None else callback(*args, error, **kwargs))

    def add_both(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> "RecordFuture":
        """Call `callback(*args, metadata or error, **kwargs)` once the record is delivered or has failed."""
        arguments.callback(callback, "the argument of add_both")
        return self._add(lambda metadata, error: callback(*args, metadata if error is None else error, **kwargs))

    def _add(self, callback: Callback) -> "RecordFuture":
        with self._context.lock:
            batch, index = self._place()
            if not batch.outcome.decided:
                earlier = batch.callbacks[index]
                batch.callbacks[index] = callback if earlier is None else in_turn(earlier, callback)
                return self
        batch.outcome.call_back(index, callback)
        return self


def _answer(batch: ProducerBatch, index: int) -> RecordMetadata:
    error = batch.outcome.error
    if error is not None:
        raise of_record(error, index).with_traceback(None)  # shared by all who wait: each gets its own stack
    return batch.outcome.metadata(index)
