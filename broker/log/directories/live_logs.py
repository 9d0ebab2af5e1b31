"""Logs that this broker has, by partition and by the entry of `log.dirs` that they are in."""

from collections.abc import Iterable

from odradek.broker.log.log import Log
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey


class LiveLogs:
    """The logs of all directories that work, and their topic ids.

    A partition has one current log; while that moves to another directory, also a future one there.
    """

    def __init__(self) -> None:
        self._logs: dict[PartitionKey, Log] = {}
        self._futures: dict[PartitionKey, Log] = {}
        self._topic_ids: dict[PartitionKey, bytes] = {}
        self._in: dict[str, dict[PartitionKey, Log]] = {}
        """Logs of both kinds by directory; no partition is in one twice."""

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._logs

    def get(self, key: PartitionKey) -> Log | None:
        return self._logs.get(key)

    def future(self, key: PartitionKey) -> Log | None:
        return self._futures.get(key)

    def current(self) -> list[Log]:
        return list(self._logs.values())

    def futures(self) -> list[Log]:
        return list(self._futures.values())

    def all(self) -> list[Log]:
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
        return self._in.setdefault(path, {})

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
