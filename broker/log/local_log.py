"""The files of one partition's log: which segment holds an offset and where, which ones go, and when they are flushed.

The rules of appending, and what is known of producers and epochs, are in log.py, whose `Log` extends this class.
Source: LocalLog.scala of Kafka 3.9.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.log.errors import OUT_OF_DESCRIPTORS, CorruptFile, StorageFailure
from odradek.broker.log.flush import Flush
from odradek.broker.log.leader_epochs import EpochFile
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.producer_snapshots import Snapshots
from odradek.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, Segment
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.world.files import FileRange

NEVER_TRUNCATED = sys.maxsize
KNOWN_POSITIONS = 64
"""Offsets of the active segment whose position is remembered."""
FLUSH_AGAIN_MS = 1_000.0
"""Pause before a flush that could open no file is tried again."""


class LogSlice(NamedTuple):
    """Result of a read. Every batch but possibly the last is whole; `len(records)` is the number of bytes."""

    records: FileRange | bytes
    segment: Segment | None = None
    """Segment in which the records lie; None when there are none."""


EMPTY = LogSlice(b"")


def slice_of(segment: Segment, position: int, length: int, max_bytes: int, whole_first_batch: bool) -> LogSlice:
    """Return that range of the segment's file, cut to `max_bytes`, but never within its first batch.

    If that batch is larger, it is returned whole with `whole_first_batch`, and otherwise nothing is: a reader since
    KIP-74 fails when all that it gets is a part of a batch.
    """
    if length > max_bytes:
        if max_bytes <= 0 and not whole_first_batch:
            return EMPTY
        first = segment.batch_size_at(position)
        if first > max_bytes and not whole_first_batch:
            return EMPTY
        length = min(length, max(max_bytes, first))
    return LogSlice(FileRange(segment.file, position, length), segment)


class LocalLog:
    """Segments in the order of their offsets, the last of which takes the appends; snapshots, and the epochs' file.

    Trouble with the disk is raised as StorageFailure after the log manager has heard of it, except where OSError is
    named. Most readers follow the end, so the positions of the batches that were appended last are remembered.
    """

    __slots__ = (
        "_base_offsets", "_end_at_rest", "_flush_again", "_known_positions", "cleaned_to", "closed", "config",
        "directory", "end_at_open", "environment", "epoch_file", "history_changes", "last_flush_ms", "log_end_offset",
        "log_start_offset", "lowest_end", "partition", "recovery_point", "segments", "snapshots", "topic",
    )  # fmt: skip

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        segments: list[Segment],
        snapshots: Snapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.environment = environment
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.segments = segments
        self.snapshots = snapshots
        self.epoch_file = EpochFile(environment.files, directory)
        self.log_start_offset = log_start_offset
        self.log_end_offset = self.end_at_open = log_end_offset
        self.recovery_point = recovery_point
        """Offset before which everything is certain to be on the disk."""
        self.cleaned_to = 0
        """Offset before which the log is compacted."""
        self.last_flush_ms = environment.clock.now_ms()
        self.history_changes = 0
        """Number of truncations and renamings of its files: a flush or a compaction begun before one does not count."""
        self.lowest_end = NEVER_TRUNCATED
        """The lowest offset a truncation went back to since a copier of the log set it to NEVER_TRUNCATED."""
        self.closed = False
        self._end_at_rest = -1
        self._flush_again: tuple[Callable[[], object] | None, ...] = ()
        self._base_offsets = [segment.base_offset for segment in segments]
        self._known_positions: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def active(self) -> Segment:
        """The segment that takes the appends."""
        return self.segments[-1]

    def segment_number(self, offset: int) -> int:
        """Return the number of the segment that `offset` is or would be in; -1 before the first."""
        return bisect_right(self._base_offsets, offset) - 1

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def log_directory(self) -> str:
        """The entry of `log.dirs` this log is in."""
        return self.directory.rpartition("/")[0]

    def use(self, segment: Segment) -> None:
        """Count `segment` as read just now: if it is an old one, it is among the few that stay open."""
        if segment is not self.segments[-1]:
            self.environment.open_segments.use(segment)

    def give_up_directory(self, cause: OSError) -> StorageFailure:
        """Have the manager give up the log directory, whose disk has failed; return the exception to raise.

        The manager is not told when the log is closed: then nothing else is expected."""
        if not self.closed:
            self.environment.failed(self.log_directory, cause)
        return StorageFailure(self.log_directory, cause)

    # reading

    def unreadable(self, cause: OSError) -> StorageFailure:
        """Return the exception for a failed read or sync. Unless a descriptor was lacking, give the directory up."""
        if cause.errno not in OUT_OF_DESCRIPTORS:
            return self.give_up_directory(cause)
        self.environment.refuse_for_room(self.directory, cause)
        return StorageFailure(self.log_directory, cause)

    def read(self, offset: int, max_bytes: int, end_offset: int, *, whole_first_batch: bool) -> LogSlice:
        """Return the batches from the one that holds `offset` up to, not including, `end_offset`, at most `max_bytes`.

        `whole_first_batch` gives the first batch even when it is larger. Raises KafkaError OFFSET_OUT_OF_RANGE outside
        of [log start, log end], CORRUPT_MESSAGE when the segment is damaged there; StorageFailure.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {self}")
        if offset >= end_offset:
            return EMPTY
        segments = self.segments
        number = bisect_right(self._base_offsets, offset) - 1
        try:
            while number < len(segments):
                segment = segments[number]
                position = self._position(segment, offset)
                end = self._end_position(number, end_offset)
                if position < end:
                    return slice_of(segment, position, end - position, max_bytes, whole_first_batch)
                if end < segment.size_bytes:
                    return EMPTY
                number += 1
        except CorruptBatch as bad:
            raise self.corrupt_message(bad) from bad
        except OSError as error:
            raise self.unreadable(error) from error
        return EMPTY

    def corrupt_message(self, bad: CorruptBatch | CorruptFile) -> KafkaError:
        """Return the error for whoever comes upon damaged bytes in a segment: CORRUPT_MESSAGE, and where it is."""
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic}-{self.partition}: {bad}")

    def _position(self, segment: Segment, offset: int) -> int:
        """Return what `Segment.locate` says, remembering it for the active segment."""
        if segment is not self.segments[-1]:
            self.environment.open_segments.use(segment)
            return segment.locate(offset)
        position = self._known_positions.get(offset)
        if position is None:
            position = segment.locate(offset)
            self._remember_position(offset, position)
        return position

    def _remember_position(self, offset: int, position: int) -> None:
        """Spare the readers of `offset` a scan: its batch is at `position` of the active segment."""
        known = self._known_positions
        if len(known) >= KNOWN_POSITIONS:
            known.clear()
        known[offset] = position

    def _end_position(self, number: int, end_offset: int) -> int:
        """Return where a reader who may see offsets before `end_offset` has to stop in that segment."""
        segments = self.segments
        segment = segments[number]
        after = self.log_end_offset if number + 1 == len(segments) else segments[number + 1].base_offset
        if end_offset >= after:
            return segment.size_bytes
        return self._position(segment, end_offset) if end_offset > segment.base_offset else 0

    # aborted transactions

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that readers of [offset, end_offset) have to skip
        (LocalLog.collectAbortedTransactions).

        Raises KafkaError UNKNOWN_SERVER_ERROR when an index of them is damaged, as Kafka does; StorageFailure.
        """
        found: list[AbortedTransaction] = []
        try:
            for segment in self.segments[max(0, self.segment_number(offset)) :]:
                entries = segment.transactions.entries()
                if entries:
                    self.use(segment)
                for aborted in entries:
                    if aborted.last_offset >= offset and aborted.first_offset < end_offset:
                        found.append(aborted)
                    if aborted.last_stable_offset >= end_offset:
                        return found
        except CorruptFile as bad:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self.topic}-{self.partition}: {bad}") from bad
        except OSError as error:
            raise self.unreadable(error) from error
        return found

    def aborted_within(self, offset: int, found: LogSlice, stable_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that whoever reads `found`, the result of `read(offset, …)`, has to skip.

        Raises as `aborted_transactions`. Where the records end is taken from the index alone, which names that offset
        or a later one (LogSegment.fetchUpperBoundOffset).
        """
        assert isinstance(found.records, FileRange) and found.segment is not None, found
        end = found.segment.offset_index.offset_at(found.records.position + found.records.length)
        if end is None:
            number = self.segment_number(found.segment.base_offset)
            last = number + 1 >= len(self.segments)
            end = self.log_end_offset if last else self.segments[number + 1].base_offset
        return self.aborted_transactions(offset, min(stable_offset, end))

    # to the disk

    @property
    def is_flushed(self) -> bool:
        """True when a flush would bring nothing to the disk that is not there."""
        return self.recovery_point == self.log_end_offset and not self.epoch_file.unsynced

    def flush_if_due(self) -> None:
        """Flush when `flush.messages` are not on the disk yet. Raises StorageFailure."""
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def flush(self) -> None:
        """Bring everything to the disk before returning. Raises StorageFailure."""
        try:
            flush = self._files_to_sync()
            flush.sync()
        except OSError as error:
            raise self.unreadable(error) from error
        self._flushed(flush)

    def flush_in_background(self, then: Callable[[], object] | None = None) -> None:
        """Begin to bring everything to the disk; when it is there `recovery_point` moves, and `then` is called.

        A failure in the background goes to the log manager. Raises StorageFailure when it cannot even begin.
        """
        try:
            self._flush_in_background(then)
        except OSError as error:
            raise self.give_up_directory(error) from error

    def _flush_in_background(self, then: Callable[[], object] | None = None) -> None:
        flush = self._files_to_sync()

        def done(result: OSError | None) -> None:
            if isinstance(result, OSError):
                self._not_flushed(result, then)
                return
            self._flushed(flush)
            if then is not None:
                then()

        self.environment.background.run(flush.sync, done)

    def _not_flushed(self, cause: OSError, then: Callable[[], object] | None) -> None:
        if cause.errno not in OUT_OF_DESCRIPTORS:
            self.give_up_directory(cause)
            return
        self.environment.refuse_for_room(self.directory, cause)
        if not self._flush_again:
            self.environment.clock.call_later(FLUSH_AGAIN_MS, self._flush_once_more)
        self._flush_again += (then,)

    def _flush_once_more(self) -> None:
        waiting, self._flush_again = self._flush_again, ()
        if not self.closed:
            self.flush_in_background(lambda: [then() for then in waiting if then is not None])

    def _files_to_sync(self, *, closing: bool = False) -> Flush:
        """Collect what a flush has to sync; `closing`: all that a start after a clean shutdown relies on.

        While the disk has no room for leader epochs or aborted transactions the recovery point does not move: a start
        learns them from the batches after it. Raises OSError."""
        epoch_file = self.epoch_file
        epoch_file.try_again()
        paths: list[str] = []
        names_changed = closing or epoch_file.unsynced
        all_written = not epoch_file.waits_for_room
        # also a segment that ends at the recovery point: its indexes were written when it was rolled, after that flush
        for segment in self.segments[max(0, self.segment_number(self.recovery_point - 1)) :]:
            all_written = segment.transactions.try_again() and all_written
            paths += [segment.path(LOG), segment.path(TRANSACTION_INDEX)]
            if closing or segment is not self.active:
                paths += [segment.path(OFFSET_INDEX), segment.path(TIME_INDEX)]
            if segment.base_offset >= self.recovery_point:
                paths.append(self.snapshots.path(segment.base_offset))
                names_changed = True
        if closing:
            paths.append(self.snapshots.path(self.log_end_offset))
        if epoch_file.unsynced:
            paths.append(epoch_file.path)
        return Flush(
            self.environment.files, self.environment.clock, self.directory, paths, names_changed=names_changed,
            offset=self.log_end_offset if all_written else self.recovery_point, history_changes=self.history_changes,
            epochs_written=epoch_file.written,
        )  # fmt: skip

    def _flushed(self, flush: Flush) -> None:
        """Note that all before the flush's offset is on the disk, unless the log was truncated meanwhile."""
        if flush.history_changes == self.history_changes:
            self.recovery_point = max(self.recovery_point, flush.offset)
        self.epoch_file.synced(flush.epochs_written)
        self.last_flush_ms = self.environment.clock.now_ms()
        self.environment.flush_times.add(flush.took_s)

    # changing which segments there are

    def check_descriptors(self) -> None:
        """See that there are descriptors for a change that may not stop halfway. Raises StorageFailure, and the
        directory stays online unless its disk fails."""
        try:
            self.environment.check_descriptors(self.active.path(LOG))
        except OSError as error:
            raise self.unreadable(error) from error

    def add_segment(self, base_offset: int) -> Segment:
        """Begin a new, empty segment at the end. Raises OSError."""
        segment = self.environment.new_segment(self.directory, base_offset, self.config)
        self.segments.append(segment)
        self.segments_changed()
        return segment

    def remove_segments(self, gone: list[Segment]) -> None:
        """Take segments out of the log; their files go after `file.delete.delay.ms`. Raises OSError."""
        going = set(gone)
        self.segments = [segment for segment in self.segments if segment not in going]
        self.segments_changed()
        marked = []
        for segment in gone:
            self.environment.open_segments.forget(segment)
            marked += segment.mark_deleted()
        self.environment.remove_files_later(marked, self.config.file_delete_delay_ms)

    def segments_changed(self) -> None:
        """Look at `segments` again; called by whoever changed the list or cut one of them."""
        self._base_offsets = [segment.base_offset for segment in self.segments]
        self._known_positions.clear()

    def moved_to(self, directory: str) -> None:
        """Take the new name of the log's directory. A flush that is under way had the old one: it does not count."""
        self.directory = directory
        self.history_changes += 1
        self.snapshots.moved_to(directory)
        self.epoch_file.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    def rest(self) -> None:
        """Give the active segment's descriptor back if nobody has written since the last call; called at intervals."""
        if self.log_end_offset == self._end_at_rest:
            self.active.close_file()
        self._end_at_rest = self.log_end_offset

    def abandon(self) -> None:
        """Close the log, give its descriptors back and write nothing: what is only in memory is lost, unless
        `begin_close` has written it."""
        self.closed = True
        for segment in self.segments:
            self.environment.open_segments.forget(segment)
            segment.release()
