"""An entry of `log.dirs`: its lock, its owner, its checkpoints; loading, closing and removing the logs in it."""

import contextlib
import errno
import logging
import posixpath
from collections.abc import Callable, Set
from typing import NamedTuple

from odradek.broker.log.checkpoint_format import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS, Offsets
from odradek.broker.log.directories.checkpoint_files import CheckpointFiles
from odradek.broker.log.directories.directory_files import (
    CLEAN_SHUTDOWN,
    DELETE_SUFFIX,
    LOCK,
    META_PROPERTIES,
    NO_BROKER_EPOCH,
    PARTITION_METADATA,
    STRAY_SUFFIX,
    DirectoryOwner,
    MetaProperties,
    OtherMode,
    decode_clean_shutdown,
    decode_meta,
    decode_partition_metadata,
    encode_meta,
    parse_future_name,
    parse_partition_name,
    partition_name,
    set_aside_name,
)
from odradek.broker.log.errors import OUT_OF_DESCRIPTORS, CorruptFile, UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.segment import LOG
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.record_batch import MAX_INT64
from odradek.protocol.topic_names import PartitionKey
from odradek.world.files import File

logger = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """Contents of a directory."""

    logs: list[tuple[Log, bytes | None]]
    """Logs with the topic id, where there is one."""
    futures: list[tuple[Log, bytes | None]]
    """Logs that were on their way into this directory."""
    to_delete: list[str]
    clean: bool
    """True if the directory had the mark of a clean shutdown."""
    closed_in: int
    """Broker epoch under which it was closed, as the mark says; -1 when that is not said."""


