"""Copying one log into another while it is written, truncated and trimmed.

In turns of some milliseconds. Most bytes are read in the background, for they may have to come from the disk. The end
is read at once, so that at the end of a turn the two logs can be the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.log.chores import SLICE_MS
from odradek.broker.log.log import NEVER_TRUNCATED, Log
from odradek.broker.replication.truncation import truncation_offset
from odradek.world.clock import Clock
from odradek.world.files import FileRange

READ_BYTES_MIN, READ_BYTES_MAX = 16 << 10, 1 << 20
"""Of one turn; in between as much as takes SLICE_MS to append."""
UNSYNCED_BYTES_MAX = 16 << 20
"""So much is written before it is brought to the disk: the kernel never holds us up for what we have written."""
PATIENT_FLUSHES = 3
"""After so many in the background, with the source flushed further meanwhile, one is waited for."""


class Place(NamedTuple):
    """What was asked for: bytes that arrive for another place are of no use."""

    offset: int
    source_truncations: int
    target_truncations: int


class LogCopy:
    """`target` becomes a copy of `source`."""

    def __init__(self, source: Log, target: Log, clock: Clock) -> None:
        self.source, self.target = source, target
        self._clock = clock
        self._begun = False
        self._arrived: tuple[Place, bytes] | None = None
        self._read_bytes = READ_BYTES_MIN
        self._unsynced_bytes = 0
        self._near_end = False
        self._flushes = 0

    def __repr__(self) -> str:
        return f"<copy of {self.source} to {self.target.directory}, which ends at {self.target.log_end_offset}>"

    def advance(self, then: Callable[[], object]) -> bool:
        """Copy some more. Whether the target is a whole copy now; if not, `then` is called when it is time to go on.

        Raises KafkaError: StorageFailure; KAFKA_STORAGE_ERROR when the target's disk is full; CORRUPT_MESSAGE.
        """
        self._agree()
        if self._arrived is not None:
            self._take_arrived(*self._arrived)
        elif self._near_end:
            self._copy_end()
        if self.target.log_end_offset == self.source.log_end_offset:
            if self._is_durable():
                return True
            self._flush(then)
        elif self._unsynced_bytes >= UNSYNCED_BYTES_MAX:
            self._flush(then)
        elif self._near_end:
            self._clock.call_soon(then)
        else:
            self._read_in_background(then)
        return False

    # ---- keeping up with what becomes of the source

    def _agree(self) -> None:
        """Cut from the target what the source does not have, or not any more."""
        source, target = self.source, self.target
        if not self._begun:
            self._begun = True
            self._agree_by_epochs()
        elif source.lowest_end < target.log_end_offset:
            target.truncate_to(source.lowest_end)
        source.lowest_end = NEVER_TRUNCATED
        if target.log_end_offset > source.log_end_offset:
            target.truncate_to(source.log_end_offset)
        if target.log_end_offset < source.log_start_offset:
            target.truncate_fully_and_start_at(source.log_start_offset)
        target.advance_log_start_offset(source.log_start_offset)

    def _agree_by_epochs(self) -> None:
        """The target may be from before a restart: as a follower does with a leader. Without epochs it begins anew."""
        source, target = self.source, self.target
        while True:
            offset = truncation_offset(
                *source.end_offset_for_epoch(target.latest_epoch),
                own_end_offset_for=target.end_offset_for_epoch,
                log_end_offset=target.log_end_offset,
                high_watermark=0,
            )
            if offset >= target.log_end_offset:
                return
            target.truncate_to(offset)

    # ---- copying

    def _read(self) -> FileRange | None:
        """What comes next, None when the source has no batch between the target's end and its own."""
        source, offset = self.source, self.target.log_end_offset
        found = source.read(offset, self._read_bytes, source.log_end_offset, whole_first_batch=True)
        return found.records if isinstance(found.records, FileRange) else None

    def _place(self) -> Place:
        return Place(self.target.log_end_offset, self.source.truncations, self.target.truncations)

    def _read_in_background(self, then: Callable[[], object]) -> None:
        records, place = self._read(), self._place()
        if records is None:
            self._skip_to_end()
            self._clock.call_soon(then)
            return

        def done(result: bytes | OSError) -> None:
            if isinstance(result, OSError):
                self.source.failed(result)
            else:
                self._arrived = (place, result)
                then()

        self.source.storage.background.run(records.read, done)

    def _take_arrived(self, place: Place, data: bytes) -> None:
        self._arrived = None
        if place == self._place():
            self._append(data)

    def _copy_end(self) -> None:
        """Readers of the end find it in memory, and so do we."""
        if self.target.log_end_offset == self.source.log_end_offset:
            return
        records = self._read()
        if records is None:
            self._skip_to_end()
            return
        try:
            data = records.read()
        except OSError as error:
            raise self.source.failed(error) from error
        self._append(data)

    def _append(self, data: bytes) -> None:
        began_ms = self._clock.monotonic_ms()
        self.target.append_as_follower(data)
        took_ms = self._clock.monotonic_ms() - began_ms
        self._unsynced_bytes += len(data)
        self._near_end = len(data) < self._read_bytes and self.target.log_end_offset >= self.source.active.base_offset
        if took_ms > SLICE_MS:
            self._read_bytes = max(READ_BYTES_MIN, self._read_bytes // 2)
        elif took_ms < SLICE_MS / 2:
            self._read_bytes = min(READ_BYTES_MAX, self._read_bytes * 2)

    def _skip_to_end(self) -> None:
        """Compaction has taken the last batches of a segment, and the one after it is empty."""
        target, offset = self.target, self.source.log_end_offset
        try:
            target.roll(offset)
        except OSError as error:
            raise target.failed(error) from error
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
