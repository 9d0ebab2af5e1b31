"""Which logs this broker has, by partition."""

from collections.abc import Iterable

from odradek.broker.log.log import Log
from odradek.protocol.primitives import ZERO_UUID

Key = tuple[str, int]
"""Topic and partition."""


class LiveLogs:
    """The logs of all directories that work, and their topic ids."""

    def __init__(self) -> None:
        self._logs: dict[Key, Log] = {}
        self._topic_ids: dict[Key, bytes] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._logs

    def get(self, key: Key) -> Log | None:
        return self._logs.get(key)

    def all(self) -> list[Log]:
        return list(self._logs.values())

    def is_live(self, log: Log) -> bool:
        """False once it has gone from here."""
        return self._logs.get((log.topic, log.partition)) is log

    def in_directory(self, path: str) -> dict[Key, Log]:
        """Those in that entry of `log.dirs`."""
        return {key: log for key, log in self._logs.items() if log.log_directory == path}

    def emptiest(self, paths: Iterable[str]) -> str:
        """The one of these directories with the fewest logs, the first of several (LogManager.nextLogDirs)."""
        counts = dict.fromkeys(paths, 0)
        for log in self._logs.values():
            if log.log_directory in counts:
                counts[log.log_directory] += 1
        return min(counts, key=counts.__getitem__)

    def topic_id(self, key: Key) -> bytes:
        """Zeros when it was never said."""
        return self._topic_ids.get(key, ZERO_UUID)

    def add(self, log: Log, topic_id: bytes | None = None) -> None:
        key = (log.topic, log.partition)
        self._logs[key] = log
        if topic_id is not None:
            self._topic_ids[key] = topic_id

    def set_topic_id(self, key: Key, topic_id: bytes) -> None:
        self._topic_ids[key] = topic_id

    def remove(self, key: Key) -> Log | None:
        """The log that was there."""
        self._topic_ids.pop(key, None)
        return self._logs.pop(key, None)
