"""All logs of a broker: opening, making and deleting them. Source: LogManager.scala of Kafka 3.9.

`directories/` has the parts: loading at the start, which logs there are while it runs, checkpoints, what is done from
time to time, moves to another directory; `compaction/` runs beside it.
"""

import contextlib
import logging
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.directories.checkpoints import Checkpoints
from odradek.broker.log.directories.closing import Closing
from odradek.broker.log.directories.directory_files import (
    PARTITION_METADATA,
    DirectoryOwner,
    MetaProperties,
    encode_clean_shutdown,
    encode_partition_metadata,
    partition_name,
)
from odradek.broker.log.directories.future_logs import FutureLogs
from odradek.broker.log.directories.live_logs import Failed, LiveLogs, LogDirectories
from odradek.broker.log.directories.loading import Loading
from odradek.broker.log.directories.log_directory import LogDirectory, set_aside, set_aside_stray, sync_removals
from odradek.broker.log.directories.maintenance import LogMaintenance
from odradek.broker.log.errors import NO_ROOM, NoRoom, StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey
from odradek.world.background import Background
from odradek.world.children import Children
from odradek.world.clock import Clock
from odradek.world.files import Files

T = TypeVar("T")

logger = logging.getLogger(__name__)

PREFERENCES_MAX = 10_000
"""Wishes for partitions that do not exist yet that are remembered; the oldest goes first."""


def _nothing_replicated(log: Log) -> int:
    """Return the high watermark until the replica layer has said it."""
    return log.log_start_offset


