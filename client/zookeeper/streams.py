"""Streams of messages: filled by the loop, read by the application's threads, one thread for each stream.

A message counts as consumed when its reader asks for the next one; until then it is in hand. Commits that the
application makes itself (commit_offsets, shutdown) include messages in hand, as all of Kafka's commits do. Automatic
ones (auto commit, before a partition goes to another member) do not, so that a crash never loses a message that was
only half processed.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odradek.client.consumer.chunks import Chunk, Reader
from odradek.client.consumer.config import Deserializer
from odradek.client.errors import ClientClosed, ClientTimeout, CorruptRecords, DeserializationError
from odradek.client.forks import SAID, watch
from odradek.client.records import ConsumerRecord, TopicPartition

READY_LIMIT = 500
"""Records decoded at a time."""


class ConsumerTimeout(ClientTimeout):
    """No message came within consumer.timeout.ms. The stream can still be read."""


@dataclass(slots=True)
class Progress:
    """Progress in one partition. Changed only with the stream's lock held; -1 until it is known where to start."""

    name: TopicPartition
    consumed: int = -1
    """Offset after the last message that the application is done with."""
    handed_out: int = -1
    """Offset after the last message that the application got."""
    claim: int = 0
    """Number of the claim by which the partition is owned: chunks of earlier claims are dropped."""


