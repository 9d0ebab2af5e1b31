"""Replicas that move to another log directory of this broker (KIP-113): which, in which order, and the work in turns.

A client's AlterReplicaLogDirs begins such a move, or a restart finds it half done. Kafka:
ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread, each of which copies one partition at a time.
"""

import logging
from collections.abc import Mapping

from odradek.broker.log.directories.directory_files import LONGEST_NAME, future_name
from odradek.broker.log.errors import NO_ROOM
from odradek.broker.log.log_manager import LogManager
from odradek.broker.replication.log_copy import LogCopy
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import RateLimit
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock

logger = logging.getLogger(__name__)

RETRY_MS = 1000.0
"""Pause after a full disk, or when no file could be opened."""
THROTTLED_PAUSE_MS = 200.0
"""Pause before the limit is looked at again."""


class DirectoryMoves:
    """Moves that wait and moves that run, of the partitions of one broker."""

    def __init__(
        self,
        partitions: Mapping[PartitionKey, Partition],
        logs: LogManager,
        clock: Clock,
        limit: RateLimit,
        at_once: int | None = None,
    ) -> None:
        """Take the replica manager's `partitions`, the `limit` of what is copied per second
        (`replica.alter.log.dirs.io.max.bytes.per.second`), and how many moves go on at a time
        (`num.replica.alter.log.dirs.threads`; None: as many as there are directories)."""
        self._partitions, self._logs, self._clock, self._limit = partitions, logs, clock, limit
        self._at_once = len(logs.directories) if at_once is None else at_once
        self._waiting: dict[PartitionKey, LogCopy] = {}
        self._running: dict[PartitionKey, LogCopy] = {}
        self._without_room: dict[PartitionKey, LogCopy] = {}
        """Moves to a disk that is full: they wait for a while before they wait with the others."""

    # ---- what is wanted

    def alter(self, topic: str, index: int, path: str, *, exists: bool) -> ErrorCode:
        """Move a replica to `path`, one of `log.dirs`; return the error for the client.

        `exists`: the cluster has that partition. A replica that is not here is made in that directory when it comes.
        """
        directory = self._logs.directories.get(path)
        if len(future_name(topic, index, 0)) > LONGEST_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        partition = self._partitions.get((topic, index))
        if directory.offline is not None or (partition is not None and partition.offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None:
            self._logs.prefer(topic, index, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            self._begin(partition, path)
        except KafkaError as error:
            logger.warning("%s cannot move to %s: %s", partition, path, error)
            return error.code
        return ErrorCode.NONE

    def _begin(self, partition: Partition, path: str) -> None:
        """Begin, or go on, to copy a partition's log into another directory. Raises KafkaError."""
        topic, index = partition.topic, partition.index
        future = self._logs.future_log(topic, index)
        if future is not None and future.log_directory != path:
            self.forget(topic, index)
            self._logs.discard_future_log(topic, index)
            future = None
        if partition.log.log_directory != path:
            if future is None:
                self._logs.create_future_log(topic, index, path)
                logger.info("%s moves from %s to %s", partition, partition.log.log_directory, path)
            self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Go on with the move of a partition whose future log is there, if there is one and it is not under way."""
        key = (partition.topic, partition.index)
        future = self._logs.future_log(*key)
        if future is not None and all(key not in some for some in self._moves()):
            self._waiting[key] = LogCopy(partition.log, future, self._clock)
            self._run_next()

    def forget(self, topic: str, index: int) -> None:
        """Forget the move of a partition that goes, or moves elsewhere; its future log is the caller's affair. Harmless
        without one."""
        for some in self._moves():
            some.pop((topic, index), None)
        self._run_next()

    def directory_failed(self) -> None:
        """Drop the moves that have lost one of their logs."""
        for key, copy in [one for some in self._moves() for one in some.items()]:
            if copy.source.closed or copy.target.closed:
                self.forget(*key)

    def _moves(self) -> tuple[dict[PartitionKey, LogCopy], ...]:
        return self._waiting, self._running, self._without_room

    # ---- the work

    def _run_next(self) -> None:
        """Begin what may begin, in the order of the partitions."""
        while self._waiting and len(self._running) < self._at_once:
            key = min(self._waiting)
            copy = self._running[key] = self._waiting.pop(key)
            self._soon(key, copy)

    def _soon(self, key: PartitionKey, copy: LogCopy) -> None:
        self._clock.call_soon(lambda: self._turn(key, copy))

    def _turn(self, key: PartitionKey, copy: LogCopy) -> None:
        if self._running.get(key) is not copy:
            return
        if copy.source.closed or copy.target.closed:
            self.forget(*key)
            return
        if self._limit.exceeded:
            self._clock.call_later(THROTTLED_PAUSE_MS, lambda: self._turn(key, copy))
            return
        before = copy.copied_bytes
        try:
            if copy.advance(then=lambda: self._soon(key, copy)):
                self._promote(key)
            self._limit.count(copy.copied_bytes - before)
        except KafkaError as error:
            self._trouble(key, copy, error)
        except Exception:  # a bug of ours: this one does not go on, the others do
            logger.exception("%s does not go on", copy)
            self.forget(*key)

    def _promote(self, key: PartitionKey) -> None:
        """Let the future log take the place of the partition's log."""
        partition = self._partitions[key]
        partition.log = self._logs.promote_future_log(*key)
        logger.info("%s is in %s now", partition, partition.log.log_directory)
        self.forget(*key)

    def _trouble(self, key: PartitionKey, copy: LogCopy, error: KafkaError) -> None:
        """Try again later when the disk is full or no file can be opened; else only an operator can help."""
        cause = error.__cause__
        goes_on = self._running.get(key) is copy  # else a directory has failed
        if goes_on and isinstance(cause, OSError) and cause.errno in NO_ROOM:
            logger.warning("%s waits for space: %s", copy, error)
            self._without_room[key] = self._running.pop(key)
            self._clock.call_later(RETRY_MS, lambda: self._wait_again(key, copy))
            self._run_next()
        else:
            logger.error("%s stops until it is asked for again, or the broker starts again: %s", copy, error)
            self.forget(*key)

    def _wait_again(self, key: PartitionKey, copy: LogCopy) -> None:
        if self._without_room.get(key) is copy:
            self._waiting[key] = self._without_room.pop(key)
            self._run_next()
