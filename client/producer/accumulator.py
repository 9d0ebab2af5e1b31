"""Records that wait to be sent: one queue of batches per partition, within one bound of memory.

No I/O: time is passed in, and nothing blocks. `append` returns None when there is no memory; its caller then waits.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from odradek.client.errors import RecordTooLarge
from odradek.client.producer.batch import BATCH_OVERHEAD_BYTES, Callback, ProducerBatch, record_size_bytes
from odradek.client.records import Headers, TopicPartition


@dataclass(frozen=True, slots=True)
class AccumulatorLimits:
    """The settings that an accumulator obeys."""

    batch_size_bytes: int
    linger_ms: float
    buffer_memory_bytes: int
    max_request_size_bytes: int


class Accumulator:
    """`queues[tp][0]` is the oldest batch; records are added to the last one. Empty queues are removed.

    Invariant: `used_bytes` is the sum of the sizes of all batches appended and not yet `released`, whether they are in
    a queue or on the wire, and never more than `buffer_memory_bytes`, but for the overhead of parts of split batches.
    """

    def __init__(self, limits: AccumulatorLimits, admit: Callable[[TopicPartition], object] | None = None) -> None:
        """`admit` is asked before each record, and raises what `append` raises: a transaction's rules."""
        self.limits = limits
        self._admit = admit
        self.queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.used_bytes = 0
        self._opened = 0
        self.unfinished: set[ProducerBatch] = set()
        """Batches appended and not yet released."""
        self.memory_waiters: dict[Callable[[], object], int] = {}
        """Function that wakes a sender waiting for memory → the bytes that it needs; first come, first. Changed by any
        thread. While there are any, batches do not linger."""
        self.flushing = 0
        """Number of flushes under way, a close included: while there are any, batches do not linger."""

    def append(
        self,
        topic_partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_ms: Callable[[], float],
        callback: Callback | None = None,
        waiter: Callable[[], object] | None = None,
    ) -> ProducerBatch | None:
        """Add a record at the end of a batch, and return the batch; None when there is no memory for it now.

        `now_ms` is called when a batch is opened; `waiter` is the one of `memory_waiters` whose record this is, if any.
        Raises RecordTooLarge when there never will be enough memory, and what `admit` raises.
        """
        if self._admit is not None:
            self._admit(topic_partition)
        size_bytes = record_size_bytes(key, value, headers)
        queue = self.queues.get(topic_partition)
        batch: ProducerBatch | None = queue[-1] if queue else None
        if batch is None or batch.closed or batch.size_bytes + size_bytes > self.limits.batch_size_bytes:
            batch = self._open(topic_partition, size_bytes, now_ms, waiter)
        elif self.used_bytes + size_bytes <= self.memory_for(waiter):
            self.used_bytes += size_bytes
        else:
            batch = None
        if batch is None:
            return None
        batch.callbacks.append(callback)
        batch.timestamps_ms.append(timestamp_ms)
        batch.keys.append(key)
        batch.values.append(value)
        batch.headers.append(headers)
        batch.size_bytes += size_bytes
        return batch

    def take_back(self, topic_partition: TopicPartition) -> None:
        """Undo an `append` to that partition that Ctrl-C has interrupted between any two of its lines."""
        queue = self.queues.get(topic_partition, deque())
        if queue:
            queue[-1].drop_half_a_record()
            if not len(queue[-1]):
                queue.pop()
        if not queue:
            self.queues.pop(topic_partition, None)
        self.unfinished = {batch for batch in self.unfinished if len(batch)}
        self.used_bytes = sum(batch.size_bytes for batch in self.unfinished)

    def waits_behind(self, batch: ProducerBatch) -> bool:
        """Tell whether a batch has another before it, upon which a sticky partitioner moves on (KIP-480)."""
        return self.queues[batch.topic_partition][0] is not batch

    def memory_for(self, waiter: Callable[[], object] | None) -> int:
        """Return how many bytes may be in use once a record is added; what the first waiter needs is kept for it.

        As in Kafka's BufferPool. Otherwise a large record would wait for ever, since small ones take all that is freed.
        """
        memory_bytes = self.limits.buffer_memory_bytes
        if self.memory_waiters:
            try:
                first, needed_bytes = next(iter(self.memory_waiters.items()))
            except (StopIteration, RuntimeError):  # another thread has come or gone just now
                return memory_bytes
            if first is not waiter:
                memory_bytes -= needed_bytes
        return memory_bytes

    def _open(
        self,
        topic_partition: TopicPartition,
        size_bytes: int,
        now_ms: Callable[[], float],
        waiter: Callable[[], object] | None,
    ) -> ProducerBatch | None:
        """Open a batch for a record of that size; None when there is no memory for it now. Raises RecordTooLarge."""
        needed_bytes = size_bytes + BATCH_OVERHEAD_BYTES
        self._refuse_oversized(topic_partition, needed_bytes)
        if self.used_bytes + needed_bytes > self.memory_for(waiter):
            return None
        self.used_bytes += needed_bytes
        self._opened += 1
        batch = ProducerBatch(topic_partition, now_ms(), (self._opened, 0))
        self.unfinished.add(batch)
        self.queues.setdefault(topic_partition, deque()).append(batch)
        return batch

    def _refuse_oversized(self, topic_partition: TopicPartition, needed_bytes: int) -> None:
        for name, limit in (
            ("max.request.size", self.limits.max_request_size_bytes),
            ("buffer.memory", self.limits.buffer_memory_bytes),
        ):
            if needed_bytes > limit:
                raise RecordTooLarge(
                    f"{topic_partition}: the record takes {needed_bytes} bytes, more than {name}={limit}"
                )

    def is_full(self, queue: deque[ProducerBatch]) -> bool:
        """Tell whether a queue's oldest batch takes no further record: it is full, or another comes after it."""
        return len(queue) > 1 or queue[0].size_bytes >= self.limits.batch_size_bytes

    def due_at_ms(self, queue: deque[ProducerBatch]) -> float:
        """Return when a queue's oldest batch may be sent: after linger.ms, or at once when it is full or hurried."""
        head = queue[0]
        hurried = self.is_full(queue) or bool(self.memory_waiters) or self.flushing > 0 or head.closed
        due_ms = head.created_ms if hurried else head.created_ms + self.limits.linger_ms
        return max(due_ms, head.ready_at_ms)

    def take(self, topic_partition: TopicPartition) -> ProducerBatch:
        """Remove the oldest batch of a partition, to send it."""
        queue = self.queues[topic_partition]
        batch = queue.popleft()
        if not queue:
            del self.queues[topic_partition]
        return batch

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch again, before all that were opened after it."""
        queue = self.queues.setdefault(batch.topic_partition, deque())
        position = 0
        while position < len(queue) and queue[position].order < batch.order:
            position += 1
        queue.insert(position, batch)

    def replace(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Give the halves of a batch that was split its memory and its place."""
        self.used_bytes += sum(half.size_bytes for half in halves) - batch.size_bytes
        self.unfinished.discard(batch)
        self.unfinished.update(halves)
        for half in reversed(halves):
            self.put_back(half)

    def release(self, batch: ProducerBatch) -> None:
        """Free the memory of a batch that is acknowledged or given up."""
        self.used_bytes -= batch.size_bytes
        self.unfinished.remove(batch)
        assert self.used_bytes >= 0, self.used_bytes
