"""Copy of a log in another log directory of this broker, for a replica that moves there (KIP-113).

Roles and leaders do not matter: what is copied is our own log, whatever that takes or loses meanwhile. Kafka:
ReplicaAlterLogDirsThread.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.log.local_log import NEVER_TRUNCATED
from odradek.broker.log.log import Log
from odradek.broker.replication.truncation import drop_open_transactions, truncation_offset
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import LOG_OVERHEAD
from odradek.world.clock import Clock
from odradek.world.files import FileRange
from odradek.world.time_slices import SLICE_MS

READ_BYTES = 4 << 20
"""Size of one read in the background, which may be appended in several turns."""
PIECE_BYTES = 64 << 10
"""Size of one append."""
END_BYTES_MIN, END_BYTES_MAX = 64 << 10, 1 << 20
"""Size of one turn at the end: it grows when the source has been faster."""
UNSYNCED_BYTES_MAX = 16 << 20
"""Limit of what is written before it is flushed, so that the kernel never blocks us for what we have written."""
PATIENT_FLUSHES = 3
"""Number of flushes in the background, with the source flushed further meanwhile, after which one is waited for."""


class Place(NamedTuple):
    """Place in the target that bytes were read for; if it has changed when they arrive, they are of no use."""

    offset: int
    source_changes: int
    target_changes: int


class Arrived(NamedTuple):
    """Bytes that are to be appended at `place`; `at_end`: they went up to the end of the source."""

    place: Place
    data: memoryview
    at_end: bool


class LogCopy:
    """Work that makes `target` a copy of `source`, which is written, truncated and trimmed meanwhile.

    Most bytes are read in the background, for they may have to come from the disk. The end is read at once, so that at
    the end of a turn the two logs can be the same.
    """

    def __init__(self, source: Log, target: Log, clock: Clock) -> None:
        self.source, self.target = source, target
        self._clock = clock
        self._begun = False
        self._arrived: Arrived | None = None
        self._end_bytes = END_BYTES_MIN
        self.copied_bytes = 0
        """Bytes copied so far, those that were cut off again included."""
        self._unsynced_bytes = 0
        self._near_end = False
        self._flushes = 0

    def __repr__(self) -> str:
        return f"<copy of {self.source} to {self.target.directory}, which ends at {self.target.log_end_offset}>"

    def advance(self, then: Callable[[], object]) -> bool:
        """Copy some more; tell whether the target is a whole copy now. If not, `then` is called when it can go on.

        Raises KafkaError: StorageFailure; KAFKA_STORAGE_ERROR when the target's disk is full; CORRUPT_MESSAGE.
        """
        self._agree()
        if self._arrived is not None:
            self._take_arrived(self._arrived)
        elif self._near_end:
            self._copy_end()
        if self.target.log_end_offset == self.source.log_end_offset:
            if self._is_durable():
                return True
            self._flush(then)
        elif self._unsynced_bytes >= UNSYNCED_BYTES_MAX:
            self._flush(then)
        elif self._near_end or self._arrived is not None:
            self._clock.call_soon(then)
        else:
            self._read_in_background(then)
        return False

    # ---- keeping up with what becomes of the source

    def _agree(self) -> None:
        """Cut from the target what the source does not have, or not any more."""
        source, target = self.source, self.target
        if not self._begun:
            self._agree_by_epochs()
            self._begun = True
        elif source.lowest_end < target.log_end_offset:
            target.truncate_to(source.lowest_end)
        source.lowest_end = NEVER_TRUNCATED
        if target.log_end_offset > source.log_end_offset:
            target.truncate_to(source.log_end_offset)
        if target.log_end_offset < source.log_start_offset:
            target.truncate_fully_and_start_at(source.log_start_offset)
        target.advance_log_start_offset(source.log_start_offset)

    def _agree_by_epochs(self) -> None:
        """Truncate a target from before a restart as a follower does; without leader epochs it begins anew.

        If the source is compacted, or was, the markers of the transactions that are open in the target may be gone from
        it: then these go from the target first. In any other log they would only be copied again, and all of the log
        where some transaction is always open.
        """
        source, target = self.source, self.target
        if source.config.compacts or source.cleaned_to:
            drop_open_transactions(target)
        while True:
            offset = truncation_offset(
                *source.end_offset_for_epoch(target.epochs.latest),
                own_end_offset_for=target.end_offset_for_epoch,
                log_end_offset=target.log_end_offset,
                high_watermark=0,
            )
            if offset >= target.log_end_offset:
                return
            target.truncate_to(offset)

    # ---- copying

    def _read(self, max_bytes: int) -> FileRange | None:
        """Find what comes next; None when the source has no batch between the target's end and its own."""
        source, offset = self.source, self.target.log_end_offset
        found = source.read(offset, max_bytes, source.log_end_offset, whole_first_batch=True)
        return found.records if isinstance(found.records, FileRange) else None

    def _place(self) -> Place:
        return Place(self.target.log_end_offset, self.source.history_changes, self.target.history_changes)

    def _read_in_background(self, then: Callable[[], object]) -> None:
        records, place = self._read(READ_BYTES), self._place()
        if records is None:
            self._skip_to_end()
            self._clock.call_soon(then)
            return

        def done(result: bytes | OSError) -> None:
            if isinstance(result, OSError):
                self.source.give_up_directory(result)
            else:
                at_end = len(result) < READ_BYTES and self.source.active.base_offset <= place.offset
                self._arrived = Arrived(place, memoryview(result), at_end)
                then()

        self.source.environment.background.run(records.read, done)

    def _take_arrived(self, arrived: Arrived) -> None:
        """Append what has arrived until others must have the loop."""
        self._arrived = None
        if arrived.place != self._place():
            return
        data = arrived.data
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._clock.monotonic_ms() < until_ms:
            data = data[self._append(data) :]
            if not whole_batches(data, 1):  # the rest is the beginning of one
                self._near_end = arrived.at_end
                return
        self._arrived = Arrived(self._place(), data, arrived.at_end)

    def _copy_end(self) -> None:
        """Copy the end of the log on the loop: it was written lately, so it is read from memory."""
        source, target, left = self.source, self.target, self._end_bytes
        while left > 0 and target.log_end_offset < source.log_end_offset:
            records = self._read(left)
            if records is None:
                self._skip_to_end()
                return
            try:
                data = memoryview(records.read())
            except OSError as error:
                raise source.give_up_directory(error) from error
            left -= self._append(data)
        if target.log_end_offset < source.log_end_offset:
            self._end_bytes = min(2 * self._end_bytes, END_BYTES_MAX)
            self._near_end = False

    def _append(self, data: memoryview) -> int:
        """Append a piece of `data`; return its size in bytes."""
        size = whole_batches(data, PIECE_BYTES)
        if not size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.source}: no batch at {self.target.log_end_offset}")
        self.target.append_as_follower(data[:size])
        self.copied_bytes += size
        self._unsynced_bytes += size
        return size

    def _skip_to_end(self) -> None:
        """Skip what compaction has taken: the last batches of a segment, before one that is empty."""
        target, offset = self.target, self.source.log_end_offset
        try:
            target.roll(offset)
        except OSError as error:
            raise target.unreadable(error) from error
        target.log_end_offset = offset

    # ---- what the source has on the disk, the target must have there

    def _is_durable(self) -> bool:
        if self.target.recovery_point >= self.source.recovery_point:
            return True
        if self._flushes < PATIENT_FLUSHES:
            return False
        self.target.flush()
        return True

    def _flush(self, then: Callable[[], object]) -> None:
        self._unsynced_bytes = 0
        if self.target.log_end_offset == self.source.log_end_offset:
            self._flushes += 1
        self.target.flush_in_background(then)


def whole_batches(data: memoryview, limit: int) -> int:
    """Count the bytes of the first whole batches: as many as fit in `limit`, at least one; 0 when there is none."""
    size = 0
    while len(data) - size >= LOG_OVERHEAD:
        after = size + LOG_OVERHEAD + int.from_bytes(data[size + 8 : size + LOG_OVERHEAD], "big", signed=True)
        if after > len(data) or (size and after > limit) or after <= size:
            break
        size = after
    return size
