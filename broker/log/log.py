"""One partition replica's log: a list of segments, the last of which takes the appends.

Everything here runs on the loop; only the syncs of a flush go to the background. Trouble with the disk is raised as
StorageFailure after the log manager has heard of it; trouble with what a client sent is a KafkaError.
Source of the behaviour: UnifiedLog.scala and LocalLog.scala of Kafka 3.9.
"""

import logging
import sys
from bisect import bisect_right
from collections.abc import Callable

from odradek.broker.log import appending, flushing, listing, reading, retention, rewriting, rolling, truncation
from odradek.broker.log.append import Appended, Origin
from odradek.broker.log.config import LogConfig
from odradek.broker.log.directories.checkpoints import LEADER_EPOCHS, encode_epochs
from odradek.broker.log.failure import DISK_FULL, StorageFailure
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.producers.snapshots import Snapshots
from odradek.broker.log.producers.state import ProducerState, VerificationGuard
from odradek.broker.log.segment import Segment
from odradek.broker.log.slices import LogSlice
from odradek.broker.log.storage import Storage
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.files import Buffer, FileRange

__all__ = ["Appended", "FileRange", "Log", "LogConfig", "LogSlice", "Origin"]

logger = logging.getLogger(__name__)

NEVER_TRUNCATED = sys.maxsize
KNOWN_POSITIONS = 64
"""Offsets of the active segment whose position is remembered."""


