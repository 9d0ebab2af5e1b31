"""Letting go of a log's directory: renamed at once, removed after `file.delete.delay.ms`."""

import logging

from odradek.broker.log.directories.directory_files import deleted_name
from odradek.broker.log.log import Log
from odradek.broker.log.storage import Storage

logger = logging.getLogger(__name__)


def set_aside(storage: Storage, log: Log) -> None:
    """Rename the directory of a log that was abandoned, and have it removed later. Raises OSError."""
    unique = storage.random.getrandbits(128)
    path = f"{log.log_directory}/{deleted_name(log.topic, log.partition, unique)}"
    storage.files.rename(log.directory, path)
    storage.removals.add(log.log_directory)
    remove_later(storage, log, path)


def sync_removals(storage: Storage) -> None:
    """Before a log is made: one of its name that was in another directory must not come back beside it."""
    for path in sorted(storage.removals):
        try:
            storage.files.sync_directory(path)
        except OSError as error:
            storage.failed(path, error)
    storage.removals.clear()


def remove_later(storage: Storage, log: Log, path: str) -> None:
    """The log has been renamed to `path`."""
    delay_ms = log.config.file_delete_delay_ms
    logger.info("%s is deleted, %s goes in %d ms", log.directory, path, delay_ms)
    storage.clock.call_later(delay_ms, lambda: remove_directory(storage, path))


def remove_directory(storage: Storage, path: str) -> None:
    """In the background; what cannot be removed is left to the next start."""

    def done(result: OSError | None) -> None:
        if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
            logger.warning("cannot remove %s, the next start will: %s", path, result)

    storage.background.run(lambda: storage.files.remove_directory(path), done)