class LogDirectory:
    """An entry of `log.dirs`; `offline` holds the reason once an I/O error has taken it away."""

    def __init__(self, environment: LogEnvironment, path: str) -> None:
        self.path = path
        self.offline: OSError | None = None
        self._environment = environment
        self._lock: File | None = None
        self._names: dict[str, list[str]] = {}
        self.held: frozenset[PartitionKey] = frozenset()
        """Partitions that had a log here when the directory was listed, whatever came of loading it."""
        self._listed = False
        self.mark: bytes | None = None
        """The mark of a clean shutdown that it had when it was loaded."""
        self.checkpoints = CheckpointFiles(environment, path, lambda: self.offline is not None)

    # whose it is

    @property
    def taken(self) -> bool:
        """True while this broker holds the directory's lock."""
        return self._lock is not None

    def volume_bytes(self) -> tuple[int, int]:
        """Return total and usable bytes of the directory's file system; -1 each when they cannot be read."""
        try:
            return self._environment.files.free_bytes(self.path)
        except OSError:
            return -1, -1

    def take(self) -> None:
        """Make the directory when it is missing, and lock it. Raises OSError, UnusableDirectory when it is locked."""
        files = self._environment.files
        if not files.exists(self.path):
            above = posixpath.dirname(self.path)
            changed = [above]
            while above and not files.exists(above):  # or a power failure takes all of them away, with every log below
                above = posixpath.dirname(above)
                changed.append(above)
            files.make_directory(self.path)
            for directory in changed:
                files.sync_directory(directory)
        try:
            self._lock = files.lock(f"{self.path}/{LOCK}")
        except BlockingIOError:
            raise UnusableDirectory(self.path, "another broker is using it (its .lock is held)") from None

    def owner(self) -> MetaProperties:
        """Read who owns the directory. Raises OSError, also when that cannot be understood; UnusableDirectory."""
        return self._meta()[0]

    def _meta(self) -> tuple[MetaProperties, dict[str, str]]:
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            return decode_meta(self._environment.files.read(path))
        except FileNotFoundError:
            return MetaProperties(), {}
        except CorruptFile as error:
            raise OSError(errno.EIO, str(error), path) from None
        except OtherMode as error:
            raise UnusableDirectory(self.path, str(error)) from None

    def claim(self, identity: DirectoryOwner) -> None:
        """Write the owner unless it is there in full. Raises OSError; UnusableDirectory when it is somebody else's."""
        owner, properties = self._meta()
        if owner.broker_id not in (None, identity.broker_id) or owner.cluster_id not in (None, identity.cluster_id):
            raise UnusableDirectory(
                self.path,
                f"it belongs to broker {owner.broker_id} of cluster {owner.cluster_id}, "
                f"not to broker {identity.broker_id} of cluster {identity.cluster_id}",
            )
        if owner[:2] != identity:
            content = encode_meta(identity, self._environment.clock.now_ms(), properties)
            self._environment.files.write_atomically(f"{self.path}/{META_PROPERTIES}", content)

    def release(self) -> None:
        """Give the lock back; the system does so even when it reports an error of closing the file."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.close()

    # loading

    def names(self) -> list[str]:
        """List what is in it, and note which partitions are `held`. Raises OSError."""
        names = self._environment.files.list_directory(self.path)
        self._listed = True
        self.held = frozenset(key for name in names if (key := parse_partition_name(name)) is not None)
        return names

    def may_hold(self, key: PartitionKey) -> bool:
        """Tell whether a partition had a log here at the start, or may have had, because that could not be read."""
        return key in self.held or not self._listed

    def has_records(self, key: PartitionKey) -> bool:
        """Tell whether a partition that is `held` has records here, or may have, because that cannot be read."""
        files, path = self._environment.files, f"{self.path}/{partition_name(*key)}"
        try:
            return any(files.size(f"{path}/{name}") for name in files.list_directory(path) if name.endswith(LOG))
        except NotADirectoryError:
            return False
        except OSError:
            return True

    def names_in(self, path: str) -> list[str] | None:
        """List a partition's directory; None for a file or a dangling link.

        Remembered until `load`, which need not list it again."""
        try:
            names = self._names[path] = self._environment.files.list_directory(path)
        except (NotADirectoryError, FileNotFoundError):
            return None
        return names

    def forget_names(self) -> None:
        """Forget what `names_in` has listed: somebody changes these directories."""
        self._names.clear()

    def load(self, config_of: Callable[[str], LogConfig], validated: Set[str] = frozenset()) -> Loaded:
        """Open all logs; blocks, and runs in the background when the broker starts. Raises OSError.

        `validated`: directories of logs that have been repaired after an unclean stop.
        """
        files = self._environment.files
        clean, closed_in = self._take_mark()
        files.sync_directory(self.path)  # what is read next may have been renamed just before a kill
        recovery_points = self.checkpoints.read(RECOVERY_POINTS)
        starts = self.checkpoints.read(LOG_START_OFFSETS)
        cleaned = self.checkpoints.read(CLEANER_OFFSETS)
        loaded = Loaded([], [], [], clean, closed_in)
        for name in self.names():
            path = f"{self.path}/{name}"
            live = parse_partition_name(name)
            key = live or parse_future_name(name)
            if key is None:
                if files.is_directory(path):
                    self._pass_over(path, loaded)
                continue
            names = self._names.pop(path, None) or self.names_in(path)
            if names is None:
                continue
            log = open_log(
                self._environment,
                path,
                *key,
                config_of(key[0]),
                recovery_point=recovery_points.get(key, 0),
                log_start_offset=starts.get(key, 0),
                clean=clean,
                validated=path in validated,
                gaps_before=gaps_before(recovery_points, cleaned, key),
                names=names,
            )
            if cleaned.get(key, 0) <= log.log_end_offset:  # else this may be an older copy of what was compacted
                log.cleaned_to = cleaned.get(key, 0)
            (loaded.logs if live else loaded.futures).append((log, self._topic_id(path, names)))
        self.forget_names()
        how = "after a clean shutdown" if clean else "with recovery, there is no mark of a clean shutdown"
        logger.info("%s: loaded %d logs %s", self.path, len(loaded.logs), how)
        return loaded

    def _take_mark(self) -> tuple[bool, int]:
        """Remove the mark of a clean shutdown; return whether there was one, and the broker epoch that it names."""
        files, marker = self._environment.files, f"{self.path}/{CLEAN_SHUTDOWN}"
        if not files.exists(marker):
            return False, NO_BROKER_EPOCH
        self.mark = files.read(marker)
        closed_in = decode_clean_shutdown(self.mark)
        files.remove(marker)
        return True, closed_in

    def _pass_over(self, path: str, loaded: Loaded) -> None:
        if path.endswith(DELETE_SUFFIX):
            loaded.to_delete.append(path)
        else:
            logger.warning("%s is not a partition's directory and is left alone", path)

    def _topic_id(self, directory: str, names: list[str]) -> bytes | None:
        if PARTITION_METADATA not in names:
            return None
        try:
            return decode_partition_metadata(self._environment.files.read(f"{directory}/{PARTITION_METADATA}"))
        except CorruptFile as error:
            logger.warning("%s: %s; the controller will send it again", directory, error)
            return None


def gaps_before(recovery_points: Offsets, cleaned: Offsets, key: PartitionKey) -> int:
    """Return the offset before which a gap between two segments is no sign of a loss, since compaction has made it.

    Our own compaction leaves gaps only before a recovery point that is on the disk, and nothing before that is
    validated; Kafka's may be ahead of it. Without any recovery points all of every log is validated, gaps included.
    """
    return cleaned.get(key, 0) if recovery_points else MAX_INT64


def set_aside(environment: LogEnvironment, log: Log) -> None:
    """Rename the directory of a log that was abandoned, and have it removed after `file.delete.delay.ms`. Raises
    OSError."""
    remove_later(environment, log, _rename(environment, log, DELETE_SUFFIX))


def set_aside_stray(environment: LogEnvironment, log: Log) -> str:
    """Rename the directory of a log that was abandoned, and leave it there; its new path. Raises OSError."""
    return _rename(environment, log, STRAY_SUFFIX)


def _rename(environment: LogEnvironment, log: Log, kind: str) -> str:
    unique = environment.random.getrandbits(128)
    path = f"{log.log_directory}/{set_aside_name(log.topic, log.partition, unique, kind)}"
    environment.files.rename(log.directory, path)
    environment.removals.add(log.log_directory)
    return path


def sync_removals(environment: LogEnvironment) -> None:
    """Sync the removals of logs before a log is made: one of the same name in another directory must not come back.

    Raises OSError when no descriptor is left to open a directory."""
    for path in sorted(environment.removals):
        try:
            environment.files.sync_directory(path)
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                raise
            environment.failed(path, error)
        environment.removals.discard(path)


def remove_later(environment: LogEnvironment, log: Log, path: str) -> None:
    """Remove a log's directory, which has been renamed to `path`, when its `file.delete.delay.ms` are over."""
    delay_ms = log.config.file_delete_delay_ms
    logger.info("%s is deleted, %s will be removed in %d ms", log.directory, path, delay_ms)
    environment.clock.call_later(delay_ms, lambda: remove_directory(environment, path))


def remove_directory(environment: LogEnvironment, path: str) -> None:
    """Remove a directory in the background; what cannot be removed is left to the next start."""

    def done(result: OSError | None) -> None:
        if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
            logger.warning("cannot remove %s, the next start will: %s", path, result)

    environment.background.run(lambda: environment.files.remove_directory(path), done)
