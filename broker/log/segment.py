"""A segment of a log: a `.log` file, its two sparse indexes and its transaction index.

Source for what is written when: org.apache.kafka.storage.internals.log.LogSegment of 3.9.
"""

import errno
import logging
from collections.abc import Iterator

from odradek.broker.log.batches import Batch, begins_batch, first_offset_of, in_order, iterate_headers, position_of
from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.broker.log.index import (
    LARGEST_RELATIVE_OFFSET,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    read_last_time_entry,
)
from odradek.broker.log.transaction_index import TransactionIndex
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.record_batch import BATCH_LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, CorruptBatch
from odradek.world.clock import Clock
from odradek.world.files import Buffer, File, Files

logger = logging.getLogger(__name__)

# Names: the base offset in twenty digits, and what is in the file.
LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
"""Suffixes of files that wait for removal, and of a compacted segment's before and while they take their place."""

FALSE_ENTRIES_MAX = 64
"""False entries of an index in a row after which a scan begins at the first byte."""


class Segment:
    """Appends and looks up; which segment is used, and when, is up to the log. Methods raise OSError as the disk does.

    Indexes are loaded when first needed and rebuilt from the log when they are missing or wrong.
    """

    __slots__ = (
        "_begins_with_messages", "_bytes_since_index_entry", "_file", "_files", "_index_interval_bytes", "_largest",
        "_offset_index", "_preallocated", "_prefix", "_time_index", "_transactions", "base_offset", "created_ms",
        "first_timestamp_ms", "largest_is_confirmed", "roll_jitter_ms", "size_bytes",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        """Make a new, empty segment; nothing is written yet. `load_size` makes it one that exists."""
        self.base_offset = base_offset
        self.size_bytes = self.roll_jitter_ms = 0
        self._files = files
        self._prefix = f"{directory}/{base_offset:020d}"
        self._transactions: TransactionIndex | None = None
        self._index_interval_bytes, self._preallocated = config.index_interval_bytes, config.preallocate
        self.created_ms = created_ms
        self._begins_with_messages: bool | None = None
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = OffsetIndex(base_offset)
        self._time_index: TimeIndex | None = TimeIndex(base_offset)
        self._largest: TimeEntry | None = TimeEntry(-1, base_offset)
        self.largest_is_confirmed = True
        self.first_timestamp_ms: int | None = None
        self._bytes_since_index_entry = 0

    def __repr__(self) -> str:
        return self.path(LOG)

    def moved_to(self, directory: str) -> None:
        """Take the new name of the log's directory; open files stay open."""
        self._prefix = f"{directory}/{self.base_offset:020d}"
        if self._transactions is not None:
            self._transactions.moved_to(self.path(TRANSACTION_INDEX))

    def load_size(self) -> None:
        """Take the file as it is on the disk; what is in indexes is loaded when needed."""
        self.size_bytes = self._files.size(self.path(LOG))
        indexes = self.path(OFFSET_INDEX), self.path(TIME_INDEX)
        if self.size_bytes or any(self._files.exists(path) and self._files.size(path) for path in indexes):
            self._offset_index = self._time_index = self._largest = None
            self.largest_is_confirmed = False

    def path(self, suffix: str) -> str:
        """Return where a file of this segment is."""
        return self._prefix + suffix

    @property
    def file(self) -> File:
        """The `.log` file, opened when needed; creates it when the segment is new."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path(LOG), create=self.size_bytes == 0)
        return file

    # indexes

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            try:
                data = self._files.read(self.path(OFFSET_INDEX))
                index = self._offset_index = OffsetIndex.decode(data, self.base_offset, self.size_bytes)
            except (CorruptFile, FileNotFoundError) as error:
                index, _ = self._replace_indexes(error)
        return index

    @property
    def time_index(self) -> TimeIndex:
        """Time index, not loaded with the other: who reads on from an offset does not need it."""
        index = self._time_index
        if index is None:
            try:
                data = self._files.read(self.path(TIME_INDEX))
                index = self._time_index = TimeIndex.decode(data, self.base_offset)
            except (CorruptFile, FileNotFoundError) as error:
                _, index = self._replace_indexes(error)
        return index

    @property
    def index_bytes(self) -> int:
        """The memory that loaded indexes take, about."""
        return sum(len(one) * one.ENTRY.size for one in (self._offset_index, self._time_index) if one is not None)

    def _replace_indexes(self, error: Exception) -> tuple[OffsetIndex, TimeIndex]:
        if self.size_bytes:
            logger.warning("%s: rebuilding the indexes: %s", self.path(LOG), error)
        rebuilt = self.rebuild_indexes()
        self.write_indexes(sync=True)  # of a segment that no flush will come to any more
        return rebuilt

    def rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Make the indexes anew from the headers of all batches, up to the first that is none."""
        offsets, times = self.reset_indexes()
        try:
            for batch in iterate_headers(self.file, 0, self.size_bytes):
                self.note(batch.last_offset, batch.position, batch.size_bytes, batch.largest_timestamp_ms)
        except CorruptBatch as bad:
            logger.error("%s is damaged: %s", self.path(LOG), bad)
        times.append_if_larger(*self.largest_timestamp)
        return offsets, times

    def reset_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empty the indexes, as before the first batch."""
        offsets = self._offset_index = OffsetIndex(self.base_offset)
        times = self._time_index = TimeIndex(self.base_offset)
        self._largest = TimeEntry(-1, self.base_offset)
        self._bytes_since_index_entry = 0
        return offsets, times

    def write_indexes(self, *, sync: bool = False) -> None:
        """Bring the index files up to date; nothing to do for one that was not even loaded."""
        if self._offset_index is not None:
            self._offset_index.write(self._files, self.path(OFFSET_INDEX), sync=sync)
        if self._time_index is not None:
            self._time_index.write(self._files, self.path(TIME_INDEX), sync=sync)

    def note(self, last_offset: int, position: int, size_bytes: int, max_timestamp_ms: int) -> None:
        """Note a batch that was written at `position`: its timestamp, and an index entry when it is time for that."""
        assert self._largest is not None and self._offset_index is not None and self._time_index is not None
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if max_timestamp_ms > self._largest[0]:
            self._largest = TimeEntry(max_timestamp_ms, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._offset_index.append(last_offset, position)
            self._time_index.append_if_larger(*self._largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size_bytes

    # appending

    def create(self, size_bytes: int) -> None:
        """Make the `.log` file; with `preallocate` it is that large already. Raises OSError."""
        file = self._files.open(self.path(LOG), create=True)
        if self._preallocated:
            file.reserve(size_bytes)

    def append(self, data: Buffer) -> None:
        """Write at the end. When that fails, the file is cut back to its former size; when that fails too, raise EIO.

        The cut is synced: a crash must not bring back a whole batch of `data` behind what was written in its place."""
        file = self._file
        if file is None:
            file = self.file
        size = self.size_bytes
        try:
            file.append(data)
        except OSError as error:
            try:
                file.truncate(size)
                file.sync()
            except OSError as second:
                raise OSError(
                    errno.EIO, f"a partial write remains at byte {size}: {error}, {second}", file.path
                ) from error
            raise
        self.size_bytes = size + len(data)

    def become_inactive(self) -> None:
        """Write the last time entry and the index files, since a newer segment takes the appends. Gives back room that
        was preallocated and not used."""
        if self._preallocated:
            self.file.truncate(self.size_bytes)
        self.time_index.append_if_larger(*self.largest_timestamp)
        self.write_indexes()

    def is_full(
        self, config: LogConfig, size_bytes: int, last_offset: int, max_timestamp_ms: int, clock: Clock
    ) -> bool:
        """Tell whether batches of that size in all, which end with that offset, belong into a new segment.

        Source: LogSegment.shouldRoll of Kafka 3.9. Raises OSError.
        """
        size = self.size_bytes
        if last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET:
            return True
        if size == 0:
            return False
        if size > config.segment_bytes - size_bytes:
            return True
        first = self.first_timestamp_ms
        if first is None:
            first = self._load_first_timestamp()
        waited = max_timestamp_ms - first if first >= 0 else clock.now_ms() - self.created_ms
        if waited > config.segment_ms - self.roll_jitter_ms:
            return True
        limit = config.segment_index_bytes
        return len(self.offset_index.positions) >= limit // OFFSET_ENTRY_BYTES or (
            len(self.time_index.timestamps) >= limit // TIME_ENTRY_BYTES - 1
        )

    def _load_first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch; -1 when it has none or is damaged: its readers are told."""
        try:
            self.first_timestamp_ms = next(iterate_headers(self.file, 0, self.size_bytes)).max_timestamp_ms
        except CorruptBatch as bad:
            logger.error("%s is damaged: %s", self, bad)
            self.first_timestamp_ms = -1
        return self.first_timestamp_ms

    # looking up

    def locate(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is not before `offset`; the size when there is none.

        Raises CorruptBatch when the segment is damaged on the way.
        """
        return position_of(offset, self.file, self.position_before(offset), self.size_bytes)

    def position_before(self, offset: int) -> int:
        """Return where to begin to scan for `offset`: the place of a batch that is not behind the one that holds it.

        The index has no checksum: a disk that rots, or a power failure, may leave entries that increase as they should
        and are wrong. So each is compared with the log: a wrong one costs time only. Raises OSError.
        """
        index = self.offset_index
        slot = index.slot_before(offset)
        for number in range(slot, max(slot - FALSE_ENTRIES_MAX, -1), -1):
            last_offset, position = index.entry(number)
            if begins_batch(self.file, position, self.size_bytes, self.base_offset, last_offset):
                return position
            logger.warning("%s: offset %d is not at byte %d, as its index says", self, last_offset, position)
        return 0

    def batches_from(self, offset: int) -> Iterator[Batch]:
        """Yield the headers of batches, from the one that holds `offset` on."""
        return iterate_headers(self.file, self.locate(offset), self.size_bytes)

    def batch_size_at(self, position: int) -> int:
        """Return the bytes of the batch that begins at `position`."""
        data = self.file.pread(LOG_OVERHEAD, position)
        return int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD

    @property
    def begins_with_messages(self) -> bool:
        """True when the first batch is a message of format 0 or 1. Formats only rise: no message follows a batch.

        In Kafka's logs they may fall for a while when the brokers of a cluster are upgraded one by one; messages that
        are overlooked here are sent to readers as they are, as Kafka does.
        """
        if self._begins_with_messages is None:
            head = self.file.pread(MAGIC_AT + 1, 0) if self.size_bytes else b""
            if len(head) <= MAGIC_AT or not any(head[BATCH_LENGTH_AT:MAGIC_AT]):  # nothing yet, or only room for it
                return False
            self._begins_with_messages = head[MAGIC_AT] < MAGIC_V2
        return self._begins_with_messages

    def next_offset(self) -> int:
        """Return the offset after the last batch, the base offset when empty. Learns the largest timestamp, too."""
        position = self.position_before(self.base_offset + LARGEST_RELATIVE_OFFSET)
        largest = self.time_index.last
        following = self.base_offset
        for batch in in_order(self.file, position, self.size_bytes, following) if self.size_bytes else ():
            following = batch.last_offset + 1
            if batch.largest_timestamp_ms > largest.timestamp_ms:
                largest = TimeEntry(batch.largest_timestamp_ms, batch.last_offset)
        self._largest = largest
        self._bytes_since_index_entry = self.size_bytes - position
        return following

    @property
    def largest_timestamp(self) -> TimeEntry:
        """Return the largest timestamp and the last offset of its batch; (-1, base offset) when no batch has one."""
        if self._largest is None:
            self._largest = self._last_time_entry()
        return self._largest

    def _last_time_entry(self) -> TimeEntry:
        """Return the last time entry without loading the index: retention asks every old segment for it."""
        if self._time_index is None and self._files.exists(self.path(TIME_INDEX)):
            last = read_last_time_entry(self._files.open(self.path(TIME_INDEX)), self.base_offset)
            if last is not None:
                return last
        return self.time_index.last

    def retention_timestamp_ms(self) -> int:
        """Return what `retention.ms` counts from: the largest timestamp, else the time of the last change."""
        largest = self.largest_timestamp.timestamp_ms
        return largest if largest >= 0 else self._files.modified_ms(self.path(LOG))

    def modified_ms(self) -> int:
        """Return when the file was last written."""
        return self._files.modified_ms(self.path(LOG))

    # transactions

    @property
    def transactions(self) -> TransactionIndex:
        """Index of its aborted transactions, made when it is first needed: most segments have none."""
        if self._transactions is None:
            self._transactions = TransactionIndex(self._files, self.path(TRANSACTION_INDEX))
        return self._transactions

    # ending

    def place_of_cut(self, offset: int) -> tuple[int, int]:
        """Return where the batch that holds `offset` begins, and the offset that the next one may have then.

        Changes nothing: damage is found out before anything is cut. Raises CorruptBatch; CorruptFile.
        """
        self.transactions.entries()
        position, end_offset = self.locate(offset), offset
        if position < self.size_bytes:
            first = next(iterate_headers(self.file, position, self.size_bytes))
            end_offset = min(offset, first_offset_of(self.file, first))
        for _ in in_order(self.file, self.position_before(end_offset - 1), position, self.base_offset):
            pass  # the last batches that stay: `truncate_at` will read them again
        return position, end_offset

    def truncate_at(self, position: int, end_offset: int, now_ms: int) -> None:
        """Cut the segment where `place_of_cut` has said."""
        self.offset_index.truncate_to(end_offset)
        self.time_index.truncate_to(end_offset)
        self.transactions.keep_before(end_offset)
        self.cut(position)
        self.write_indexes()  # whoever looks at the disk would call them damaged
        if position == 0:
            self.created_ms, self.first_timestamp_ms, self._begins_with_messages = now_ms, None, None
        self.next_offset()
        self._bytes_since_index_entry = 0

    def cut(self, size_bytes: int) -> None:
        """Drop everything from a byte on; what is noted of it is the caller's to forget."""
        self.file.truncate(size_bytes)
        self.size_bytes = size_bytes

    def release(self) -> None:
        """Give up the descriptor and the indexes, except aborted transactions that the disk had no room for.

        An answer that is still being sent from the file keeps it open."""
        self._file = None
        self._offset_index = self._time_index = None
        if self._transactions is not None:
            self._transactions.release()

    def close_file(self) -> None:
        """Give up the descriptor until somebody needs it again: a log that rests takes none."""
        self._file = None

    def sync(self) -> None:
        """Sync the `.log` to the disk."""
        self.file.sync()

    def mark_deleted(self) -> list[str]:
        """Rename the files; readers go on. One without room for a new name is removed. Return the new paths."""
        marked = []
        for path in filter(self._files.exists, map(self.path, SUFFIXES)):
            try:
                self._files.rename(path, path + DELETED)
                marked.append(path + DELETED)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._files.remove(path)
        self.release()
        return marked
