"""Logs that are to take the place of their partition's log in another directory (KIP-113), as the disk sees them.

A future log's directory is called `<topic>-<partition>.<unique>-future`. When it has caught up, the present log is
renamed to `<topic>-<partition>.<unique>-delete`, with the same `unique`, and then the future one to
`<topic>-<partition>`. A broker that died in between finds the future log, and a directory of its name with `-delete`:
then, and only then, the future log is whole. Source: LogManager.replaceCurrentWithFutureLog of Kafka 3.9, which renames
in the other order and does not start when it died in between.
"""

import contextlib
import logging
import posixpath
from collections.abc import Callable, Iterable

from odradek.broker.log.directories.directory_files import (
    PARTITION_METADATA,
    encode_partition_metadata,
    future_name,
    partition_name,
    replaced_name,
)
from odradek.broker.log.directories.live_logs import LiveLogs, LogDirectories
from odradek.broker.log.directories.log_directory import remove_directory, remove_later, set_aside
from odradek.broker.log.errors import NO_ROOM
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.segment import DELETED
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey

logger = logging.getLogger(__name__)


class FutureLogs:
    """Makes future logs, gives them up, and puts them in their places. `abandon(log)` ends all work on a log that
    goes."""

    def __init__(
        self,
        environment: LogEnvironment,
        directories: LogDirectories,
        logs: LiveLogs,
        config_of: Callable[[str], LogConfig],
        abandon: Callable[[Log], object],
    ) -> None:
        self._environment = environment
        self._directories = directories
        self._logs = logs
        self._config_of = config_of
        self._abandon = abandon

    def create(self, key: PartitionKey, log_directory: str) -> Log:
        """Create an empty future log. Raises KafkaError KAFKA_STORAGE_ERROR."""
        assert self._logs.future(key) is None, key
        path = f"{log_directory}/{future_name(*key, self._environment.random.getrandbits(128))}"
        try:
            log = open_log(self._environment, path, *key, self._config_of(key[0]), clean=True)
            self._write_topic_id(key, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._environment.files.remove_directory(path)
            if error.errno not in NO_ROOM:
                self._directories.fail(log_directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error}") from error
        self._logs.add_future(log)
        return log

    def _write_topic_id(self, key: PartitionKey, path: str) -> None:
        """Write it to a directory, if it is known and is not there. Raises OSError."""
        topic_id, file = self._logs.topic_id(key), f"{path}/{PARTITION_METADATA}"
        if topic_id != ZERO_UUID and not self._environment.files.exists(file):
            self._environment.files.write_atomically(file, encode_partition_metadata(topic_id), sync=False)

    def discard(self, key: PartitionKey) -> None:
        """Give a future log up. None is no error. When its disk fails, the directory goes offline."""
        log = self._logs.future(key)
        if log is not None:
            self._logs.remove(log)
            self._set_aside(log)

    def _set_aside(self, log: Log) -> None:
        self._abandon(log)
        try:
            set_aside(self._environment, log)
        except OSError as error:
            self._directories.fail(log.log_directory, error)

    def promote(self, key: PartitionKey) -> Log:
        """Put the future log, which holds all that the current one does, in its place. Raises KafkaError
        KAFKA_STORAGE_ERROR, of which StorageFailure is one.

        The first renaming is durable before the second is begun; that the second is durable too does not matter. When
        no descriptor or no room is left, both logs stay what they are, and it may be tried again.
        """
        current, future = self._logs.get(key), self._logs.future(key)
        assert current is not None and future is not None, key
        assert future.log_end_offset == current.log_end_offset, (current, future)
        try:
            self._write_topic_id(key, future.directory)  # it may have been said since
        except OSError as error:
            raise _refusal(future, error) from error
        future.epochs = LeaderEpochs(current.epochs.entries())  # those without a batch, too
        future.write_epochs()
        future.cleaned_to = current.cleaned_to
        files = self._environment.files
        gone = f"{current.log_directory}/{replaced_name(posixpath.basename(future.directory))}"
        try:
            files.rename(current.directory, gone)
        except OSError as error:
            raise _refusal(current, error) from error
        synced = False
        try:
            files.sync_directory(current.log_directory)
            synced = True
            self._rename_to_live(future)
        except OSError as error:
            try:
                files.rename(gone, current.directory)
            except OSError as second:
                current.give_up_directory(second)
            raise (_refusal(future, error) if synced else current.unreadable(error)) from error
        self._logs.promote(key)
        self._abandon(current)
        remove_later(self._environment, current, gone)
        return future

    def _rename_to_live(self, future: Log) -> None:
        files = self._environment.files
        former, path = future.directory, f"{future.log_directory}/{partition_name(future.topic, future.partition)}"
        deleted = [name for name in files.list_directory(former) if name.endswith(DELETED)]
        files.rename(former, path)
        future.moved_to(path)
        self._environment.remove_files_later([f"{path}/{name}" for name in deleted], future.config.file_delete_delay_ms)
        logger.info("%s has taken the place of %s-%d", former, future.topic, future.partition)

    # after the start

    def sort_out(self, found: list[tuple[Log, bytes | None]], deleted: list[str]) -> None:
        """Sort out what was found when all directories were loaded: future logs, and directories set aside.

        While a directory is offline nothing is removed: what was set aside may be all that is left of a replica whose
        new log is in there.
        """
        whole = whole_futures(found, deleted)
        for log, topic_id in sorted(found, key=lambda one: one[0] not in whole):
            key = (log.topic, log.partition)
            current = self._logs.get(key)
            if current is None and log in whole:
                self._finish(log, topic_id)
            elif self._is_of_use(log, topic_id, current):
                self._logs.add_future(log)
            else:
                logger.info("%s is not needed any more", log.directory)
                self._set_aside(log)
        if self._directories.all_online():
            for path in deleted:
                remove_directory(self._environment, path)
        elif deleted:
            logger.warning("not removed while a log directory is offline: %s", ", ".join(deleted))

    def _finish(self, log: Log, topic_id: bytes | None) -> None:
        try:
            self._rename_to_live(log)
        except OSError as error:
            self._abandon(log)
            self._directories.fail(log.log_directory, error)
        else:
            self._logs.add(log, topic_id)

    def _is_of_use(self, log: Log, topic_id: bytes | None, current: Log | None) -> bool:
        """Tell whether to keep a future log. Without a current log it is kept while a directory is offline, which may
        have that one."""
        key = (log.topic, log.partition)
        if self._logs.future(key) is not None:
            return False
        if current is None:
            return not self._directories.all_online()
        known = self._logs.topic_id(key)
        return current.log_directory != log.log_directory and known in (ZERO_UUID, topic_id or known)


def _refusal(log: Log, error: OSError) -> KafkaError:
    """Give up the directory of a log, unless it only lacks room or a descriptor; return the exception to raise."""
    if error.errno in NO_ROOM:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log}: {error}")
    return log.give_up_directory(error)


def whole_futures(found: Iterable[tuple[Log, bytes | None]], deleted: Iterable[str]) -> set[Log]:
    """Return the future logs that are whole: what each takes the place of is among the directories set aside."""
    names = {posixpath.basename(path) for path in deleted}
    return {log for log, _ in found if replaced_name(posixpath.basename(log.directory)) in names}
