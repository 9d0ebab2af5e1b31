"""Intake of records into batches, without waiting: what every `send` does, blocking or on asyncio.

mypyc compiles this module too (docs/compiled-clients.md).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client import arguments
from odradek.client.errors import ConfigError
from odradek.client.metadata import ClusterView
from odradek.client.producer.batch import (
    BATCH_OVERHEAD_BYTES,
    Callback,
    FutureContext,
    ProducerBatch,
    RecordFuture,
    record_size_bytes,
)
from odradek.client.producer.config import Serializer
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.partitioners import Partitioner
from odradek.client.records import Headers, TopicPartition

FLOATS_ERROR_MS = 0.001
"""More than a whole number of milliseconds loses when it becomes seconds in a float."""


class Encoded(NamedTuple):
    """A record for which there is no memory yet."""

    place: TopicPartition
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    callback: Callback | None

    @property
    def needed_bytes(self) -> int:
        """Return how many bytes of memory the record takes at most."""
        return record_size_bytes(self.key, self.value, self.headers) + BATCH_OVERHEAD_BYTES


class RecordIntake:
    """Checks, serializes and queues records of one producer, from every thread that may call `call_on_loop`."""

    def __init__(
        self,
        engine: ProducerEngine,
        partitioner: Partitioner,
        serializers: tuple[Serializer, Serializer],
        context: FutureContext,
        call_on_loop: Callable[[Callable[[], object]], object],
    ) -> None:
        """Take the parts that it uses; `serializers` are those of keys and of values."""
        config, clock = engine.config, engine.cluster.clock
        self._engine = engine
        self._cluster = engine.cluster
        self._accumulator = engine.accumulator
        self._lock = context.lock
        self._context = context
        self._partitioner: Any = partitioner
        """Partitioner, typed as Any: compiled code would refuse numpy's integers from it, and accept booleans."""
        self._serialize_key, self._serialize_value = serializers
        self._plain_key = config.key_serializer is None
        self._plain_value = config.value_serializer is None
        self._batch_size_bytes = engine.accumulator.limits.batch_size_bytes
        self._now_s, self._monotonic_ms = clock.now_s, clock.monotonic_ms
        self._call_on_loop = call_on_loop
        self._wake_asked = False
        self._known: tuple[ClusterView, dict[str, tuple[TopicPartition, ...]]] = engine.cluster.view, {}
        """A view, and its partitions by topic. Replaced together: other threads may read between any two lines."""

    def offer(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
        callback: Callback | None,
    ) -> RecordFuture | Encoded | None:
        """Queue a record without waiting. Return None when its topic, or the partition given, is not known, and the
        record encoded, for `append`, when there is no memory for it. Raises as `aio.Producer.send`.

        Bytes are taken as they are, without a call, since most records have nothing else. Arguments of applications are
        typed as Any: compiled code would check other types first, and raise mypyc's errors instead of ours.
        """
        if callback is not None:
            arguments.callback(callback, "the callback of a record")
        if partition is not None and type(partition) is not int:
            partition = arguments.whole_number(partition, "a partition's number")
        cluster = self._cluster
        view = cluster.view
        known = self._known
        if view is not known[0]:
            known = self._known = view, {}
        places = known[1].get(topic)
        if places is None:
            places = view.places(topic)
            if not places:
                return None
            known[1][topic] = places
        count = len(places)
        if partition is not None and partition >= count:
            return None
        headers = arguments.headers(headers) if headers else ()
        if type(key) is not bytes or not self._plain_key:
            key = self._serialize_key(topic, headers, key)
        if type(value) is not bytes or not self._plain_value:
            value = self._serialize_value(topic, headers, value)
        if partition is None:
            available = cluster.available_partitions(topic) if key is None else ()
            partition = self._partitioner.partition(topic, key, count, available)
        if type(partition) is not int:
            partition = arguments.whole_number(partition, "a partition's number")
        if not 0 <= partition < count:
            raise ConfigError(f"partition {partition} of topic {topic}: its partitions are 0-{count - 1}")
        if timestamp_ms is None:
            timestamp_ms = int(self._now_s() * 1000.0 + FLOATS_ERROR_MS)
        else:
            timestamp_ms = arguments.timestamp_ms(timestamp_ms)
        place = places[partition]
        queued = self.append(place, timestamp_ms, key, value, headers, callback)
        return queued or Encoded(place, timestamp_ms, key, value, headers, callback)

    def append(
        self,
        place: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        callback: Callback | None,
        waiter: Callable[[], object] | None = None,
    ) -> RecordFuture | None:
        """Queue an encoded record. Return None when there is no memory for it, or others have waited longer than
        `waiter`.

        Raises RecordTooLarge, ClientClosed …
        """
        engine, accumulator = self._engine, self._accumulator
        try:
            with self._lock:
                if engine.ended is not None:
                    engine.check_open()
                try:
                    batch = accumulator.append(
                        place, timestamp_ms, key, value, headers, self._monotonic_ms, callback, waiter
                    )
                except BaseException:  # also Ctrl-C, which may come between any two lines
                    accumulator.take_back(place)  # before the sender, which waits for the lock, finds half a record
                    raise
                if batch is None:
                    return None
                index = len(batch.values) - 1
                moved = index == 0 and accumulator.waits_behind(batch)
            if index == 0 or batch.size_bytes >= self._batch_size_bytes:
                self._tell_engine(batch if moved else None)
        except BaseException:
            if engine.ended is None:
                self._wake_asked = False
                self.wake_sender()
            raise
        return RecordFuture(batch, index, self._context)

    def _tell_engine(self, moved: ProducerBatch | None) -> None:
        """Wake the sender, and tell the partitioner of `moved`, a batch that was opened behind another."""
        if moved is not None:
            self._engine.batch_closed(moved.topic_partition)
        self.wake_sender()

    def wake_sender(self) -> None:
        """Wake the sender, unless that is under way already. From the same threads as `offer`."""
        if not self._wake_asked:
            try:
                self._wake_asked = True
                self._call_on_loop(self._wake)
            except BaseException:  # Ctrl-C, perhaps before the call: the next record has to call again
                self._wake_asked = False
                raise

    def _wake(self) -> None:
        self._wake_asked = False
        self._engine.wake()
