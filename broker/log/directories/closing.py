"""The end of a clean shutdown: everything of all logs to the disk, then the checkpoints, then the marker.

Logs are synced side by side: one after the other, 2,000 of them took 21 seconds.
"""

import logging
from functools import partial

from odradek.broker.log import checkpoint_format as checkpoints
from odradek.broker.log.directories.directory_files import CLEAN_SHUTDOWN, encode_clean_shutdown
from odradek.broker.log.directories.log_directory import LogDirectory, start_offsets
from odradek.broker.log.failure import StorageFailure
from odradek.broker.log.flush import Flush
from odradek.broker.log.log import Log
from odradek.broker.log.storage import Storage

logger = logging.getLogger(__name__)


class Closing:
    """Of one directory and its logs: `begin`, then the background is closed, then `end`. Nothing else may run.

    When the disk fails there is no marker, so the next start repairs what is wrong.
    """

    def __init__(self, storage: Storage, directory: LogDirectory, logs: list[Log]) -> None:
        self._storage = storage
        self._directory = directory
        self._logs = logs
        self._flushes: list[tuple[Log, Flush]] = []
        self._trouble: OSError | StorageFailure | None = None

    def begin(self) -> None:
        """Write what the logs have only in memory, and have it synced in the background."""
        try:
            for log in self._logs:
                flush = log.begin_close()
                if flush is not None:
                    self._flushes.append((log, flush))
                    self._storage.background.run(partial(self._sync, flush), lambda result: None)
        except StorageFailure as error:
            self._trouble = error

    def _sync(self, flush: Flush) -> None:
        try:
            flush.sync()
        except OSError as error:
            self._trouble = error

    def end(self, broker_epoch: int) -> None:
        """All is synced."""
        try:
            if self._trouble is not None:
                raise self._trouble
            for log, flush in self._flushes:
                if not flush.synced:  # the background took nothing any more
                    flush.sync()
                log.end_close(flush)
            points = {(log.topic, log.partition): log.recovery_point for log in self._logs}
            starts = start_offsets(self._logs)
            files = self._directory.checkpoints
            files.write_now({checkpoints.RECOVERY_POINTS: points, checkpoints.LOG_START_OFFSETS: starts})
            marker = f"{self._directory.path}/{CLEAN_SHUTDOWN}"
            self._storage.files.write_atomically(marker, encode_clean_shutdown(broker_epoch))
        except (OSError, StorageFailure) as error:
            logger.error("%s: not closed cleanly: %s", self._directory.path, error)
        self._directory.release()
