"""The entries of `log.dirs`, and the end of one whose disk fails: gone until the next start, with its logs.

The calls when a read or a write fails:

1. `LocalLog.give_up_directory`, or whoever else meets the OSError: `LogEnvironment.failed`; StorageFailure is raised
2. `LogDirectories.fail`: the directory is offline, its logs are taken out and what is done to them is abandoned
3. `LogManager`'s `directory_failed`, which is `_directory_failed` in broker/server.py
4. `ControllerRequests.directory_failed`: the partitions are offline here, and their coordinators resign
5. `DirectoryEvents.changed`: the controller is told through ZooKeeper, asks, and elects other leaders
6. without any directory left the broker stops

What only lacks room, or a descriptor for its file (errors.NO_ROOM), is refused or put off instead.

Source: LogManager.handleLogDirFailure of Kafka 3.9.
"""

import logging
from collections.abc import Callable, Iterable

from odradek.broker.log.directories.live_logs import LiveLogs
from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.log import Log
from odradek.protocol.topic_names import PartitionKey

logger = logging.getLogger(__name__)

Failed = Callable[[str, OSError, list[PartitionKey]], object]
"""Path of a directory, what failed, the partitions whose current log went with it."""


class LogDirectories:
    """The entries of `log.dirs`. `abandon(log)` ends what is done to a log that goes; `failed` hears once of each
    failing directory, after that."""

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
        """Return the directories that work."""
        return [directory for directory in self.by_path.values() if directory.offline is None]

    def all_online(self) -> bool:
        """Return whether every log that this broker has is within reach."""
        return all(directory.offline is None for directory in self.by_path.values())

    def fail(self, path: str, cause: OSError) -> None:
        """Give a directory up, and its logs. Harmless twice."""
        directory = self.by_path[path]
        if directory.offline is not None:
            return
        directory.offline = cause
        logger.error("log directory %s goes offline: %s", path, cause)
        lost = dict(self._logs.in_directory(path))
        current = [key for key, log in lost.items() if self._logs.get(key) is log]
        for log in lost.values():
            self._logs.remove(log)
            self._abandon(log)
        self._failed(path, cause, current)
