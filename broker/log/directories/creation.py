"""Where a new log goes, and making it: where a client said (AlterReplicaLogDirs), else where there are the fewest.

Source: LogManager.getOrCreateLog and nextLogDirs of Kafka 3.9.
"""

import contextlib
import logging
from collections.abc import Callable

from odradek.broker.log.directories.checkpointing import Checkpointing
from odradek.broker.log.directories.directory_files import PARTITION_METADATA, encode_partition_metadata, partition_name
from odradek.broker.log.directories.future_logs import FutureLogs
from odradek.broker.log.directories.going_offline import Directories
from odradek.broker.log.directories.live_logs import Key, LiveLogs
from odradek.broker.log.directories.removal import sync_removals
from odradek.broker.log.failure import DISK_FULL, NoRoom
from odradek.broker.log.log import Log
from odradek.broker.log.log_config import LogConfig
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.storage import Storage
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import ZERO_UUID

logger = logging.getLogger(__name__)

PREFERENCES_MAX = 10_000
"""So many wishes for partitions that do not exist yet are remembered; the oldest goes first."""


class Creation:
    """Fills `logs` while the broker runs."""

    def __init__(
        self,
        storage: Storage,
        directories: Directories,
        logs: LiveLogs,
        future_logs: FutureLogs,
        checkpointing: Checkpointing,
        config_of: Callable[[str], LogConfig],
    ) -> None:
        self._storage = storage
        self._directories = directories
        self._logs = logs
        self._future_logs = future_logs
        self._checkpointing = checkpointing
        self._config_of = config_of
        self._preferred: dict[Key, str] = {}

    def prefer(self, key: Key, path: str) -> None:
        """A client wants that partition, which is not here yet, in that directory."""
        self._preferred.pop(key, None)
        self._preferred[key] = path
        if len(self._preferred) > PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def get_or_create(self, key: Key, topic_id: bytes, is_new: bool) -> Log:
        """See LogManager.get_or_create."""
        log, known = self._logs.get(key), self._logs.topic_id(key)
        if log is not None and ZERO_UUID != known != topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{key[0]}-{key[1]} has another topic id on the disk")
        if log is None:
            return self._create_somewhere(key, topic_id, is_new)
        try:
            if topic_id not in (ZERO_UUID, known):
                self._write_topic_id(log, topic_id)
        except OSError as error:
            raise self._refusal(log.log_directory, key, error) from error
        return log

    def _create_somewhere(self, key: Key, topic_id: bytes, is_new: bool) -> Log:
        """In the first directory that takes it; one that cannot goes offline, unless it is only full."""
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

    def _candidates(self, key: Key) -> list[str]:
        online = [directory.path for directory in self._directories.online()]
        preferred = self._preferred.pop(key, None)
        return [preferred] if preferred in online else self._logs.emptiest_first(online)

    def _refusal(self, path: str, key: Key, error: OSError) -> KafkaError:
        if error.errno in DISK_FULL:
            return NoRoom(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]}: {error}")
        self._directories.fail(path, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]}: {error}")

    def _create(self, log_directory: str, key: Key, topic_id: bytes) -> Log:
        path = f"{log_directory}/{partition_name(*key)}"
        sync_removals(self._storage)
        try:
            log = open_log(self._storage, path, *key, self._config_of(key[0]), clean=True)
            log.lower_checkpoints()
            if topic_id != ZERO_UUID:
                self._write_topic_id(log, topic_id)
        except OSError:
            with contextlib.suppress(OSError):  # or the next start finds two, when another directory takes it
                self._storage.files.remove_directory(path)
            raise
        self._logs.add(log)
        # With the checkpoint the directory's name gets onto the disk: a replica that is gone after a power failure
        # would be taken for one that never was, in sync and maybe leading.
        self._checkpointing.soon(log_directory)
        logger.info("made %s", path)
        return log

    def _write_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{PARTITION_METADATA}"
        self._storage.files.write_atomically(path, encode_partition_metadata(topic_id), sync=False)
        self._logs.set_topic_id((log.topic, log.partition), topic_id)
