"""Thousands of records for a producer at once, as columns: for callers that wait for all and for no single record."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.batch import (
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    ProducerBatch,
    record_size_bytes,
)
from odradek.client.producer.engine import ProducerEngine, until_settled
from odradek.client.records import Headers, TopicPartition

NO_HEADERS: Headers = ()


@dataclass(slots=True)
class Columns:
    """Records for one partition, in order. All have the same timestamp."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None
    timestamp_ms: int

    def sizes(self) -> list[int]:
        """Return, for each record, how many bytes it and all records before it take at most."""
        if self.headers is not None:
            return list(accumulate(map(record_size_bytes, self.keys, self.values, self.headers)))
        return list(
            accumulate(
                [
                    RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
                    for key, value in zip(self.keys, self.values, strict=True)
                ]
            )
        )


class BulkSender:
    """Queues columns of records, and remembers what became of them until `flush`. On the producer's loop."""

    def __init__(self, engine: ProducerEngine) -> None:
        self._engine = engine
        self._open: dict[ProducerBatch, None] = {}
        self._failure: Exception | None = None

    async def send(self, place: TopicPartition, columns: Columns) -> None:
        """Queue all records of `columns`; waits for memory, for each batch at most max.block.ms.

        Raises BufferExhausted, RecordTooLarge, ClientClosed, ClientBroken; the failure of a record that was sent
        before; in a transaction also AbortRequired.
        """
        sizes = columns.sizes()
        sent = 0
        while sent < len(sizes):
            append = partial(self._append, place, columns, sizes, sent)
            taken = append(None)
            if taken is None:
                needed_bytes = sizes[sent] - (sizes[sent - 1] if sent else 0) + BATCH_OVERHEAD_BYTES
                wait_ms = self._engine.config.max_block_ms
                taken = await self._engine.waits.until_queued(append, place, needed_bytes, wait_ms)
            sent += taken
            self._engine.wake()
        self._look()

    def _append(
        self,
        place: TopicPartition,
        columns: Columns,
        sizes: list[int],
        start: int,
        waiter: Callable[[], object] | None,
    ) -> int | None:
        engine = self._engine
        now_ms = engine.cluster.clock.monotonic_ms
        with engine.lock:
            engine.check_open()
            appended = append_some(engine.accumulator, place, columns, sizes, start, now_ms, waiter)
        if appended is None:
            return None
        self._open[appended[0]] = None
        return appended[1]

    async def flush(self) -> None:
        """Wait until everything is delivered. Raises the failure of a record."""
        await self._engine.flush()
        for batch in self._open:
            await until_settled(batch)
        self._look()

    def _look(self) -> None:
        decided = [batch for batch in self._open if batch.outcome.awake and _awake(batch)]
        for batch in decided:
            del self._open[batch]
            self._failure = self._failure or _failure(batch)
        if self._failure is not None:
            raise self._failure.with_traceback(None)


def append_some(
    accumulator: Accumulator,
    place: TopicPartition,
    columns: Columns,
    sizes: list[int],
    start: int,
    now_ms: Callable[[], float],
    waiter: Callable[[], object] | None,
) -> tuple[ProducerBatch, int] | None:
    """Add records from `start` on, as many as one batch takes. Return that batch and the number of records; None when
    there is no memory for even one.

    Raises RecordTooLarge, and what the accumulator of a transaction raises.
    """
    keys, values, headers = columns.keys, columns.values, columns.headers
    first = headers[start] if headers is not None else NO_HEADERS
    batch = accumulator.append(place, columns.timestamp_ms, keys[start], values[start], first, now_ms, None, waiter)
    if batch is None:
        return None
    limits = accumulator.limits
    room = min(limits.batch_size_bytes - batch.size_bytes, accumulator.memory_for(waiter) - accumulator.used_bytes)
    end = max(start + 1, bisect_right(sizes, sizes[start] + max(0, room)))
    batch.timestamps_ms += [columns.timestamp_ms] * (end - start - 1)
    batch.keys += keys[start + 1 : end]
    batch.values += values[start + 1 : end]
    batch.headers += headers[start + 1 : end] if headers is not None else [NO_HEADERS] * (end - start - 1)
    batch.callbacks += [None] * (end - start - 1)
    more_bytes = sizes[end - 1] - sizes[start]
    batch.size_bytes += more_bytes
    accumulator.used_bytes += more_bytes
    return batch, end - start


def _awake(batch: ProducerBatch) -> bool:
    """Tell whether a batch, or all that it was split into, is decided."""
    return batch.outcome.awake and all(map(_awake, batch.halves or ()))


def _failure(batch: ProducerBatch) -> Exception | None:
    if batch.halves is None:
        return batch.outcome.error
    return next(filter(None, map(_failure, batch.halves)), None)