class Log:
    """Opened by `recovery.open_log`. All offsets are absolute; `recovery_point` is what the disk has for certain, and
    before `cleaned_to` the log is compacted. Who copies the log sets `lowest_end`, the lowest offset that a truncation
    went back to, to NEVER_TRUNCATED, and looks again."""

    __slots__ = (
        "_base_offsets",
        "_end_at_rest",
        "clean_end_offset",
        "cleaned_to",
        "closed",
        "config",
        "directory",
        "end_at_open",
        "epochs",
        "epochs_unsynced",
        "epochs_wait_for_room",
        "epochs_written",
        "known_positions",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "lowest_end",
        "partition",
        "producers",
        "recovery_point",
        "rewrites",
        "segments",
        "snapshots",
        "storage",
        "topic",
        "truncations",
        "unsettled",
    )

    def __init__(
        self,
        storage: Storage,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: Snapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.end_at_open = log_end_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = storage.clock.now_ms()
        self.rewrites = rewriting.needed(config)
        self._base_offsets = [segment.base_offset for segment in segments]
        self.known_positions: dict[int, int] = {}
        self.truncations = 0
        self.unsettled = True
        self._end_at_rest = -1
        self.lowest_end = NEVER_TRUNCATED
        self.closed = False
        self.clean_end_offset = -1
        self.cleaned_to = 0
        self.epochs_unsynced = False
        self.epochs_wait_for_room = False
        self.epochs_written = 0

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def active(self) -> Segment:
        """The segment that takes the appends."""
        return self.segments[-1]

    def segment_number(self, offset: int) -> int:
        """Of the segment that `offset` is or would be in; -1 before the first."""
        return bisect_right(self._base_offsets, offset) - 1

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch known here; -1 when none."""
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def log_directory(self) -> str:
        """The entry of `log.dirs` this log is in."""
        return self.directory.rpartition("/")[0]

    def use(self, segment: Segment) -> None:
        """It is read: if it is an old one, it counts among the few that stay open."""
        if segment is not self.segments[-1]:
            self.storage.open_segments.use(segment)

    def failed(self, cause: OSError) -> StorageFailure:
        """Tell the manager that the disk failed; the exception to raise. Of a closed log nothing else is expected."""
        if not self.closed:
            self.storage.failed(self.log_directory, cause)
        return StorageFailure(self.log_directory, cause)

    # appending

    def append_as_leader(
        self, records: memoryview | bytearray, leader_epoch: int, *, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """Give offsets to whole v2 batches and write them with one call, all or none. `records` is patched in place.

        Raises KafkaError, nothing written: what `checked_fields` and `ProducerState.check` raise, RECORD_LIST_TOO_LARGE
        when they exceed `segment.bytes`, KAFKA_STORAGE_ERROR when the disk is full. Raises StorageFailure.
        """
        return appending.as_leader(self, records, leader_epoch, origin)

    def append_as_follower(self, records: Buffer) -> Appended:
        """Write batches as the leader gave them, offsets and epochs in them; a cut-off last one is left out.

        Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, OFFSET_OUT_OF_RANGE when they do not continue this log.
        Raises StorageFailure.
        """
        return appending.as_follower(self, records)

    def know_position(self, offset: int, position: int) -> None:
        """The batch that begins with `offset` is at `position` of the active segment: spares its readers a scan."""
        known = self.known_positions
        if len(known) >= KNOWN_POSITIONS:
            known.clear()
        known[offset] = position

    def roll(self, first_offset: int = 0) -> Segment:
        """Begin a new segment at the log end, or later when the next batch does. Raises OSError."""
        return rolling.roll(self, first_offset)

    # reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, whole_first_batch: bool) -> LogSlice:
        """Batches from the one that holds `offset` up to, not including, `end_offset`, at most `max_bytes`.

        `whole_first_batch` gives the first batch even when it is larger. Raises KafkaError OFFSET_OUT_OF_RANGE outside
        of [log start, log end], CORRUPT_MESSAGE when the segment is damaged there; StorageFailure.
        """
        return reading.read(self, offset, max_bytes, end_offset, whole_first_batch)

    # epochs, transactions and offsets by time

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader's epoch begins at that offset: a new leader's first act. Raises StorageFailure."""
        if self.epochs.assign(epoch, start_offset):
            self.write_epochs()

    def forget_epochs(self) -> None:
        """A message of format 0 or 1 was appended, which has no epoch: from here on histories cannot be compared.

        So a follower goes back to its high watermark (UnifiedLog.append). Raises StorageFailure.
        """
        if self.epochs.latest >= 0:
            self.epochs.clear()
            self.write_epochs()

    def write_epochs(self) -> None:
        """Bring the checkpoint up to date. It is synced with the next flush, before the recovery point moves.

        On a full disk that waits for the next change or flush. Raises StorageFailure."""
        path = f"{self.directory}/{LEADER_EPOCHS}"
        waited, self.epochs_wait_for_room = self.epochs_wait_for_room, False
        try:
            self.storage.files.write_atomically(path, encode_epochs(self.epochs.entries()), sync=False)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise self.failed(error) from error
            self.epochs_wait_for_room = True
            if not waited:
                logger.error("%s: no room for its leader epochs: %s", self, error)
        self.epochs_written += 1
        self.epochs_unsynced = True

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch known that is not above; (-1, -1) when there is no telling."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where readers of committed data may read."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(high_watermark, max(unstable, self.log_start_offset))

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that readers of [offset, end_offset) have to skip.

        Raises KafkaError UNKNOWN_SERVER_ERROR when an index of them is damaged, as Kafka does; StorageFailure.
        """
        return reading.aborted_transactions(self, offset, end_offset)

    def aborted_within(self, offset: int, found: LogSlice, stable_offset: int) -> list[AbortedTransaction]:
        """Those that readers of what `read(offset, …)` gave have to skip. Raises as `aborted_transactions`."""
        return self.aborted_transactions(offset, min(stable_offset, reading.end_of(self, found)))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after that time; None when there is none."""
        return listing.first_at_or_after(self, timestamp_ms)

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the record with the largest timestamp; None when there is none."""
        return listing.with_max_timestamp(self)

    def offsets_before(self, timestamp_ms: int, limit: int) -> list[int]:
        """ListOffsets version 0: starts of segments written before that time (-1 latest, -2 earliest), newest first."""
        return listing.segment_offsets_before(self, timestamp_ms, limit)

    def begin_verification(self, producer_id: int) -> VerificationGuard | None:
        """See ProducerState.begin_verification."""
        return self.producers.begin_verification(producer_id, self.storage.clock.now_ms())

    def is_verified(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Return what ProducerState.is_verified says; False once the log is closed or was truncated.

        A guard is not asked of the state that gave it out: a truncation puts another in its place.
        """
        return not self.closed and self.producers.is_verified(producer_id, guard)

    # changing what is there

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or after `offset`; whether there was any. Raises StorageFailure."""
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next batch comes at `offset`. Raises StorageFailure."""
        truncation.start_over(self, offset)

    def segments_changed(self) -> None:
        """Called by whoever changed `segments`."""
        self._base_offsets = [segment.base_offset for segment in self.segments]
        self.known_positions.clear()

    def went_back_to(self, offset: int) -> None:
        """Called after a truncation: nothing from `offset` on is on the disk, whatever a running flush believes."""
        self.truncations += 1
        self.unsettled = True
        self.lowest_end = min(self.lowest_end, offset)
        if self.recovery_point > offset or self.cleaned_to > offset:
            self.recovery_point = min(self.recovery_point, offset)
            self.cleaned_to = min(self.cleaned_to, offset)
            self.storage.truncated(self)

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide records before `offset` (DeleteRecords, the leader's log start); whole segments go with the next
        retention. The caller has checked it against the high watermark. Raises KafkaError OFFSET_OUT_OF_RANGE above
        the log end."""
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"log start {offset} after log end {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.write_epochs()

    def delete_old_segments(self, high_watermark: int, at_most: int = sys.maxsize) -> int:
        """How many segments went: those before the log start, and by `retention.bytes` and `retention.ms` when the
        policy says delete. Raises StorageFailure."""
        try:
            return retention.delete_old_segments(self, high_watermark, at_most)
        except OSError as error:
            if error.errno in DISK_FULL:  # no segment could be made in the place of the last one, which stays
                logger.error("%s: its last segment stays: %s", self, error)
                return 0
            raise self.failed(error) from error

    def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        self.producers.expire(self.storage.clock.now_ms(), self.storage.producer_expiration_ms)

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed. A flush that is under way had the old names, so it does not count."""
        self.directory = directory
        self.truncations += 1
        self.snapshots.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    def configure(self, config: LogConfig) -> None:
        """Take other settings from now on."""
        self.config = config
        self.rewrites = rewriting.needed(config)

    def rest(self) -> None:
        """Called from time to time: nobody has written since the last time, so the descriptor can be given back."""
        if self.log_end_offset == self._end_at_rest:
            self.active.close_file()
        self._end_at_rest = self.log_end_offset

    # to the disk

    def flush(self) -> None:
        """Return when everything is on the disk. Raises StorageFailure."""
        flushing.now(self)

    def flush_in_background(self, then: Callable[[], object] | None = None) -> None:
        """Begin to bring everything to the disk; when it is there `recovery_point` moves, and `then` is called."""
        try:
            flushing.in_background(self, then)
        except OSError as error:
            raise self.failed(error) from error

    def close(self) -> None:
        """Everything to the disk, with a snapshot of the producers, and the descriptors back. Raises StorageFailure."""
        flushing.close(self)

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: the log is to be deleted, or its directory is offline."""
        self.closed = True
        for segment in self.segments:
            self.storage.open_segments.forget(segment)
            segment.release()
