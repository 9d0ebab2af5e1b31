"""Bringing a log to the disk. The order is the promise: files first, then the recovery point moves.

Leader epochs are synced with the data that was written in them, so a recovery point never passes an epoch that a
crash could take away.
"""

import contextlib
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.log.directories.checkpoints import LEADER_EPOCHS
from odradek.broker.log.segment_files import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX
from odradek.world.files import Files

if TYPE_CHECKING:
    from odradek.broker.log.log import Log


class Flush:
    """What has to be synced so that everything before `offset` is safe. Made on the loop; `sync` runs anywhere."""

    __slots__ = ("_directory", "_files", "_paths", "epochs_written", "offset", "synced", "truncations")

    def __init__(self, log: "Log", *, closing: bool = False) -> None:
        """`closing`: with all that a clean start relies on. While there is no room for the epochs the recovery point
        stays: a start learns them from the batches after it."""
        if log.epochs_wait_for_room:
            log.write_epochs()
        self.offset = log.recovery_point if log.epochs_wait_for_room else log.log_end_offset
        self.epochs_written = log.epochs_written
        self.truncations = log.truncations
        self.synced = False
        self._files: Files = log.storage.files
        self._directory: str | None = None
        self._paths: list[str] = []
        # the one before a recovery point that is its end: its indexes were written when it was full, after its data
        first = max(0, log.segment_number(log.recovery_point - 1))
        for segment in log.segments[first:]:
            self._paths += [segment.path(LOG), segment.path(TRANSACTION_INDEX)]
            if closing or segment is not log.active:
                self._paths += [segment.path(OFFSET_INDEX), segment.path(TIME_INDEX)]
            if segment.base_offset >= log.recovery_point:
                self._paths.append(log.snapshots.path(segment.base_offset))
                self._directory = log.directory
        if closing:
            self._paths.append(log.snapshots.path(log.log_end_offset))
            self._directory = log.directory
        if log.epochs_unsynced:
            self._paths.append(f"{log.directory}/{LEADER_EPOCHS}")
            self._directory = log.directory

    def sync(self) -> None:
        """Blocks. Files that were deleted meanwhile do not matter any more. Raises OSError."""
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._files.open(path).sync()
        if self._directory is not None:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_directory(self._directory)
                self._files.sync_directory(self._directory.rpartition("/")[0])
        self.synced = True


def _done(log: "Log", flush: Flush) -> None:
    """Everything before its offset is safe, unless the log was truncated while it ran."""
    if flush.truncations == log.truncations:
        log.recovery_point = max(log.recovery_point, flush.offset)
    if flush.epochs_written == log.epochs_written:
        log.epochs_unsynced = False
    log.last_flush_ms = log.storage.clock.now_ms()


def now(log: "Log") -> None:
    """Flush and return when that is done. Raises StorageFailure."""
    try:
        flush = Flush(log)
        flush.sync()
    except OSError as error:
        raise log.failed(error) from error
    _done(log, flush)


def in_background(log: "Log", then: Callable[[], object] | None = None) -> None:
    """Flush while the loop goes on, then call `then`; a failure goes to the log manager.

    Raises OSError when it cannot even begin.
    """
    flush = Flush(log)

    def done(result: OSError | None) -> None:
        if isinstance(result, OSError):
            log.failed(result)
        else:
            _done(log, flush)
            if then is not None:
                then()

    log.storage.background.run(flush.sync, done)


def close(log: "Log") -> None:
    """The end of a clean shutdown: nothing is left to be rebuilt at the next start. Raises StorageFailure."""
    flush = begin_close(log)
    if flush is None:
        return
    try:
        flush.sync()
    except OSError as error:
        raise log.failed(error) from error
    end_close(log, flush)


def begin_close(log: "Log") -> Flush | None:
    """Write what is only in memory. What is to be synced then; None when the log is closed. Raises StorageFailure."""
    if log.log_end_offset == log.clean_end_offset and not log.truncations and not log.epochs_unsynced:
        log.abandon()  # as it was opened after the last clean shutdown
        return None
    try:
        log.producers.map_end_offset = log.log_end_offset
        log.snapshots.write(log.producers)
        log.active.become_inactive()
        flush = Flush(log, closing=True)
        if log.epochs_wait_for_room:
            raise OSError(errno.ENOSPC, "no room for the leader epochs", log.directory)
        return flush
    except OSError as error:
        raise log.failed(error) from error


def end_close(log: "Log", flush: Flush) -> None:
    """It is synced."""
    _done(log, flush)
    log.abandon()