class MessageStream:
    """Stream of messages for one thread, which iterates over it. The iteration ends when the connector is shut down."""

    def __init__(
        self,
        chunks_limit: int,
        timeout_ms: float,
        key: Deserializer | None,
        value: Deserializer | None,
        changed: Callable[[], object],
    ) -> None:
        self._chunks_limit = chunks_limit
        self._timeout_ms = timeout_ms
        self._key = key
        self._value = value
        self._changed = changed
        """Called, without the lock, when there is room for another chunk, or the last message in hand is done with."""
        self._arrived = threading.Condition()
        self._progress: dict[TopicPartition, Progress] = {}
        self._chunks: deque[Chunk] = deque()
        self._reader: Reader | None = None
        self._ready: deque[ConsumerRecord] = deque()
        self._in_hand: tuple[Progress, int] | None = None
        self._failure: Exception | None = None
        self._broken_by: Exception | None = None
        self._closed = False
        self._forked = False
        watch(self)

    def forked(self) -> None:
        """Refuse every further call: nothing fills this copy in a forked process, and its lock may be held for ever."""
        self._forked = True

    # -- for the loop --------------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Tell whether queued.max.message.chunks chunks wait here."""
        return len(self._chunks) >= self._chunks_limit

    @property
    def in_hand(self) -> bool:
        """Tell whether the application has a message that it is not done with."""
        return self._in_hand is not None

    def assign(self, progress: Progress) -> None:
        """Direct the chunks of a partition to this stream from now on."""
        with self._arrived:
            self._progress[progress.name] = progress

    def locate(self, progress: Progress, offset: int) -> None:
        """Start reading a partition at `offset`, whatever its progress was."""
        with self._arrived:
            progress.consumed = progress.handed_out = offset
            if self._in_hand is not None and self._in_hand[0] is progress:
                self._in_hand = None  # its offset means nothing from here on

    def put(self, chunk: Chunk) -> None:
        """Add fetched records, unless the partition has been given up since they were asked for."""
        with self._arrived:
            if self._is_current(chunk):
                self._chunks.append(chunk)
                self._arrived.notify()

    def holds(self, name: TopicPartition) -> bool:
        """Tell whether messages of a partition wait here."""
        with self._arrived:
            return any(chunk.topic_partition == name for chunk in self._chunks) or (
                self._reader is not None and self._reader.chunk.topic_partition == name
            )

    def fail(self, error: Exception) -> None:
        """Let the application's next call raise this error, once."""
        with self._arrived:
            self._failure = error
            self._arrived.notify()

    def break_off(self, error: Exception) -> None:
        """Let each of the application's calls raise this error, until it is closed: nothing fills it any more."""
        with self._arrived:
            self._broken_by = error
            self._arrived.notify()

    def stop(self) -> None:
        """Hand out no more messages of the present partitions, whose progress can still be read."""
        with self._arrived:
            self._progress = {}
            self._chunks.clear()
            self._ready.clear()
            self._reader = None

    def close(self) -> None:
        """End the iteration."""
        self.stop()
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()

    def read(self, progress: Progress, *, in_hand: bool) -> int:
        """Return the next offset to consume; -1 when it is not known yet. With `in_hand`, messages in hand count as
        consumed from now on."""
        with self._arrived:
            if in_hand:
                progress.consumed = progress.handed_out
                if self._in_hand is not None and self._in_hand[0] is progress:
                    self._in_hand = None
            return progress.consumed

    # -- for the application -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next message. Raises ConsumerTimeout, ClientError; DeserializationError, after which the next call
        goes on behind that message; CorruptRecords, which each further call raises again."""
        if self._forked:
            raise ClientClosed(f"the stream does not work here: {SAID}")
        self._done_with_message()
        with self._arrived:
            while True:
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
                if self._closed:
                    raise StopIteration
                if self._broken_by is not None:
                    raise self._broken_by
                record = self._take()
                if record is not None:
                    break
                if not self._arrived.wait(None if self._timeout_ms < 0 else self._timeout_ms / 1000):
                    raise ConsumerTimeout(f"no message within consumer.timeout.ms={self._timeout_ms:g}")
        if self._key is None and self._value is None:
            return record
        try:
            return self._decoded(record)
        except DeserializationError:
            raise
        except BaseException:  # an interrupt: the application has not got the message, so a commit must not count it
            self._take_back(record)
            raise

    def _done_with_message(self) -> None:
        with self._arrived:
            if self._in_hand is None:
                return
            progress, following = self._in_hand
            progress.consumed = max(progress.consumed, following)
            self._in_hand = None
            tell = progress.name not in self._progress
        if tell:
            self._changed()

    def _take(self) -> ConsumerRecord | None:
        while not self._ready:
            if not self._fill():
                return None
        record = self._ready.popleft()
        progress = self._progress[TopicPartition(record.topic, record.partition)]
        progress.handed_out = record.offset + 1
        self._in_hand = (progress, record.offset + 1)
        return record

    def _take_back(self, record: ConsumerRecord) -> None:
        """Put the record in hand back, to be returned next, unless the partition was given up meanwhile."""
        with self._arrived:
            if self._in_hand is None:
                return
            progress, self._in_hand = self._in_hand[0], None
            progress.handed_out = record.offset
            kept = self._progress.get(progress.name) is progress
            if kept:
                self._ready.appendleft(record)
        if not kept:
            self._changed()

    def _decoded(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return a record with its key and value decoded. Without the lock: the loop must not wait for decoders."""
        topic, headers = record.topic, record.headers
        try:
            key = record.key if self._key is None else self._key(topic, headers, record.key)
            value = record.value if self._value is None else self._value(topic, headers, record.value)
        except Exception as error:
            where = f"{topic}-{record.partition} at offset {record.offset}"
            raise DeserializationError(f"{where}: cannot be decoded: {error}") from error
        return record._replace(key=key, value=value)

    def _fill(self) -> bool:
        """Make some records ready, or drop a chunk that has no more; return False when there is nothing to read."""
        if self._reader is None:
            if not self._chunks:
                return False
            self._reader = Reader(self._chunks.popleft(), None, None, check_crcs=True)
            self._changed()
        reader = self._reader
        progress = self._progress.get(reader.chunk.topic_partition)
        if progress is None or not self._is_current(reader.chunk):
            self._reader = None
            return True
        try:
            self._ready.extend(reader.take(progress.handed_out, READY_LIMIT))
        except CorruptRecords as error:
            raise _damaged(reader.chunk.topic_partition, error) from error
        if reader.finished and not self._ready:
            # Behind the last message there may be offsets without messages: markers, compacted ones.
            progress.consumed = progress.handed_out = max(progress.handed_out, reader.chunk.next_offset)
            self._reader = None
        return True

    def _is_current(self, chunk: Chunk) -> bool:
        progress = self._progress.get(chunk.topic_partition)
        return progress is not None and progress.claim == chunk.version


def _damaged(name: TopicPartition, error: CorruptRecords) -> CorruptRecords:
    """Return the error for the reader of a stream, which cannot seek: with a way past the damage that it has."""
    beyond = "an offset beyond them" if error.next_offset is None else error.next_offset
    return CorruptRecords(
        f"{name} at offset {error.offset}: damaged records: {error.__cause__}; to go on behind them, shut this "
        f"connector down and let another commit_offsets({{{tuple(name)}: {beyond}}}) before the group reads on "
        "(CORRUPT_MESSAGE)",
        topic_partition=name,
        offset=error.offset,
        next_offset=error.next_offset,
    )
