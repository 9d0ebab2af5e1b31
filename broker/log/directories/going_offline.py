"""The entries of `log.dirs`, and what becomes of one that fails: it and its logs are gone until the next start (L18).

Source: LogManager.handleLogDirFailure of Kafka 3.9.
"""

import logging
from collections.abc import Callable, Iterable

from odradek.broker.log.directories.live_logs import Key, LiveLogs
from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.log import Log

logger = logging.getLogger(__name__)

Failed = Callable[[str, OSError, list[Key]], object]
"""Path of a directory, what failed, the partitions whose current log went with it."""


class Directories:
    """`abandon(log)` ends what is done to a log that goes; `failed` hears once of each failing directory, after
    that."""

    def __init__(
        self,
        directories: Iterable[LogDirectory],
        logs: LiveLogs,
        abandon: Callable[[Log], object],
        failed: Failed,
    ) -> None:
        self.by_path = {directory.path: directory for directory in directories}
        self._logs = logs
        self._abandon = abandon
        self._failed = failed

    def online(self) -> list[LogDirectory]:
        """Those that work."""
        return [directory for directory in self.by_path.values() if directory.offline is None]

    def all_online(self) -> bool:
        """Whether every log that this broker has is within reach."""
        return all(directory.offline is None for directory in self.by_path.values())

    def fail(self, path: str, cause: OSError) -> None:
        """It cannot be used any more. Harmless twice."""
        directory = self.by_path[path]
        if directory.offline is not None:
            return
        directory.offline = cause
        logger.error("log directory %s goes offline: %s", path, cause)
        lost = self._logs.in_directory(path)
        current = [key for key, log in lost.items() if self._logs.get(key) is log]
        for log in lost.values():
            self._logs.remove(log)
            self._abandon(log)
        self._failed(path, cause, current)
