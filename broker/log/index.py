"""The two sparse indexes of a segment, kept in memory and written in Kafka's format.

Entries wait in memory and reach the file when the segment is flushed, rolled or closed: nothing reads the file before
that, and after an unclean stop the indexes of unflushed segments are rebuilt from the log in any case. Kafka's own
broker preallocates the file of the active segment and fills it through a memory map; both readers accept both.
"""

import logging
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.world.files import File, Files

logger = logging.getLogger(__name__)

LARGEST_INT32 = 2**31 - 1
LARGEST_RELATIVE_OFFSET = LARGEST_INT32

OFFSET_ENTRY = struct.Struct(">iI")
TIME_ENTRY = struct.Struct(">qi")
OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES = OFFSET_ENTRY.size, TIME_ENTRY.size

_NO_NUMBERS, _NO_TIMES = array("I"), array("q")
"""Shared by all indexes without an entry, and never added to: of ten thousand empty logs they would be 3 MB."""


class TimeEntry(NamedTuple):
    """The largest timestamp of a segment up to a place, and the last offset of the batch that has it."""

    timestamp_ms: int
    offset: int


class _IndexFile:
    """Base of both: a file of fixed-size entries, of which the first `_written` are there already."""

    __slots__ = ("_written", "base_offset")

    ENTRY: struct.Struct

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._written = 0

    def __len__(self) -> int:
        raise NotImplementedError

    def _pack(self, first: int) -> bytes:
        raise NotImplementedError

    def write(self, files: Files, path: str, *, sync: bool = False) -> None:
        """Bring the file up to date; creates it. What a full disk has no room for is left out: a shorter index costs
        time alone, and one that ends amid an entry is made anew. Raises OSError."""
        try:
            self._write(files.open(path, create=True), sync)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            logger.warning("no space for %s, which is not written: %s", path, error)

    def _write(self, file: File, sync: bool) -> None:
        count = len(self)
        if file.size() != self._written * self.ENTRY.size:
            file.truncate(self._written * self.ENTRY.size)
        if count > self._written:
            file.append(self._pack(self._written))
            self._written = count
        if sync:
            file.sync()

    def _forget_written(self) -> None:
        self._written = min(self._written, len(self))


def _words(data: bytes) -> "array[int]":
    """Unsigned 32-bit numbers, the largest byte first."""
    numbers = array("I")
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _joined(highs: "array[int]", lows: "array[int]") -> "array[int]":
    """Return 64-bit numbers from their halves."""
    words = array("I", bytes(8 * len(highs)))
    words[::2], words[1::2] = (lows, highs) if sys.byteorder == "little" else (highs, lows)
    return array("q", words.tobytes())


def _rises(numbers: "array[int]") -> bool:
    """Tell whether no number is smaller than the one before it. Sorting is quickest: sorted numbers take one pass."""
    values = numbers.tolist()
    return values == sorted(values)


class OffsetIndex(_IndexFile):
    """Offset index of a segment: (last offset of a batch, its position), about every `index.interval.bytes`."""

    __slots__ = ("_relative_offsets", "positions")
    ENTRY = OFFSET_ENTRY

    def __init__(self, base_offset: int) -> None:
        super().__init__(base_offset)
        self._relative_offsets = self.positions = _NO_NUMBERS

    @classmethod
    def decode(cls, data: bytes, base_offset: int, log_size_bytes: int) -> "OffsetIndex":
        """Decode an offset index. Raises CorruptFile unless offsets and positions rise and lie within the segment."""
        index = cls(base_offset)
        if len(data) % OFFSET_ENTRY.size:
            raise CorruptFile(f"offset index of {len(data)} bytes: not a multiple of {OFFSET_ENTRY.size}")
        numbers = _words(data)
        index._relative_offsets, index.positions = numbers[::2], numbers[1::2]
        index._check(log_size_bytes)
        index._written = len(index)
        return index

    def _check(self, log_size_bytes: int) -> None:
        offsets, positions = self._relative_offsets, self.positions
        if not offsets:
            return
        if positions[-1] >= log_size_bytes or offsets[-1] > LARGEST_RELATIVE_OFFSET:
            raise CorruptFile(f"offset index ends at {offsets[-1]}@{positions[-1]} of {log_size_bytes} bytes")
        if not _rises(offsets) or not _rises(positions):
            raise CorruptFile("entries of the offset index do not increase")

    def __len__(self) -> int:
        return len(self.positions)

    def _pack(self, first: int) -> bytes:
        numbers = array("I", bytes(8 * (len(self) - first)))
        numbers[::2], numbers[1::2] = self._relative_offsets[first:], self.positions[first:]
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()

    def append(self, offset: int, position: int) -> None:
        """Add an entry: `offset` is the last of the batch at `position`; both are larger than all before.

        Nothing to do for an offset that no entry can name: of a damaged batch, or in a segment of an old Kafka, whose
        compaction let it span more offsets than that. The batch is found from the entry before."""
        if not 0 <= offset - self.base_offset <= LARGEST_RELATIVE_OFFSET:
            return
        if not self.positions:
            self._relative_offsets, self.positions = array("I"), array("I")
        self._relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def slot_before(self, offset: int) -> int:
        """Return the number of the last entry that is not after that offset; -1 when there is none."""
        return bisect_right(self._relative_offsets, offset - self.base_offset) - 1

    def entry(self, slot: int) -> tuple[int, int]:
        """Return (offset, position) of the entry of that number."""
        return self.base_offset + self._relative_offsets[slot], self.positions[slot]

    def offset_before(self, position: int) -> int:
        """Return the offset of the last entry that is not after that byte of the segment."""
        slot = bisect_right(self.positions, position) - 1
        return self.base_offset + self._relative_offsets[slot] if slot >= 0 else self.base_offset

    def offset_at(self, position: int) -> int | None:
        """Return the offset of the first entry at or after that byte; None when there is none."""
        slot = bisect_left(self.positions, position)
        return self.base_offset + self._relative_offsets[slot] if slot < len(self.positions) else None

    def truncate_to(self, offset: int) -> None:
        """Forget entries at or after `offset`."""
        slot = bisect_left(self._relative_offsets, max(offset - self.base_offset, 0))
        del self._relative_offsets[slot:]
        del self.positions[slot:]
        self._forget_written()

    def entries(self) -> list[tuple[int, int]]:
        """Return (offset, position) of all entries."""
        return [(self.base_offset + a, b) for a, b in zip(self._relative_offsets, self.positions, strict=True)]


