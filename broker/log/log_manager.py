"""All logs of a broker: opening, making and deleting them. What it is put together from:

`opening` at the start, `live_logs` while it runs, `checkpointing` and `upkeep` from time to time, `compaction` beside
it, `going_offline` when a disk fails. Source: LogManager.scala of Kafka 3.9.
"""

import random
from collections.abc import Callable, Iterable

from odradek.broker.log.compaction.scheduler import Compaction, CompactionSettings
from odradek.broker.log.directories.checkpointing import Checkpointing
from odradek.broker.log.directories.closing import Closing
from odradek.broker.log.directories.creation import Creation
from odradek.broker.log.directories.directory_files import Identity, Owner
from odradek.broker.log.directories.future_logs import FutureLogs
from odradek.broker.log.directories.going_offline import Directories, Failed
from odradek.broker.log.directories.live_logs import Key, LiveLogs
from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.directories.opening import Opening
from odradek.broker.log.directories.removal import set_aside
from odradek.broker.log.directories.upkeep import Intervals, Upkeep
from odradek.broker.log.failure import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_config import LogConfig
from odradek.broker.log.storage import Storage
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.world.background import Background
from odradek.world.children import Children
from odradek.world.clock import Clock
from odradek.world.files import Files

__all__ = ["Intervals", "Key", "LogManager"]


