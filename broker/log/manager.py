"""All logs of a broker: opening, making and deleting them, and what is done to them from time to time.

Source: LogManager.scala of Kafka 3.9.
"""

import contextlib
import errno
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from odradek.broker.log import checkpoints
from odradek.broker.log.checkpoints import Offsets
from odradek.broker.log.chores import Chores
from odradek.broker.log.compaction.scheduler import Compaction, CompactionSettings
from odradek.broker.log.config import NO_LIMIT_MS, LogConfig
from odradek.broker.log.directory_files import (
    PARTITION_METADATA,
    Identity,
    deleted_name,
    encode_partition_metadata,
    partition_name,
)
from odradek.broker.log.failure import DISK_FULL, StorageFailure, UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.log_directory import Loaded, LogDirectory, start_offsets
from odradek.broker.log.recovery import open_log
from odradek.broker.log.storage import Storage
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.world.background import Background
from odradek.world.children import Children
from odradek.world.clock import Clock
from odradek.world.files import Files

logger = logging.getLogger(__name__)

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Kafka's broker settings of the same names, in milliseconds."""

    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    log_flush_scheduler_interval_ms: int = NO_LIMIT_MS
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000


class LogManager:
    """Owns the logs; runs on the loop. `background` is its own: `close` waits for it.

    `config_of(topic)` gives a topic's settings. `directory_failed(path, cause, partitions)` hears once of each log
    directory that goes offline, after its logs have gone from here. `high_watermark_of(log)` is set by the replica
    layer: nothing at or beyond it is ever deleted or compacted. Compaction runs in `children`; without, not at all.
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
        directory_failed: Callable[[str, OSError, list[Key]], object] = lambda path, cause, partitions: None,
    ) -> None:
        self._intervals = intervals or Intervals()
        self._storage = Storage(
            files,
            clock,
            background,
            random_source,
            failed=self._failed,
            truncated=self._truncated,
            producer_expiration_ms=self._intervals.producer_id_expiration_ms,
        )
        self.directories = {path: LogDirectory(self._storage, path) for path in directories}
        self.config_of = config_of
        self.high_watermark_of: Callable[[Log], int] = lambda log: log.log_start_offset
        self._directory_failed = directory_failed
        self._logs: dict[Key, Log] = {}
        self._topic_ids: dict[Key, bytes] = {}
        self._chores = Chores(clock)
        self._to_checkpoint: set[str] = set()
        self._closed = False
        self._compaction: Compaction | None = None
        if children is not None:
            self._compaction = Compaction(
                clock,
                children,
                compaction or CompactionSettings(),
                self.all_logs,
                lambda log: self.high_watermark_of(log),
                lambda log: self._checkpoint_cleaned(log.log_directory),
            )

    # opening

    def owner(self) -> Identity | None:
        """Lock all directories; who they belong to, None when they are new. Raises UnusableDirectory.

        For a broker that does not know its id yet; to be called before `open`.
        """
        owners = {}
        for directory in self.directories.values():
            try:
                directory.take()
                owners[directory.path] = directory.owner()
            except OSError as error:
                self._unusable(directory, error)
        known = {owner for owner in owners.values() if owner is not None}
        if len(known) > 1:
            path = next(path for path, owner in owners.items() if owner is not None)
            raise UnusableDirectory(path, f"log.dirs belong to different brokers: {sorted(known)}")
        return known.pop() if known else None

    def open(self, identity: Identity, ready: Callable[[], object]) -> None:
        """Take and load all directories in parallel, then call `ready` on the loop. Raises UnusableDirectory.

        A directory that fails goes offline as long as another one works; when loading fails in all of them `ready` is
        called and `online()` is empty.
        """
        for directory in self.online():
            try:
                if not directory.taken:
                    directory.take()
                directory.claim(identity)
            except OSError as error:
                self._unusable(directory, error)
        left = len(self.online())

        def loaded(directory: LogDirectory, result: Loaded | OSError) -> None:
            nonlocal left
            left -= 1
            if isinstance(result, OSError):
                self._failed(directory.path, result)
            else:
                self._take(directory, result)
            if left == 0:
                self._start_timers()
                ready()

        for directory in self.online():
            self._load(directory, loaded)

    def _load(self, directory: LogDirectory, loaded: Callable[[LogDirectory, Loaded | OSError], None]) -> None:
        self._storage.background.run(lambda: directory.load(self.config_of), lambda result: loaded(directory, result))

    def _unusable(self, directory: LogDirectory, error: OSError) -> None:
        if len(self.online()) <= 1:
            raise UnusableDirectory(directory.path, str(error)) from error
        logger.error("log directory %s cannot be used: %s", directory.path, error)
        self._failed(directory.path, error)

    def _take(self, directory: LogDirectory, loaded: Loaded) -> None:
        """Take its logs over. One that another directory has too (a move that was interrupted) sets this one aside."""
        twice = [log for log, _ in loaded.logs if (log.topic, log.partition) in self._logs]
        if twice:
            other = self._logs[twice[0].topic, twice[0].partition].directory
            error = OSError(errno.EEXIST, f"{twice[0].directory} is in {other} too: delete one of them")
            self._failed(directory.path, error)
            return
        for log, topic_id in loaded.logs:
            key = (log.topic, log.partition)
            self._logs[key] = log
            if topic_id is not None:
                self._topic_ids[key] = topic_id
        for path in loaded.to_delete:
            self._remove_directory(path)

    # the logs

    def online(self) -> list[LogDirectory]:
        """Directories that work."""
        return [directory for directory in self.directories.values() if directory.offline is None]

    def all_logs(self) -> list[Log]:
        return list(self._logs.values())

    def get(self, topic: str, partition: int) -> Log | None:
        """The log, None when this broker has none (or its directory is offline)."""
        return self._logs.get((topic, partition))

    def topic_id(self, topic: str, partition: int) -> bytes:
        """From `partition.metadata`; zeros when it was never said."""
        return self._topic_ids.get((topic, partition), ZERO_UUID)

    def get_or_create(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = False) -> Log:
        """The log, made in the directory with the fewest logs when there is none.

        `is_new`: the controller says that no replica has existed here; without it a log that is missing while a
        directory is offline may be in there. Raises KafkaError INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        known = self._topic_ids.get(key, ZERO_UUID)
        if log is not None and ZERO_UUID != known != topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic}-{partition} has another topic id on the disk")
        online = self.online()
        if log is None and (not online or (not is_new and len(online) < len(self.directories))):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition} may be in an offline log directory")
        try:
            if log is None:
                log = self._logs[key] = self._create(self._emptiest(online), topic, partition)
            if topic_id not in (ZERO_UUID, known):
                self._write_topic_id(log, topic_id)
        except OSError as error:
            path = log.log_directory if log is not None else self._emptiest(online).path
            if error.errno not in DISK_FULL:
                self._failed(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition}: {error}") from error
        return log

    def _create(self, directory: LogDirectory, topic: str, partition: int) -> Log:
        path = f"{directory.path}/{partition_name(topic, partition)}"
        log = open_log(self._storage, path, topic, partition, self.config_of(topic), clean=True)
        logger.info("made %s", path)
        return log

    def _emptiest(self, online: list[LogDirectory]) -> LogDirectory:
        if len(online) == 1:
            return online[0]
        counts = dict.fromkeys((directory.path for directory in online), 0)
        for log in self._logs.values():
            counts[log.log_directory] = counts.get(log.log_directory, 0) + 1
        return min(online, key=lambda directory: counts[directory.path])

    def _write_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{PARTITION_METADATA}"
        self._storage.files.write_atomically(path, encode_partition_metadata(topic_id), sync=False)
        self._topic_ids[(log.topic, log.partition)] = topic_id

    def delete(self, topic: str, partition: int) -> None:
        """Drop a log: its directory is renamed at once and removed after `file.delete.delay.ms`. None is no error.

        Raises StorageFailure.
        """
        log = self._logs.pop((topic, partition), None)
        self._topic_ids.pop((topic, partition), None)
        if log is None:
            return
        unique = self._storage.random.getrandbits(128)
        path = f"{log.log_directory}/{deleted_name(topic, partition, unique)}"
        self._abandon(log)
        try:
            self._storage.files.rename(log.directory, path)
        except OSError as error:
            raise log.failed(error) from error
        logger.info("%s-%d is deleted, %s goes in %d ms", topic, partition, path, log.config.file_delete_delay_ms)
        self._storage.clock.call_later(log.config.file_delete_delay_ms, lambda: self._remove_directory(path))
        self._checkpoint_soon(log.log_directory)

    def _abandon(self, log: Log) -> None:
        log.abandon()
        if self._compaction is not None:
            self._compaction.abandon(log)

    def _remove_directory(self, path: str) -> None:
        def done(result: OSError | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                logger.warning("cannot remove %s, the next start will: %s", path, result)

        self._storage.background.run(lambda: self._storage.files.remove_directory(path), done)

    def configure_compaction(self, settings: CompactionSettings) -> None:
        """The broker's settings of it have changed; what runs goes on with the old ones."""
        if self._compaction is not None:
            self._compaction.settings = settings

    def configure(self, topic: str) -> None:
        """The topic's settings have changed."""
        config = self.config_of(topic)
        for log in self._logs.values():
            if log.topic == topic:
                log.configure(config)

    # directories that fail

    def _failed(self, path: str, cause: OSError) -> None:
        directory = self.directories[path]
        if directory.offline is not None:
            return
        directory.offline = cause
        logger.error("log directory %s goes offline: %s", path, cause)
        lost = [key for key, log in self._logs.items() if log.log_directory == path]
        for key in lost:
            self._abandon(self._logs.pop(key))
            self._topic_ids.pop(key, None)
        self._directory_failed(path, cause, lost)

    # high watermarks

    def read_high_watermarks(self) -> Offsets:
        """Of all directories. A failing directory goes offline."""
        found: Offsets = {}
        for directory in self.online():
            try:
                found |= directory.read_offsets(checkpoints.HIGH_WATERMARKS)
            except OSError as error:
                self._failed(directory.path, error)
        return found

    def write_high_watermarks(self, offsets: Offsets) -> None:
        """Write each partition's to the directory of its log, in the background."""
        for directory in self.online():
            mine = {key: offset for key, offset in offsets.items() if self._is_in(key, directory.path)}
            directory.write_offsets(checkpoints.HIGH_WATERMARKS, mine)

    def _is_in(self, key: Key, path: str) -> bool:
        log = self._logs.get(key)
        return log is not None and log.log_directory == path

    # what is done from time to time

    def _start_timers(self) -> None:
        every = self._intervals
        self._repeat("retention", every.log_retention_check_interval_ms, self.apply_retention)
        self._repeat("flush", every.log_flush_scheduler_interval_ms, self.flush_overdue)
        self._repeat("recovery points", every.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points)
        self._repeat("log starts", every.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_starts)
        self._repeat("producers", every.producer_id_expiration_check_interval_ms, self.expire_producers)
        if self._compaction is not None:
            self._compaction.start()

    def _repeat(self, name: str, interval_ms: int, action: Callable[[], None]) -> None:
        delay_ms = min(interval_ms, self._intervals.log_initial_task_delay_ms)
        self._chores.repeat(name, delay_ms, interval_ms, action)

    def _for_each_log(self, action: Callable[[Log], object]) -> None:
        """A log that went meanwhile is skipped; one whose disk fails has reported it already."""

        def act(log: Log) -> None:
            if self._logs.get((log.topic, log.partition)) is log:
                with contextlib.suppress(StorageFailure):
                    action(log)

        self._chores.for_each(self.all_logs(), act)

    def apply_retention(self) -> None:
        """Delete what is too old or too much."""
        self._for_each_log(lambda log: log.delete_old_segments(self.high_watermark_of(log)))

    def flush_overdue(self) -> None:
        """Flush logs whose `flush.ms` has passed."""
        now_ms = self._storage.clock.now_ms()
        self._for_each_log(
            lambda log: log.flush_in_background() if now_ms - log.last_flush_ms >= log.config.flush_ms else None
        )

    def expire_producers(self) -> None:
        """Forget idempotent producers that are gone."""
        self._for_each_log(Log.expire_producers)

    def checkpoint_recovery_points(self) -> None:
        """Write up to where each log is on the disk."""
        for path in self.directories:
            self._checkpoint(path)

    def _checkpoint(self, path: str) -> None:
        directory = self.directories[path]
        if directory.offline is None and not self._closed:
            points = {key: log.recovery_point for key, log in self._logs.items() if log.log_directory == path}
            directory.write_offsets(checkpoints.RECOVERY_POINTS, points)

    def _checkpoint_cleaned(self, path: str) -> None:
        """Up to where each log is compacted. Never more than once per compaction, truncation or deletion."""
        directory = self.directories[path]
        if directory.offline is None and not self._closed and self._compaction is not None:
            cleaned = {k: log.cleaned_to for k, log in self._logs.items() if log.cleaned_to and self._is_in(k, path)}
            directory.write_offsets(checkpoints.CLEANER_OFFSETS, cleaned)

    def checkpoint_log_starts(self) -> None:
        """Write the log start offsets that segments do not say."""
        for directory in self.online():
            logs = [log for log in self._logs.values() if log.log_directory == directory.path]
            directory.write_offsets(checkpoints.LOG_START_OFFSETS, start_offsets(logs))

    def _truncated(self, log: Log) -> None:
        self._checkpoint_soon(log.log_directory)

    def _checkpoint_soon(self, path: str) -> None:
        """Once for all logs that this loop turn changes."""

        def write() -> None:
            self._to_checkpoint.discard(path)
            self._checkpoint(path)
            self._checkpoint_cleaned(path)

        if path not in self._to_checkpoint:
            self._to_checkpoint.add(path)
            self._storage.clock.call_soon(write)

    # the end

    def close(self, broker_epoch: int = -1) -> None:
        """A clean shutdown: everything to the disk, checkpoints, markers; blocks. Harmless twice."""
        if self._closed:
            return
        self._closed = True
        self._chores.stop()
        if self._compaction is not None:
            self._compaction.stop()
        self._storage.background.close()
        for directory in self.online():
            logs = [log for log in self._logs.values() if log.log_directory == directory.path]
            directory.close(logs, broker_epoch)