class LogManager:
    """Owns the logs; runs on the loop. `background` is its own: `close` waits for it.

    `config_of(topic)` gives a topic's settings. `directory_failed(path, cause, partitions)` hears once of each log
    directory that goes offline, after its logs have gone from here. Compaction and recovery run in `children`;
    without them compaction does not run, and recovery runs in a thread.
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
        settings: LogManagerSettings | None = None,
        children: Children | None = None,
        directory_failed: Failed = lambda path, cause, partitions: None,
    ) -> None:
        settings = settings or LogManagerSettings()
        self.config_of = config_of
        self._high_watermark_of: Callable[[Log], int] = _nothing_replicated
        self._preferred: dict[PartitionKey, str] = {}
        self._opened = self._closed = False
        self._logs = LiveLogs()
        environment = self._environment = LogEnvironment(
            files,
            clock,
            background,
            random_source,
            failed=lambda path, cause: self._directories.fail(path, cause),
            truncated=lambda path: self.checkpoints.write_soon(path),
            lower_checkpoints=lambda path, claims: self.checkpoints.lower(path, claims),
            producer_expiration_ms=settings.producer_id_expiration_ms,
        )
        entries = [LogDirectory(environment, path) for path in directories]
        self._directories = LogDirectories(entries, self._logs, self._abandon, directory_failed)
        self.checkpoints = Checkpoints(clock, self._directories, self._logs)
        self._future_logs = FutureLogs(environment, self._directories, self._logs, config_of, self._abandon)
        self._loading = Loading(environment, self._directories, self._logs, self._future_logs, children)
        self._maintenance = LogMaintenance(environment, settings, self._logs, self.checkpoints, self._replicated_to)
        self.compaction: Compaction | None = None
        self.flush_times = environment.flush_times
        """Times that flushes of logs took."""
        if children is not None:
            self.compaction = Compaction(
                clock,
                children,
                settings,
                self._logs.to_compact,
                self._replicated_to,
                self._cleaned,
                self.checkpoints.covers,
            )

    # opening

    def owner(self) -> MetaProperties:
        """Lock all directories; return whom they belong to, as far as they say it. Raises UnusableDirectory.

        For a broker that does not know its id yet; to be called before `open`.
        """
        return self._loading.owner()

    @property
    def in_doubt(self) -> bool:
        """True when a log that was made here may be gone, or be an old copy: a disk was replaced, is or was missing, or
        the power failed before the log's name was on the disk. Known when all are open."""
        return self._loading.in_doubt

    def open(self, identity: DirectoryOwner, ready: Callable[[], object], *, recovery_processes: int = 1) -> None:
        """Take and load all directories in parallel, then call `ready` on the loop. Raises UnusableDirectory.

        A directory that fails goes offline as long as another one works; when loading fails in all of them `ready` is
        called and `online()` is empty. `recovery_processes`: how many repair one directory after an unclean stop.
        """

        def loaded() -> None:
            self._opened = True
            self._maintenance.start()
            if self.compaction is not None:
                self.compaction.start()
            ready()

        self._loading.load(identity, self.config_of, loaded, recovery_processes)

    def protect_from(self, high_watermark_of: Callable[[Log], int]) -> None:
        """Delete and compact nothing at or beyond a log's high watermark, which only the replica layer knows.

        Before this call nothing is deleted or compacted.
        """
        self._high_watermark_of = high_watermark_of

    def _replicated_to(self, log: Log) -> int:
        return self._high_watermark_of(log)

    def _cleaned(self, log: Log) -> None:
        self.checkpoints.write_cleaned(log.log_directory)

    # the logs

    @property
    def directories(self) -> dict[str, LogDirectory]:
        """The entries of `log.dirs` by path, those that failed among them."""
        return self._directories.by_path

    def online(self) -> list[LogDirectory]:
        """Directories that work."""
        return self._directories.online()

    def all_logs(self) -> list[Log]:
        """Return the current log of each partition."""
        return self._logs.current()

    def get(self, topic: str, partition: int) -> Log | None:
        """Return a partition's log, None when this broker has none (or its directory is offline)."""
        return self._logs.get((topic, partition))

    def may_be_offline(self, topic: str, partition: int) -> bool:
        """Tell whether a partition has no log here, but may have one in a directory that is offline."""
        key = (topic, partition)
        return key not in self._logs and any(
            directory.offline is not None and directory.may_hold(key) for directory in self.directories.values()
        )

    def topic_id(self, topic: str, partition: int) -> bytes:
        """Return what `partition.metadata` says; zeros when it was never said."""
        return self._logs.topic_id((topic, partition))

    # making logs

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Have a partition that is not here made in that directory, when it is made (AlterReplicaLogDirs)."""
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = path
        if len(self._preferred) > PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def get_or_create(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = False) -> Log:
        """Return the log, made when there is none, in the directory that was preferred or that has the fewest logs.

        `is_new`: the controller says that no replica has existed here; without it a log that is missing while a
        directory is offline may be in there. Raises KafkaError INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR.
        """
        key = (topic, partition)
        log, known = self._logs.get(key), self._logs.topic_id(key)
        if log is not None and ZERO_UUID != known != topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic}-{partition} has another topic id on the disk")
        if log is None:
            return self._create_somewhere(key, topic_id, is_new)
        try:
            if topic_id not in (ZERO_UUID, known):
                self._write_topic_id(log, topic_id)
        except OSError as error:
            raise self._refusal(log.log_directory, key, error) from error
        return log

    def _create_somewhere(self, key: PartitionKey, topic_id: bytes, is_new: bool) -> Log:
        """Make it in the first directory that takes it; one that cannot goes offline, unless it is only full."""
        if not (is_new or self._directories.all_online()):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} may be in an offline log directory")
        self._future_logs.discard(key)  # of a partition of that name that is gone
        refused = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory works")
        for path in self._candidates(key):
            try:
                return self._create(path, key, topic_id)
            except OSError as error:
                refused = self._refusal(path, key, error)
                refused.__cause__ = error
                if not is_new:
                    break
        raise refused

    def _candidates(self, key: PartitionKey) -> list[str]:
        online = [directory.path for directory in self._directories.online()]
        preferred = self._preferred.get(key)
        return [preferred] if preferred in online else self._logs.emptiest_first(online)

    def _refusal(self, path: str, key: PartitionKey, error: OSError) -> KafkaError:
        if error.errno in NO_ROOM:
            return NoRoom(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]}: {error}")
        self._directories.fail(path, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]}: {error}")

    def _create(self, log_directory: str, key: PartitionKey, topic_id: bytes) -> Log:
        path = f"{log_directory}/{partition_name(*key)}"
        sync_removals(self._environment)
        try:
            log = open_log(self._environment, path, *key, self.config_of(key[0]), clean=True)
            log.prepare()
            if topic_id != ZERO_UUID:
                self._write_topic_id(log, topic_id)
        except OSError:
            with contextlib.suppress(OSError):  # or the next start finds two, when another directory takes it
                self._environment.files.remove_directory(path)
            raise
        self._logs.add(log)
        self._preferred.pop(key, None)
        # With the checkpoint the directory's name gets onto the disk. After a power failure before that the broker
        # leaves the ISRs of the replicas that it misses, whichever they are (cluster/unclean_restart.py).
        self.checkpoints.write_for_made(log_directory)
        logger.info("made %s", path)
        return log

    def _write_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{PARTITION_METADATA}"
        self._environment.files.write_atomically(path, encode_partition_metadata(topic_id), sync=False)
        self._logs.set_topic_id((log.topic, log.partition), topic_id)

    # moves to another directory

    def future_logs(self) -> list[Log]:
        """Return the future logs: of the partitions that move to another directory."""
        return self._logs.futures()

    def future_log(self, topic: str, partition: int) -> Log | None:
        """Return what is to take the place of the partition's log, in another directory; None when it does not move."""
        return self._logs.future((topic, partition))

    def create_future_log(self, topic: str, partition: int, path: str) -> Log:
        """Create an empty future log in the directory `path`. Raises KafkaError KAFKA_STORAGE_ERROR, also while any
        directory is offline: that may have another one."""
        if not self._directories.all_online():
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "there may be a future log in an offline log directory")
        log = self._future_logs.create((topic, partition), path)
        current = self._logs.get((topic, partition))
        if current is not None and self.compaction is not None:
            self.compaction.abandon(current)
        self.checkpoints.write_soon(path)
        return log

    def discard_future_log(self, topic: str, partition: int) -> None:
        """Give the move up. No future log is no error."""
        self._future_logs.discard((topic, partition))

    def promote_future_log(self, topic: str, partition: int) -> Log:
        """Put a future log in the place of the log that it is a copy of, which is deleted. Raises KafkaError
        KAFKA_STORAGE_ERROR."""
        former = self._logs.get((topic, partition))
        assert former is not None, (topic, partition)
        log = self._future_logs.promote((topic, partition))
        self.checkpoints.write_soon(former.log_directory)
        self.checkpoints.write_soon(log.log_directory)
        self.checkpoints.write_log_starts()
        return log

    # letting go, and settings

    def delete(self, topic: str, partition: int) -> None:
        """Drop a log: its directory is renamed at once and removed after `file.delete.delay.ms`. No log is no error.

        A future log goes first. Raises StorageFailure.
        """
        self._let_go(topic, partition, set_aside)

    def set_aside_stray(self, topic: str, partition: int) -> str | None:
        """Drop a log, but keep its directory under another name; return its path, None without a log. Raises
        StorageFailure."""
        return self._let_go(topic, partition, set_aside_stray)

    def _let_go(self, topic: str, partition: int, rename: Callable[[LogEnvironment, Log], T]) -> T | None:
        self._future_logs.discard((topic, partition))
        log = self._logs.get((topic, partition))
        if log is None:
            return None
        self._logs.remove(log)
        self._abandon(log)
        try:
            result = rename(self._environment, log)
        except OSError as error:  # of any kind: what stays there must not be taken for the log of a new topic
            self._directories.fail(log.log_directory, error)
            raise StorageFailure(log.log_directory, error) from error
        self.checkpoints.write_soon(log.log_directory)
        return result

    def _abandon(self, log: Log) -> None:
        log.abandon()
        if self.compaction is not None:
            self.compaction.abandon(log)

    def configure_broker(self, settings: LogManagerSettings) -> None:
        """Take other settings of the broker; a compaction that runs goes on with the old ones."""
        if self.compaction is not None:
            self.compaction.settings = settings
        self._environment.producer_expiration_ms = settings.producer_id_expiration_ms

    def configure_all(self) -> None:
        """Have all logs obey settings of the broker that have changed, in slices of time."""
        self._maintenance.for_each_log("settings", lambda log: log.configure(self.config_of(log.topic)))

    def configure(self, topic: str) -> None:
        """Have the logs of a topic obey settings that have changed."""
        config = self.config_of(topic)
        for log in self._logs.all():
            if log.topic == topic:
                log.configure(config)

    # the end

    def close(self, broker_epoch: int = -1, *, joined: bool = True) -> None:
        """Shut down cleanly: everything to the disk, checkpoints, markers; blocks. Nothing to do the second time.

        Before all is open nothing is written: what was not repaired yet is not to pass for clean. A broker that has not
        `joined` leaves the markers as it has found them, so that what was in doubt is still.
        """
        if self._closed:
            return
        self._closed = True
        self._loading.stop()
        self._maintenance.stop()
        if self.compaction is not None:
            self.compaction.stop()
        self.checkpoints.stop()
        closings = [
            (Closing(self._environment, directory, self._logs.in_directory(directory.path)), directory.mark)
            for directory in self.online()
            if self._opened
        ]
        for closing, _ in closings:
            closing.begin()
        self._environment.background.close()
        mark = encode_clean_shutdown(broker_epoch)
        for closing, found in closings:
            closing.end(mark if joined else found)
        for directory in self.directories.values():
            directory.release()