class LogManager:
    """Owns the logs; runs on the loop. `background` is its own: `close` waits for it.

    `config_of(topic)` gives a topic's settings. `directory_failed(path, cause, partitions)` hears once of each log
    directory that goes offline, after its logs have gone from here. Compaction and recovery run in `children`;
    without, compaction does not run, and recovery in a thread.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        background: Background,
        random_source: random.Random,
        directories: Iterable[str],
        config_of: Callable[[str], LogConfig],
        *,
        intervals: Intervals | None = None,
        children: Children | None = None,
        compaction: CompactionSettings | None = None,
        directory_failed: Failed = lambda path, cause, partitions: None,
    ) -> None:
        intervals = intervals or Intervals()
        self.config_of = config_of
        self._logs = LiveLogs()
        self._storage = Storage(
            files,
            clock,
            background,
            random_source,
            failed=lambda path, cause: self._directories.fail(path, cause),
            truncated=lambda path: self.checkpointing.soon(path),
            lower_checkpoints=lambda path, claims: self.checkpointing.lower(path, claims),
            producer_expiration_ms=intervals.producer_id_expiration_ms,
        )
        entries = [LogDirectory(self._storage, path) for path in directories]
        self._directories = Directories(entries, self._logs, self._abandon, directory_failed)
        self._future_logs = FutureLogs(self._storage, self._directories, self._logs, config_of, self._abandon)
        self._opening = Opening(self._storage, self._directories, self._logs, self._future_logs, children)
        self.checkpointing = Checkpointing(clock, self._directories, self._logs)
        self._creation = Creation(
            self._storage, self._directories, self._logs, self._future_logs, self.checkpointing, config_of
        )
        self._upkeep = Upkeep(self._storage, intervals, self._logs, self.checkpointing)
        self._opened = self._closed = False
        self._compaction: Compaction | None = None
        if children is not None:
            self._compaction = Compaction(
                clock,
                children,
                compaction or CompactionSettings(),
                self._logs.to_compact,
                lambda log: self._upkeep.high_watermark_of(log),
                lambda log: self.checkpointing.cleaned(log.log_directory),
                self.checkpointing.covers,
            )

    # opening

    def owner(self) -> Owner:
        """Lock all directories; who they belong to, as far as they say it. Raises UnusableDirectory.

        For a broker that does not know its id yet; to be called before `open`.
        """
        return self._opening.owner()

    def open(self, identity: Identity, ready: Callable[[], object], *, recovery_processes: int = 1) -> None:
        """Take and load all directories in parallel, then call `ready` on the loop. Raises UnusableDirectory.

        A directory that fails goes offline as long as another one works; when loading fails in all of them `ready` is
        called and `online()` is empty. `recovery_processes`: how many repair one directory after an unclean stop.
        """

        def loaded() -> None:
            self._opened = True
            self._upkeep.start()
            if self._compaction is not None:
                self._compaction.start()
            ready()

        self._opening.open(identity, self.config_of, loaded, recovery_processes)

    def protect_from(self, high_watermark_of: Callable[[Log], int]) -> None:
        """The replica layer knows how far a log is replicated: nothing at or beyond it is deleted or compacted.

        Until it has said so, nothing is.
        """
        self._upkeep.high_watermark_of = high_watermark_of

    # the logs

    @property
    def directories(self) -> dict[str, LogDirectory]:
        """The entries of `log.dirs` by path, those that failed among them."""
        return self._directories.by_path

    def online(self) -> list[LogDirectory]:
        """Directories that work."""
        return self._directories.online()

    def all_logs(self) -> list[Log]:
        """One of each partition."""
        return self._logs.current()

    def get(self, topic: str, partition: int) -> Log | None:
        """The log, None when this broker has none (or its directory is offline)."""
        return self._logs.get((topic, partition))

    def topic_id(self, topic: str, partition: int) -> bytes:
        """From `partition.metadata`; zeros when it was never said."""
        return self._logs.topic_id((topic, partition))

    def get_or_create(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = False) -> Log:
        """The log, made when there is none, in the directory that was preferred or that has the fewest.

        `is_new`: the controller says that no replica has existed here; without it a log that is missing while a
        directory is offline may be in there. Raises KafkaError INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR.
        """
        return self._creation.get_or_create((topic, partition), topic_id, is_new)

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """When that partition, which is not here, is made, it shall be in that directory."""
        self._creation.prefer((topic, partition), path)

    # moves to another directory

    def future_logs(self) -> list[Log]:
        """Of the partitions that move."""
        return self._logs.futures()

    def future_log(self, topic: str, partition: int) -> Log | None:
        """What is to take the place of the partition's log, in another directory."""
        return self._logs.future((topic, partition))

    def create_future_log(self, topic: str, partition: int, path: str) -> Log:
        """An empty one in that directory. Raises KafkaError KAFKA_STORAGE_ERROR, also while any directory is offline:
        there may be another one in that."""
        if not self._directories.all_online():
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "there may be a future log in an offline log directory")
        log = self._future_logs.create((topic, partition), path)
        current = self._logs.get((topic, partition))
        if current is not None and self._compaction is not None:
            self._compaction.abandon(current)
        self.checkpointing.soon(path)
        return log

    def discard_future_log(self, topic: str, partition: int) -> None:
        """Give the move up. No future log is no error."""
        self._future_logs.discard((topic, partition))

    def promote_future_log(self, topic: str, partition: int) -> Log:
        """It takes the place of the log that it is a copy of, which is deleted. Raises StorageFailure."""
        former = self._logs.get((topic, partition))
        assert former is not None, (topic, partition)
        log = self._future_logs.promote((topic, partition))
        self.checkpointing.soon(former.log_directory)
        self.checkpointing.soon(log.log_directory)
        self.checkpointing.log_starts()
        return log

    # letting go, and settings

    def delete(self, topic: str, partition: int) -> None:
        """Drop a log: its directory is renamed at once and removed after `file.delete.delay.ms`. None is no error.
        A future log goes first.

        Raises StorageFailure.
        """
        self._future_logs.discard((topic, partition))
        log = self._logs.get((topic, partition))
        if log is None:
            return
        self._logs.remove(log)
        self._abandon(log)
        try:
            set_aside(self._storage, log)
        except OSError as error:  # of any kind: what stays there must not be taken for the log of a new topic
            self._directories.fail(log.log_directory, error)
            raise StorageFailure(log.log_directory, error) from error
        self.checkpointing.soon(log.log_directory)

    def _abandon(self, log: Log) -> None:
        log.abandon()
        if self._compaction is not None:
            self._compaction.abandon(log)

    def configure_compaction(self, settings: CompactionSettings) -> None:
        """The broker's settings of it have changed; what runs goes on with the old ones."""
        if self._compaction is not None:
            self._compaction.settings = settings

    def configure_producers(self, expiration_ms: int) -> None:
        """`producer.id.expiration.ms` has changed."""
        self._storage.producer_expiration_ms = expiration_ms

    def configure_all(self) -> None:
        """Settings of the broker have changed, which may be those of any topic; in slices."""
        self._upkeep.for_each_log(lambda log: log.configure(self.config_of(log.topic)))

    def configure(self, topic: str) -> None:
        """The topic's settings have changed."""
        config = self.config_of(topic)
        for log in self._logs.all():
            if log.topic == topic:
                log.configure(config)

    # the end

    def close(self, broker_epoch: int = -1) -> None:
        """A clean shutdown: everything to the disk, checkpoints, markers; blocks. Harmless twice.

        Before all is open nothing is written: what was not repaired yet is not to pass for clean.
        """
        if self._closed:
            return
        self._closed = self.checkpointing.stopped = True
        self._opening.stop()
        self._upkeep.stop()
        if self._compaction is not None:
            self._compaction.stop()
        closings = [
            Closing(self._storage, directory, list(self._logs.in_directory(directory.path).values()))
            for directory in self.online()
            if self._opened
        ]
        for closing in closings:
            closing.begin()
        self._storage.background.close()
        for closing in closings:
            closing.end(broker_epoch)
        for directory in self.directories.values():
            directory.release()
