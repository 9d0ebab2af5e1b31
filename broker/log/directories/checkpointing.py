"""When and what is written to the checkpoint files of the log directories (`checkpoints` has their format)."""

from collections.abc import Callable

from odradek.broker.log import checkpoint_format as checkpoints
from odradek.broker.log.checkpoint_format import Offsets
from odradek.broker.log.directories.going_offline import Directories
from odradek.broker.log.directories.live_logs import LiveLogs
from odradek.broker.log.directories.log_directory import start_offsets
from odradek.broker.log.log import Log
from odradek.broker.log.storage import Claims
from odradek.world.clock import Clock


class Checkpointing:
    """Each directory has the offsets of the logs in it. Nothing is written any more once `stopped`."""

    def __init__(self, clock: Clock, directories: Directories, logs: LiveLogs) -> None:
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._soon: set[str] = set()
        self.stopped = False

    def read_high_watermarks(self) -> Offsets:
        """Of all current logs, as the directory says that each is in. A failing directory goes offline."""
        found: Offsets = {}
        for directory in self._directories.online():
            try:
                offsets = directory.checkpoints.read(checkpoints.HIGH_WATERMARKS)
            except OSError as error:
                self._directories.fail(directory.path, error)
                continue
            for key, offset in offsets.items():
                log = self._logs.get(key)
                if log is not None and log.log_directory == directory.path:
                    found[key] = offset
        return found

    def write_high_watermarks(self, offsets: Offsets) -> None:
        """Write each partition's to the directory of its log, in the background."""
        for directory in self._directories.online():
            here = self._logs.in_directory(directory.path)
            mine = {key: offset for key, offset in offsets.items() if key in here}
            directory.checkpoints.write(checkpoints.HIGH_WATERMARKS, mine)

    def recovery_points(self) -> None:
        """Write up to where each log is on the disk."""
        for path in self._directories.by_path:
            self._recovery_points(path)

    def _recovery_points(self, path: str, then: Callable[[], object] | None = None) -> None:
        directory = self._directories.by_path[path]
        if directory.offline is None and not self.stopped:
            directory.checkpoints.write(checkpoints.RECOVERY_POINTS, self._points(path), then)

    def covers(self, log: Log, offset: int, then: Callable[[], object]) -> bool:
        """Whether a start will know that the disk has all before `offset`, which is at most the recovery point.

        If not, that is written and `then` is called; never when it cannot be.
        """
        files = self._directories.by_path[log.log_directory].checkpoints
        if files.certain(checkpoints.RECOVERY_POINTS, (log.topic, log.partition)) >= offset:
            return True
        self._recovery_points(log.log_directory, then)
        return False

    def _points(self, path: str) -> Offsets:
        return {key: log.recovery_point for key, log in self._logs.in_directory(path).items()}

    def _starts(self, path: str) -> Offsets:
        return start_offsets(list(self._logs.in_directory(path).values()))

    def lower(self, path: str, claims: Claims) -> None:
        """Write them anew when they claim more of a log in that directory than is true: before it is written to after a
        start, or after its recovery point or start went back. Raises OSError."""
        files = self._directories.by_path[path].checkpoints
        if files.claim_more_than(claims):
            files.write_now(
                {
                    checkpoints.RECOVERY_POINTS: self._points(path),
                    checkpoints.LOG_START_OFFSETS: self._starts(path),
                    checkpoints.CLEANER_OFFSETS: self._compacted(path),
                }
            )

    def log_starts(self) -> None:
        """Write where each log begins."""
        for path in self._directories.by_path:
            self._log_starts(path)

    def _log_starts(self, path: str) -> None:
        directory = self._directories.by_path[path]
        if directory.offline is None and not self.stopped:
            directory.checkpoints.write(checkpoints.LOG_START_OFFSETS, self._starts(path))

    def cleaned(self, path: str) -> None:
        """Up to where each log is compacted. Never more than once per compaction, truncation or deletion."""
        directory = self._directories.by_path[path]
        if directory.offline is None and not self.stopped:
            directory.checkpoints.write(checkpoints.CLEANER_OFFSETS, self._compacted(path))

    def _compacted(self, path: str) -> Offsets:
        return {key: log.cleaned_to for key, log in self._logs.in_directory(path).items() if log.cleaned_to}

    def soon(self, path: str) -> None:
        """All but the high watermarks, once for all logs there that this loop turn changes."""

        def write() -> None:
            self._soon.discard(path)
            self._recovery_points(path)
            self._log_starts(path)
            self.cleaned(path)

        if path not in self._soon:
            self._soon.add(path)
            self._clock.call_soon(write)
