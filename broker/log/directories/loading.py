"""Loading of all logs at the start of a broker.

The directories are locked, their owners checked, and their logs loaded in parallel. A directory that fails goes offline
as long as another one works.
"""

import contextlib
import errno
import logging
from collections.abc import Callable, Set
from functools import partial
from typing import TypeVar

from odradek.broker.log.directories.directory_files import (
    DirectoryOwner,
    MetaProperties,
    common_owner,
    partition_name,
)
from odradek.broker.log.directories.future_logs import FutureLogs, whole_futures
from odradek.broker.log.directories.live_logs import LiveLogs, LogDirectories
from odradek.broker.log.directories.log_directory import Loaded, LogDirectory, set_aside
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.parallel import ParallelRecovery, TornLog, torn_logs
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.topic_names import PartitionKey
from odradek.world.children import Children

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Loading:
    """Locks `directories` and fills `logs` from them."""

    def __init__(
        self,
        environment: LogEnvironment,
        directories: LogDirectories,
        logs: LiveLogs,
        future_logs: FutureLogs,
        children: Children | None,
    ) -> None:
        self._environment = environment
        self._directories = directories
        self._logs = logs
        self._future_logs = future_logs
        self._children = children
        self._recoveries: list[ParallelRecovery] = []
        self.in_doubt = False
        """True when a directory had no mark of a clean shutdown, is offline, or was missing in a run of this broker in
        which others were there. Known when all are loaded."""

    def owner(self) -> MetaProperties:
        """Lock all directories; return whom they belong to, as far as they say it. Raises UnusableDirectory.

        For a broker that does not know its id yet; to be called before `load`.
        """
        owners: dict[str, MetaProperties] = {}
        for directory in self._directories.by_path.values():
            try:
                directory.take()
                owners[directory.path] = directory.owner()
            except OSError as error:
                self._unusable(directory, error)
        return common_owner(owners)

    def load(
        self,
        identity: DirectoryOwner,
        config_of: Callable[[str], LogConfig],
        ready: Callable[[], object],
        recovery_processes: int,
    ) -> None:
        """Take and load all directories in parallel, then call `ready` on the loop. Raises UnusableDirectory.

        When loading fails in all of them `ready` is called and none is online. `recovery_processes`: how many repair
        one directory after an unclean stop.
        """
        for directory in self._directories.online():
            try:
                if not directory.taken:
                    directory.take()
                directory.claim(identity)
            except OSError as error:
                self._unusable(directory, error)
        left, found = len(self._directories.online()), list[Loaded]()

        def loaded(directory: LogDirectory, result: Loaded | OSError) -> None:
            nonlocal left
            left -= 1
            if isinstance(result, OSError):
                self._directories.fail(directory.path, result)
            else:
                found.append(result)
            if left == 0:
                self._take_over(found)
                ready()

        for directory in self._directories.online():
            self._load(directory, config_of, partial(loaded, directory), recovery_processes)

    def _load(
        self,
        directory: LogDirectory,
        config_of: Callable[[str], LogConfig],
        loaded: Callable[[Loaded | OSError], None],
        recovery_processes: int,
    ) -> None:
        """Load a directory's logs; after an unclean stop child processes first repair those that they can."""
        run = self._environment.background.run

        def load(validated: Set[str]) -> None:
            run(lambda: _or_disk_error(directory, lambda: directory.load(config_of, validated)), loaded)

        def looked(torn: list[TornLog] | OSError) -> None:
            if isinstance(torn, OSError):
                loaded(torn)
            elif self._children is not None and torn:
                directory.forget_names()
                recovery = ParallelRecovery(self._children, self._environment, load)
                self._recoveries.append(recovery)
                recovery.begin(torn, recovery_processes)
            else:
                load(frozenset())

        run(lambda: _or_disk_error(directory, lambda: torn_logs(self._environment, directory, config_of)), looked)

    def stop(self) -> None:
        """End the processes that repair logs, if there are any left."""
        for recovery in self._recoveries:
            recovery.stop()

    def _is_online(self, log: Log) -> bool:
        return self._directories.by_path[log.log_directory].offline is None

    def _give_up(self, log: Log) -> None:
        log.abandon()
        try:
            set_aside(self._environment, log)
        except OSError as error:
            self._directories.fail(log.log_directory, error)

    def _unusable(self, directory: LogDirectory, error: OSError) -> None:
        if len(self._directories.online()) <= 1:
            raise UnusableDirectory(directory.path, str(error)) from error
        logger.error("log directory %s cannot be used: %s", directory.path, error)
        with contextlib.suppress(OSError):
            directory.names()
        self._directories.fail(directory.path, error)

    def _take_over(self, found: list[Loaded]) -> None:
        """Take over what was found in all directories.

        An empty log is given up when another directory has a log of its partition: it was left behind by an attempt to
        make the log here that failed.
        """
        logs = [log for one in found for log in one.logs]
        futures = [log for one in found for log in one.futures]
        deleted = [path for one in found for path in one.to_delete]
        filled = [log for log, _ in logs if log.log_end_offset]
        whole = whole_futures(futures, deleted)
        filled += [log for log, _ in futures if log in whole and log.log_end_offset]
        unread = self._unread_copies({(log.topic, log.partition) for log, _ in logs + futures})
        self._fail_where_twice(filled, unread)
        elsewhere = {(log.topic, log.partition) for log in filled} | unread.keys()
        for log, topic_id in logs:
            key = (log.topic, log.partition)
            if not self._is_online(log):
                continue
            if not log.log_end_offset and (key in elsewhere or key in self._logs):
                self._give_up(log)
            else:
                self._logs.add(log, topic_id)
        self._future_logs.sort_out([one for one in futures if self._is_online(one[0])], deleted)
        lives = {one.closed_in for one in found}
        self.in_doubt = not (self._directories.all_online() and all(one.clean for one in found)) or len(lives) > 1

    def _unread_copies(self, keys: Set[PartitionKey]) -> dict[PartitionKey, list[str]]:
        """Find copies of partitions in directories that could not be loaded, as far as these can be listed."""
        copies: dict[PartitionKey, list[str]] = {}
        for directory in self._directories.by_path.values():
            for key in directory.held & keys if directory.offline is not None else ():
                if directory.has_records(key):
                    copies.setdefault(key, []).append(f"{directory.path}/{partition_name(*key)}")
        return copies

    def _fail_where_twice(self, logs: list[Log], unread: dict[PartitionKey, list[str]]) -> None:
        """Fail the directories with a partition that another one has, too, even if that one could not be loaded.

        A directory was put back, or Kafka ended amid a move: nobody knows which copy is whole. When no directory is
        left the broker does not start (Kafka's never does).
        """
        copies: dict[PartitionKey, list[Log]] = {}
        for log in logs:
            copies.setdefault((log.topic, log.partition), []).append(log)
        for (topic, partition), found in copies.items():
            directories = [log.directory for log in found] + unread.get((topic, partition), [])
            if len(directories) == 1:
                continue
            where = " and ".join(directories)
            said = f"{topic}-{partition} is there {len(directories)} times, {where}: move away what is out of date"
            logger.error(said)
            for log in found:
                self._directories.fail(log.log_directory, OSError(errno.EEXIST, said))


def _or_disk_error(directory: LogDirectory, work: Callable[[], T]) -> T:
    """Do a part of loading. An error that nobody has foreseen, in files that nobody has foreseen, takes this directory
    offline: otherwise the broker would wait for it for ever. Raises OSError."""
    try:
        return work()
    except OSError:
        raise
    except Exception as error:
        logger.exception("%s cannot be loaded", directory.path)
        raise OSError(errno.EIO, f"it cannot be loaded: {error!r}", directory.path) from error
