"""Loading of all logs at the start: directories are locked, their owner is checked, logs loaded in parallel.

One that fails goes offline as long as another one works.
"""

import errno
import logging
from collections.abc import Callable, Set
from functools import partial

from odradek.broker.log.directories.directory_files import DirectoryOwner, MetaProperties, common_owner
from odradek.broker.log.directories.failing import LogDirectories
from odradek.broker.log.directories.future_logs import FutureLogs
from odradek.broker.log.directories.live_logs import LiveLogs
from odradek.broker.log.directories.log_directory import Loaded, LogDirectory, set_aside
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.recovery.parallel import ParallelRecovery, TornLog, torn_logs
from odradek.broker.settings.topic_settings import LogConfig
from odradek.world.children import Children

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
        self._found_futures: list[tuple[Log, bytes | None]] = []
        self._found_deleted: list[str] = []
        self._children = children
        self._recoveries: list[ParallelRecovery] = []
        self.some_may_be_missing = False
        """A directory had no mark of a clean shutdown, or cannot be read; known when all are loaded."""

    def owner(self) -> MetaProperties:
        """Lock all directories; who they belong to, as far as they say it. Raises UnusableDirectory.

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
        left = len(self._directories.online())

        def loaded(directory: LogDirectory, result: Loaded | OSError) -> None:
            nonlocal left
            left -= 1
            if isinstance(result, OSError) or not result.clean:
                self.some_may_be_missing = True
            if isinstance(result, OSError):
                self._directories.fail(directory.path, result)
            else:
                self._take(directory, result)
            if left == 0:
                futures = [one for one in self._found_futures if self._is_online(one[0])]
                self._future_logs.sort_out(futures, self._found_deleted)
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
            run(lambda: directory.load(config_of, validated), loaded)

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

        run(lambda: torn_logs(self._environment, directory, config_of), looked)

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
        self._directories.fail(directory.path, error)

    def _take(self, directory: LogDirectory, loaded: Loaded) -> None:
        """Take its logs over, unless one is in another directory too and neither is empty (one that is could not be
        made there, nor removed).

        A directory was put back, or Kafka ended amid a move: which of the two is whole nobody knows, so both
        directories stay offline. Without a third one the broker does not start (Kafka's never does).
        """
        empty = []
        for log, topic_id in loaded.logs:
            other = self._logs.get((log.topic, log.partition))
            if other is not None and not log.log_end_offset:
                empty.append((log, topic_id))
            elif other is not None and not other.log_end_offset:
                self._logs.remove(other)
                self._give_up(other)
            elif other is not None:
                where = f"{other.directory} and {log.directory}"
                said = f"{log.topic}-{log.partition} is twice there, {where}: move away the one that is out of date"
                for path in (other.log_directory, directory.path):
                    self._directories.fail(path, OSError(errno.EEXIST, said))
                return
        for one in empty:
            loaded.logs.remove(one)
            self._give_up(one[0])
        for log, topic_id in loaded.logs:
            self._logs.add(log, topic_id)
        self._found_futures += loaded.futures
        self._found_deleted += loaded.to_delete
