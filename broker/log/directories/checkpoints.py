"""Writing of the checkpoints of the log directories: when, and what; each has the offsets of the logs in it."""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from odradek.broker.log.checkpoint_format import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    Offsets,
)
from odradek.broker.log.directories.checkpoint_files import Entries
from odradek.broker.log.directories.live_logs import LiveLogs, LogDirectories
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import Claims
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock

OFFSET_OF: Final[dict[str, Callable[[Log], int]]] = {
    RECOVERY_POINTS: attrgetter("recovery_point"),
    LOG_START_OFFSETS: attrgetter("log_start_offset"),
    CLEANER_OFFSETS: attrgetter("cleaned_to"),
}
"""Checkpoints of what the logs know themselves. A log's start is written also where its first segment says the same: a
crash may bring back a segment that was removed."""
MADE_DISTANCE_MS = 500.0
"""Least time between two writes for new logs: each write goes through all logs, and thousands may be made."""


class Checkpoints:
    """Checkpoints of all log directories, owned by the log manager. Once `stopped` it writes high watermarks alone."""

    def __init__(self, clock: Clock, directories: LogDirectories, logs: LiveLogs) -> None:
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._soon: set[str] = set()
        self._made: set[str] = set()
        """Directories for whose new logs a write is due."""
        self._next_for_made_ms: dict[str, float] = {}
        self.stopped = False

    def read_high_watermarks(self) -> Offsets:
        """Return the high watermarks of all current logs, each from the directory that the log is in. A directory that
        fails goes offline."""
        found: Offsets = {}
        for directory in self._directories.online():
            try:
                offsets = directory.checkpoints.read(HIGH_WATERMARKS)
            except OSError as error:
                self._directories.fail(directory.path, error)
                continue
            for key, offset in offsets.items():
                log = self._logs.get(key)
                if log is not None and log.log_directory == directory.path:
                    found[key] = offset
        return found

    def write_high_watermarks(self, high_watermark_of: Callable[[PartitionKey], int | None]) -> None:
        """Write each partition's high watermark to the directory of its log, in the background; None leaves one out.

        Each is asked for in its turn: one that is lowered while the others are collected must not be written as it was.
        """
        for directory in self._directories.online():
            path = directory.path

            def entries(path: str = path) -> Entries:
                for key, _ in self._logs_in(path):
                    offset = high_watermark_of(key)
                    yield None if offset is None else (key, offset)

            directory.checkpoints.write(HIGH_WATERMARKS, entries)

    def _logs_in(self, path: str) -> Iterator[tuple[PartitionKey, Log]]:
        """Yield the logs of a directory, without those that go meanwhile: others have the loop between two of them."""
        here = self._logs.in_directory(path)
        for key, log in list(here.items()):
            if here.get(key) is log:
                yield key, log

    def write_recovery_points(self) -> None:
        """Write up to where each log is on the disk."""
        for path in self._directories.by_path:
            self._write(path, RECOVERY_POINTS)

    def write_log_starts(self) -> None:
        """Write where each log begins, unless that is 0."""
        for path in self._directories.by_path:
            self._write(path, LOG_START_OFFSETS)

    def write_cleaned(self, path: str) -> None:
        """Write up to where each log is compacted."""
        self._write(path, CLEANER_OFFSETS)

    def _write(self, path: str, name: str, then: Callable[[], object] | None = None) -> None:
        directory = self._directories.by_path[path]
        if directory.offline is None and not self.stopped:
            directory.checkpoints.write(name, lambda: _entries(name, self._logs_in(path)), then)

    def covers(self, log: Log, offset: int, then: Callable[[], object]) -> bool:
        """Tell whether the checkpoint on the disk covers `offset`, which is not above the recovery point.

        If it does not, the checkpoint is written and `then` is called; never when that fails.
        """
        files = self._directories.by_path[log.log_directory].checkpoints
        if files.certain(RECOVERY_POINTS, (log.topic, log.partition)) >= offset:
            return True
        self._write(log.log_directory, RECOVERY_POINTS, then)
        return False

    def lower(self, path: str, claims: Claims) -> None:
        """Write the checkpoints of a directory anew when they claim more of a log in it than is true. Raises
        OSError."""
        files = self._directories.by_path[path].checkpoints
        if files.claim_more_than(claims):
            logs = self._logs.in_directory(path)
            watermarks = files.newest(HIGH_WATERMARKS).items()
            checkpoints = {name: offsets_of(name, logs.items()) for name in OFFSET_OF}
            checkpoints[HIGH_WATERMARKS] = {
                key: min(offset, logs[key].log_end_offset) for key, offset in watermarks if key in logs
            }
            files.write_now(checkpoints)

    def write_soon(self, path: str) -> None:
        """Write all but the high watermarks, once for all logs of the directory that this turn of the loop changes."""

        def write() -> None:
            self._soon.discard(path)
            for name in OFFSET_OF:
                self._write(path, name)

        if path not in self._soon:
            self._soon.add(path)
            self._clock.call_soon(write)

    def write_for_made(self, path: str) -> None:
        """Write the recovery points soon, as a log was made there; while many are made, every MADE_DISTANCE_MS."""

        def write() -> None:
            self._made.discard(path)
            self._next_for_made_ms[path] = self._clock.monotonic_ms() + MADE_DISTANCE_MS
            self._write(path, RECOVERY_POINTS)

        if path not in self._made:
            self._made.add(path)
            wait_ms = self._next_for_made_ms.get(path, 0.0) - self._clock.monotonic_ms()
            if wait_ms > 0:
                self._clock.call_later(wait_ms, write)
            else:
                self._clock.call_soon(write)

    def stop(self) -> None:
        """Begin nothing more, and finish collecting for what is being written. The background has to be closed next."""
        self.stopped = True
        for directory in self._directories.online():
            directory.checkpoints.finish_collecting()


def _entries(name: str, logs: Iterable[tuple[PartitionKey, Log]]) -> Entries:
    """Yield what the checkpoint is to say of each log. A 0 is left out, but not of the recovery points."""
    offset_of = OFFSET_OF[name]
    for key, log in logs:
        offset = offset_of(log)
        yield (key, offset) if offset or name == RECOVERY_POINTS else None


def offsets_of(name: str, logs: Iterable[tuple[PartitionKey, Log]]) -> Offsets:
    """Return what the checkpoint of that name is to say of these logs."""
    return dict(entry for entry in _entries(name, logs) if entry is not None)
