"""The logs that this broker has and the entries of `log.dirs` that they are in: both until a disk fails.

The calls when a read or a write fails:

1. `LocalLog.give_up_directory`, or whoever else meets the OSError: `LogEnvironment.failed`; StorageFailure is raised
2. `LogDirectories.fail`: the directory is offline, its logs are taken out and work on them is abandoned
3. `LogManager`'s `directory_failed`, which is `_directory_failed` in broker/server.py
4. `ControllerRequests.directory_failed`: the partitions are offline here, and their coordinators resign
5. `DirectoryEvents.changed`: the controller is told through ZooKeeper, asks, and elects other leaders
6. without any directory left the broker stops

What only lacks room, or a descriptor for its file (errors.NO_ROOM), is refused or put off instead. A directory that has
failed is gone until the next start. Source: LogManager.handleLogDirFailure of Kafka 3.9.
"""

import logging
from collections.abc import Callable, Iterable

from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.log import Log
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey

logger = logging.getLogger(__name__)


class LiveLogs:
    """The logs of all directories that work, and their topic ids.

    A partition has one current log; while that moves to another directory, also a future one there.
    """

    def __init__(self) -> None:
        self._logs: dict[PartitionKey, Log] = {}
        self._futures: dict[PartitionKey, Log] = {}
        self._topic_ids: dict[PartitionKey, bytes] = {}
        self._by_directory: dict[str, dict[PartitionKey, Log]] = {}
        """Logs of both kinds by directory; none has two of one partition."""

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._logs

    def get(self, key: PartitionKey) -> Log | None:
        """Return the current log of a partition; None when there is none."""
        return self._logs.get(key)

    def future(self, key: PartitionKey) -> Log | None:
        """Return the future log of a partition; None when it does not move."""
        return self._futures.get(key)

    def current(self) -> list[Log]:
        return list(self._logs.values())

    def futures(self) -> list[Log]:
        return list(self._futures.values())

    def all(self) -> list[Log]:
        """List the current logs and the future ones."""
        return [*self._logs.values(), *self._futures.values()]

    def to_compact(self) -> list[Log]:
        """Return the logs that may be compacted: all but those that move to another directory."""
        return [log for key, log in self._logs.items() if key not in self._futures]

    def is_live(self, log: Log) -> bool:
        """Tell whether the log is still one of this broker's, current or future."""
        key = (log.topic, log.partition)
        return self._logs.get(key) is log or self._futures.get(key) is log

    def in_directory(self, path: str) -> dict[PartitionKey, Log]:
        """Return the logs in that entry of `log.dirs`; not to be changed."""
        return self._by_directory.setdefault(path, {})

    def emptiest_first(self, paths: Iterable[str]) -> list[str]:
        """Sort directories, the one with the fewest logs first (LogManager.nextLogDirs)."""
        return sorted(paths, key=lambda path: len(self.in_directory(path)))

    def topic_id(self, key: PartitionKey) -> bytes:
        """Return the id of the partition's topic; zeros when it is not known."""
        return self._topic_ids.get(key, ZERO_UUID)

    def add(self, log: Log, topic_id: bytes | None = None) -> None:
        key = (log.topic, log.partition)
        self._logs[key] = log
        self.in_directory(log.log_directory)[key] = log
        if topic_id is not None:
            self._topic_ids[key] = topic_id

    def set_topic_id(self, key: PartitionKey, topic_id: bytes) -> None:
        self._topic_ids[key] = topic_id

    def add_future(self, log: Log) -> None:
        key = (log.topic, log.partition)
        self._futures[key] = log
        self.in_directory(log.log_directory)[key] = log

    def promote(self, key: PartitionKey) -> None:
        """Make the future log the current one from now on."""
        del self.in_directory(self._logs[key].log_directory)[key]
        self._logs[key] = self._futures.pop(key)

    def remove(self, log: Log) -> None:
        """Take a log out. Harmless when it has gone."""
        if not self.is_live(log):
            return
        key = (log.topic, log.partition)
        del self.in_directory(log.log_directory)[key]
        if self._futures.get(key) is log:
            del self._futures[key]
        else:
            del self._logs[key]
            self._topic_ids.pop(key, None)


Failed = Callable[[str, OSError, list[PartitionKey]], object]
"""Path of a directory, what failed, the partitions whose current log went with it."""


class LogDirectories:
    """The entries of `log.dirs`. `abandon(log)` ends all work on a log that goes; `failed` hears once of each
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
        """Tell whether every log that this broker has is within reach."""
        return all(directory.offline is None for directory in self.by_path.values())

    def fail(self, path: str, cause: OSError) -> None:
        """Give a directory up, and its logs. Harmless twice."""
        directory = self.by_path[path]
        if directory.offline is not None:
            return
        directory.offline = cause
        logger.error("log directory %s goes offline until the next start: %s", path, cause)
        lost = dict(self._logs.in_directory(path))
        current = [key for key, log in lost.items() if self._logs.get(key) is log]
        for log in lost.values():
            self._logs.remove(log)
            self._abandon(log)
        self._failed(path, cause, current)
