"""Fetched bytes, and the records in them. No I/O.

The bytes stay encoded until the application polls; they are decoded on its thread, one batch at a time.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from odradek.client.consumer.config import Deserializer
from odradek.client.errors import ClientError, CorruptRecords, DeserializationError
from odradek.client.records import NO_HEADERS, ConsumerRecord, RecordHeaders, TopicPartition
from odradek.protocol.checksum import crc32c
from odradek.protocol.conversion import to_batches
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.record_batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    read_header,
)
from odradek.protocol.records import Columns, decode_headers, decode_records

CHUNKS_PER_PARTITION = 2
"""Number of answers of one partition that are kept: the one being read, and one ahead."""
HEADERS_KEPT = 1_000
"""Batches of one answer whose headers are kept; those of later ones are read again when needed. A header takes more
memory than a small batch itself."""
ABORT_MARKER = 0
Aborted = Sequence[tuple[int, int]]
"""Pairs of producer id and first offset of aborted transactions, by first offset."""


class Chunk:
    """Bytes of one partition in one answer, from `fetch_offset` on.

    `version` is that of the position when it was asked for; `next_offset` is where the answer ends. Messages of formats
    0 and 1, which a broker may have from an older Kafka, are converted to batches at once. Raises MalformedMessage.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        fetch_offset: int,
        version: int,
        aborted: Aborted | None,
        end_offset: int | None = None,
    ) -> None:
        """`end_offset` is where the log ends: the chunk stops before a batch that goes beyond it. If that is the first
        batch, it counts as damaged.

        No checksum covers the offset of a batch, so an offset that a disk has changed is only noticed by its place. But
        a healthy leader may send records beyond the high watermark that it names: Kafka's Partition.readRecords notes
        the watermark before it reads, and it may rise meanwhile. Those records are fetched again, with another bound.
        """
        self.topic_partition = topic_partition
        self.version = version
        self.next_offset = fetch_offset
        self.last_epoch = -1
        """Leader epoch of the last batch; -1 when there is none, or in formats 0 and 1."""
        self.records = records
        self._end_offset = end_offset
        self._aborted = sorted(aborted or (), key=lambda one: one[1])
        self._read_committed = aborted is not None
        self._positions: list[int] = []
        self._headers: list[BatchHeader] = []
        """Headers of the first batches, at most HEADERS_KEPT."""
        if not self._find_batches():
            self.records = _as_batches(records)
            self._find_batches()

    def _find_batches(self) -> bool:
        """Find where the batches begin, and where the answer ends; return False for messages of formats 0 and 1."""
        records, at, size, found, headers = self.records, 0, len(self.records), self._positions, self._headers
        reached, end_offset = self.next_offset, self._end_offset
        found.clear()
        headers.clear()
        self.last_epoch = -1
        while size - at > MAGIC_AT:
            magic = records[at + MAGIC_AT]
            if magic != MAGIC_V2:
                if magic > MAGIC_V2:
                    raise CorruptBatch(at, f"unknown magic {magic}")
                return False
            if size - at < HEADER_BYTES:
                break
            header = read_header(records, at)
            next_at = at + header.batch_length + LOG_OVERHEAD
            next_offset = header.base_offset + header.last_offset_delta + 1
            if next_at > size or (found and end_offset is not None and next_offset > end_offset):
                break
            found.append(at)
            if len(found) <= HEADERS_KEPT:
                headers.append(header)
            self.last_epoch = header.leader_epoch
            if next_offset > reached:
                reached = next_offset
            at = next_at
        self.next_offset = reached
        return True

    @property
    def empty(self) -> bool:
        """True when the chunk holds no whole batch."""
        return not self._positions

    def batches(self, check_crcs: bool) -> Iterator[tuple[BatchHeader, Columns]]:
        """Yield the batches with records for the application, decoded. Raises ClientError for damaged ones."""
        for position, header in self.visible(check_crcs):
            try:
                yield header, decode_records(self.records, position, header=header)
            except MalformedMessage as error:
                raise self.damaged(header, error) from error

    def visible(self, check_crcs: bool) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the positions and headers of the batches with records for the application: without markers, and without
        aborted batches if those are not wanted. Raises ClientError for damaged ones."""
        aborted_producers: set[int] = set()
        waiting = list(self._aborted)
        least = 0
        later = (read_header(self.records, at) for at in self._positions[len(self._headers) :])
        for position, header in zip(self._positions, chain(self._headers, later), strict=True):
            last_offset = header.base_offset + header.last_offset_delta
            if check_crcs:
                self._check(position, header, least, last_offset)
                least = last_offset + 1
            while waiting and waiting[0][1] <= last_offset:
                aborted_producers.add(waiting.pop(0)[0])
            attributes = header.attributes
            if attributes & CONTROL_BIT:
                self._control(position, header, aborted_producers)
            elif not (aborted_producers and attributes & TRANSACTIONAL_BIT and header.producer_id in aborted_producers):
                yield position, header

    def _check(self, position: int, header: BatchHeader, least: int, last_offset: int) -> None:
        """Check a batch's checksum. It does not cover the offsets: check too that these rise, and are within the log.

        Raises CorruptRecords.
        """
        end = self._end_offset
        in_place = header.base_offset >= least and (end is None or last_offset < end)
        covered = self.records[position + ATTRIBUTES_AT : position + LOG_OVERHEAD + header.batch_length]
        if crc32c(covered) != header.crc:
            raise self.damaged(header, CorruptBatch(position, f"checksum is not {header.crc:#010x}"), in_place)
        if not in_place:
            said = f"offset {header.base_offset} after {least - 1}, in a log that ends at {end}"
            raise self.damaged(header, CorruptBatch(position, said), in_place)

    def damaged(self, header: BatchHeader, error: MalformedMessage, in_place: bool = True) -> CorruptRecords:
        """Return the error for a damaged batch. `in_place`: the offsets in its header are plausible, so that the error
        can say where to go on behind it."""
        first = header.base_offset
        beyond = first + max(0, header.last_offset_delta) + 1 if in_place else None
        way = "seek beyond them to go on" if beyond is None else f"seek to {beyond} to go on behind them"
        where = f"{self.topic_partition} at offset {first}"
        said = CorruptRecords(
            f"{where}: damaged records: {error}; {way} (CORRUPT_MESSAGE)",
            topic_partition=self.topic_partition,
            offset=first,
            next_offset=beyond,
        )
        said.__cause__ = error  # mypyc ignores the `from` of a raise
        return said

    def _control(self, position: int, header: BatchHeader, aborted_producers: set[int]) -> None:
        if not self._read_committed or header.record_count == 0:  # compaction may leave a batch without its marker
            return
        try:
            key = decode_records(self.records, position).keys[0]
        except MalformedMessage as error:
            raise self.damaged(header, error) from error
        if key is not None and int.from_bytes(key[2:4], "big", signed=True) == ABORT_MARKER:
            aborted_producers.discard(header.producer_id)


def _as_batches(records: memoryview) -> memoryview:
    """Return messages of formats 0 and 1 as batches, up to the first damage; the next answer will begin with that."""
    gathered = bytearray()
    try:
        for batch in to_batches(records, compressed=False):
            gathered += batch
    except MalformedMessage:
        if not gathered:
            raise
    return memoryview(gathered)


class Reader:
    """Reader of one chunk, which hands out some records at a time."""

    def __init__(self, chunk: Chunk, key: Deserializer | None, value: Deserializer | None, *, check_crcs: bool) -> None:
        self.chunk = chunk
        self._key = key
        self._value = value
        self._check_crcs = check_crcs
        self._error: CorruptRecords | None = None
        self._begin()

    def _begin(self) -> None:
        self._batches = self.chunk.batches(self._check_crcs)
        self._header: BatchHeader | None = None
        self._columns: Columns | None = None
        self._index = 0
        self.finished = False

    def take(self, position: int, limit: int) -> list[ConsumerRecord]:
        """Take at most `limit` records from offset `position` on; sets `finished` when there are no more.

        An error is raised once the records before it are handed out, and again each time until the application seeks. A
        deserializer that has failed is called again each time, as in Java's consumer: what it needs may be back.
        """
        taken: list[ConsumerRecord] = []
        if self._error is None:
            try:
                self._take(taken, position, limit)
            except DeserializationError:
                if not taken:
                    raise
            except CorruptRecords as error:
                self._error = error
            except BaseException:  # an interrupt, or no memory: start over, and skip up to `position` the next time
                self._begin()
                raise
        if self._error is not None and not taken:
            raise self._error
        return taken

    def _take(self, taken: list[ConsumerRecord], position: int, limit: int) -> None:
        while len(taken) < limit:
            if self._columns is None or self._index >= len(self._columns.offsets):
                following = next(self._batches, None)
                if following is None:
                    self.finished = True
                    break
                self._header, self._columns = following
                self._index = 0
            self._take_from_batch(taken, position, limit)

    def _take_from_batch(self, taken: list[ConsumerRecord], position: int, limit: int) -> None:
        """Hand out records of the current batch, by columns: making them one by one in a loop takes twice as long."""
        header, columns, where = self._header, self._columns, self.chunk.topic_partition
        assert header is not None and columns is not None
        start = self._index
        if columns.offsets and position > columns.offsets[start]:  # compaction leaves batches without records
            start = bisect_left(columns.offsets, position, start)
        end = len(columns.offsets)
        if end - start > limit - len(taken):
            end = start + limit - len(taken)
        failure = None
        offsets, timestamps, keys, values = columns.offsets, columns.timestamps, columns.keys, columns.values
        if end - start < len(offsets):  # usually the whole batch is taken
            offsets, timestamps = offsets[start:end], timestamps[start:end]
            keys, values = keys[start:end], values[start:end]
        headers = [NO_HEADERS] * len(offsets)
        if columns.raw_headers is not None:
            try:
                headers = [RecordHeaders(decode_headers(section)) for section in columns.raw_headers[start:end]]
            except MalformedMessage as error:
                raise self.chunk.damaged(header, error) from error
        if self._key is not None or self._value is not None:
            keys, values, failure = self._deserialized(offsets, headers, keys, values)
        self._index = start + len(keys)
        columned = zip(  # without `strict`: passing a keyword takes longer than making a record
            repeat(where.topic),
            repeat(where.partition),
            offsets,
            timestamps,
            repeat(1 if header.attributes & LOG_APPEND_TIME_BIT else 0),
            keys,  # after a failure there are fewer keys than offsets, and `zip` ends with them
            values,
            headers,
            repeat(header.leader_epoch),
        )
        taken += map(tuple.__new__, repeat(ConsumerRecord), columned)
        if failure is not None:
            raise failure

    def _deserialized(
        self, offsets: list[int], headers: list[RecordHeaders], keys: list[Any], values: list[Any]
    ) -> tuple[list[Any], list[Any], ClientError | None]:
        """Return keys and values for the application, up to one that cannot be deserialized, and the error of that."""
        topic, key_of, value_of = self.chunk.topic_partition.topic, self._key, self._value
        keys_made: list[Any] = []
        values_made: list[Any] = []
        for offset, header, key, value in zip(offsets, headers, keys, values, strict=True):
            try:
                key_made = key if key_of is None else key_of(topic, header, key)
                value_made = value if value_of is None else value_of(topic, header, value)
            except MemoryError:  # which says nothing about the record
                raise
            except Exception as error:  # noqa: BLE001 - raised when the records before it are handed out
                partition = self.chunk.topic_partition
                failure = DeserializationError(
                    f"{partition} at offset {offset}: cannot be deserialized: {error}; seek to {offset + 1} to go on",
                    topic_partition=partition,
                    offset=offset,
                    next_offset=offset + 1,
                )
                failure.__cause__ = error
                return keys_made, values_made, failure
            keys_made.append(key_made)
            values_made.append(value_made)
        return keys_made, values_made, None


class Ahead:
    """Records of one partition that are decoded and not handed out yet. The partition's position is before them.

    The application's thread takes them without the lock. Whoever moves the position elsewhere, with the lock, drops
    those that are left.
    """

    def __init__(
        self,
        partition: TopicPartition,
        records: list[ConsumerRecord],
        start: tuple[int, int],
        end: tuple[int, int],
    ) -> None:
        """`start` and `end` are the places before the first and behind the last record. Between the last record and
        `end` there may be offsets that no application gets, such as a transaction's marker."""
        self.partition = partition
        self._left = records[::-1]
        self._last: ConsumerRecord | None = None
        self._start, self._end = start, end

    def next(self) -> ConsumerRecord | None:
        """Return the next record, if there is one, and move the place behind it.

        This calls no function: during a call another thread may run and drop the record that is being handed out, which
        would then be fetched again.
        """
        left = self._left
        if not left:
            return None
        record = left[-1]
        self._last = record  # first: if the rest is dropped from here on, the place is behind this record
        del left[-1]
        return record

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the next records, at most `limit`."""
        taken: list[ConsumerRecord] = []
        while len(taken) < limit and (record := self.next()) is not None:
            taken.append(record)
        return taken

    @property
    def place(self) -> tuple[int, int]:
        """Position, and the leader epoch of the record before it."""
        left, last = self._left, self._last
        if last is None:
            return self._start
        return (last.offset + 1, last.leader_epoch) if left else self._end

    def drop(self) -> None:
        """Hand out no further records; the place stays."""
        if self._left:
            self._end = self.place
            self._left = []

    def __bool__(self) -> bool:
        return bool(self._left)