def read_last_time_entry(file: File, base_offset: int) -> TimeEntry | None:
    """Read the last entry of a time index alone; (-1, base offset) when it is empty, None when it is damaged."""
    size = file.size()
    if size == 0:  # messages of format 0 have no timestamps
        return TimeEntry(-1, base_offset)
    if size % TIME_ENTRY.size:
        return None
    timestamp_ms, relative_offset = TIME_ENTRY.unpack(file.pread(TIME_ENTRY.size, size - TIME_ENTRY.size))
    return TimeEntry(timestamp_ms, base_offset + relative_offset) if min(timestamp_ms, relative_offset) >= 0 else None


class TimeIndex(_IndexFile):
    """Time index of a segment: (largest timestamp so far, offset), where that has grown since the entry before."""

    __slots__ = ("_relative_offsets", "timestamps")
    ENTRY = TIME_ENTRY

    def __init__(self, base_offset: int) -> None:
        super().__init__(base_offset)
        self.timestamps, self._relative_offsets = _NO_TIMES, _NO_NUMBERS

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TimeIndex":
        """Decode a time index. Raises CorruptFile unless timestamps and offsets rise."""
        index = cls(base_offset)
        if len(data) % TIME_ENTRY.size:
            raise CorruptFile(f"time index of {len(data)} bytes: not a multiple of {TIME_ENTRY.size}")
        numbers = _words(data)
        highs, lows, index._relative_offsets = numbers[::3], numbers[1::3], numbers[2::3]
        index.timestamps = _joined(highs, lows)
        if not _rises(index.timestamps) or not _rises(index._relative_offsets):
            raise CorruptFile("entries of the time index do not increase")
        if data and (index.timestamps[0] < 0 or index._relative_offsets[-1] > LARGEST_INT32):
            raise CorruptFile("time index with a negative number")
        index._written = len(index)
        return index

    def __len__(self) -> int:
        return len(self.timestamps)

    def _pack(self, first: int) -> bytes:
        pairs = zip(self.timestamps[first:], self._relative_offsets[first:], strict=True)
        return b"".join([TIME_ENTRY.pack(*pair) for pair in pairs])

    def append_if_larger(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry unless the newest says as much already, or no entry can name the offset. -1 (no timestamp)
        is never added."""
        nameable = 0 <= offset - self.base_offset <= LARGEST_RELATIVE_OFFSET
        if nameable and timestamp_ms > (self.timestamps[-1] if self.timestamps else -1):
            if not self.timestamps:
                self.timestamps, self._relative_offsets = array("q"), array("I")
            self.timestamps.append(timestamp_ms)
            self._relative_offsets.append(offset - self.base_offset)

    @property
    def last(self) -> TimeEntry:
        """Return the last entry; (-1, base offset) when there is none."""
        if not self.timestamps:
            return TimeEntry(-1, self.base_offset)
        return TimeEntry(self.timestamps[-1], self.base_offset + self._relative_offsets[-1])

    def slot_before(self, timestamp_ms: int) -> int:
        """Return the number of the last entry whose timestamp is not larger; -1 when there is none."""
        return bisect_right(self.timestamps, timestamp_ms) - 1

    def entry(self, slot: int) -> TimeEntry:
        """Return the entry of that number, as (timestamp, offset)."""
        return TimeEntry(self.timestamps[slot], self.base_offset + self._relative_offsets[slot])

    def truncate_to(self, offset: int) -> None:
        """Forget entries at or after `offset`."""
        slot = bisect_left(self._relative_offsets, max(offset - self.base_offset, 0))
        del self.timestamps[slot:]
        del self._relative_offsets[slot:]
        self._forget_written()

    def entries(self) -> list[TimeEntry]:
        """Return all entries, with absolute offsets."""
        pairs = zip(self.timestamps, self._relative_offsets, strict=True)
        return [TimeEntry(timestamp, self.base_offset + offset) for timestamp, offset in pairs]
