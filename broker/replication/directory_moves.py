"""Replicas that move to another log directory of this broker (KIP-113): which, in which order, and the work in turns.

A client's AlterReplicaLogDirs begins one, or a restart finds it half done. Roles and leaders do not matter: what is
copied is our own log, whatever that takes or loses meanwhile. Kafka: ReplicaManager.alterReplicaLogDirs,
ReplicaAlterLogDirsThread, each of which copies one partition at a time.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.broker.log.directories.directory_files import LONGEST_NAME, future_name
from odradek.broker.log.errors import NO_ROOM
from odradek.broker.log.local_log import NEVER_TRUNCATED
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import RateLimit
from odradek.broker.replication.truncation import drop_open_transactions, truncation_offset
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import LOG_OVERHEAD
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock
from odradek.world.files import FileRange
from odradek.world.time_slices import SLICE_MS

logger = logging.getLogger(__name__)

READ_BYTES = 4 << 20
"""Size of one read in the background, which may be appended in several turns."""
PIECE_BYTES = 64 << 10
"""Size of one append."""
END_BYTES_MIN, END_BYTES_MAX = 64 << 10, 1 << 20
"""Size of one turn at the end: it grows when the source has been faster."""
UNSYNCED_BYTES_MAX = 16 << 20
"""Limit of what is written before it is flushed, so that the kernel never blocks us for what we have written."""
PATIENT_FLUSHES = 3
"""Number of flushes in the background, with the source flushed further meanwhile, after which one is waited for."""
RETRY_MS = 1000.0
"""Pause after a full disk, or when no file could be opened."""
THROTTLED_PAUSE_MS = 200.0
"""Pause before the limit is looked at again."""


class Place(NamedTuple):
    """Place in the target that bytes were read for; if it has changed when they arrive, they are of no use."""

    offset: int
    source_changes: int
    target_changes: int


class Arrived(NamedTuple):
    """Bytes that are to be appended at `place`; `at_end`: they went up to the end of the source."""

    place: Place
    data: memoryview
    at_end: bool


class LogCopy:
    """Work that makes `target` a copy of `source`, which is written, truncated and trimmed meanwhile.

    Most bytes are read in the background, for they may have to come from the disk. The end is read at once, so that at
    the end of a turn the two logs can be the same.
    """

    def __init__(self, source: Log, target: Log, clock: Clock) -> None:
        self.source, self.target = source, target
        self._clock = clock
        self._begun = False
        self._arrived: Arrived | None = None
        self._end_bytes = END_BYTES_MIN
        self.copied_bytes = 0
        """Bytes copied so far, those that were cut off again included."""
        self._unsynced_bytes = 0
        self._near_end = False
        self._flushes = 0

    def __repr__(self) -> str:
        return f"<copy of {self.source} to {self.target.directory}, which ends at {self.target.log_end_offset}>"

    def advance(self, then: Callable[[], object]) -> bool:
        """Copy some more. Whether the target is a whole copy now; if not, `then` is called when it is time to go on.

        Raises KafkaError: StorageFailure; KAFKA_STORAGE_ERROR when the target's disk is full; CORRUPT_MESSAGE.
        """
        self._agree()
        if self._arrived is not None:
            self._take_arrived(self._arrived)
        elif self._near_end:
            self._copy_end()
        if self.target.log_end_offset == self.source.log_end_offset:
            if self._is_durable():
                return True
            self._flush(then)
        elif self._unsynced_bytes >= UNSYNCED_BYTES_MAX:
            self._flush(then)
        elif self._near_end or self._arrived is not None:
            self._clock.call_soon(then)
        else:
            self._read_in_background(then)
        return False

    # ---- keeping up with what becomes of the source

    def _agree(self) -> None:
        """Cut from the target what the source does not have, or not any more."""
        source, target = self.source, self.target
        if not self._begun:
            self._agree_by_epochs()
            self._begun = True
        elif source.lowest_end < target.log_end_offset:
            target.truncate_to(source.lowest_end)
        source.lowest_end = NEVER_TRUNCATED
        if target.log_end_offset > source.log_end_offset:
            target.truncate_to(source.log_end_offset)
        if target.log_end_offset < source.log_start_offset:
            target.truncate_fully_and_start_at(source.log_start_offset)
        target.advance_log_start_offset(source.log_start_offset)

    def _agree_by_epochs(self) -> None:
        """Truncate a target from before a restart as a follower does; without leader epochs it begins anew.

        If the source is compacted, or was, the markers of the transactions that are open in the target may be gone from
        it: then these go from the target first. Otherwise that would be copied again for nothing, and all of the log
        where some transaction is always open.
        """
        source, target = self.source, self.target
        if source.config.compacts or source.cleaned_to:
            drop_open_transactions(target)
        while True:
            offset = truncation_offset(
                *source.end_offset_for_epoch(target.epochs.latest),
                own_end_offset_for=target.end_offset_for_epoch,
                log_end_offset=target.log_end_offset,
                high_watermark=0,
            )
            if offset >= target.log_end_offset:
                return
            target.truncate_to(offset)

    # ---- copying

    def _read(self, max_bytes: int) -> FileRange | None:
        """Find what comes next; None when the source has no batch between the target's end and its own."""
        source, offset = self.source, self.target.log_end_offset
        found = source.read(offset, max_bytes, source.log_end_offset, whole_first_batch=True)
        return found.records if isinstance(found.records, FileRange) else None

    def _place(self) -> Place:
        return Place(self.target.log_end_offset, self.source.history_changes, self.target.history_changes)

    def _read_in_background(self, then: Callable[[], object]) -> None:
        records, place = self._read(READ_BYTES), self._place()
        if records is None:
            self._skip_to_end()
            self._clock.call_soon(then)
            return

        def done(result: bytes | OSError) -> None:
            if isinstance(result, OSError):
                self.source.give_up_directory(result)
            else:
                at_end = len(result) < READ_BYTES and self.source.active.base_offset <= place.offset
                self._arrived = Arrived(place, memoryview(result), at_end)
                then()

        self.source.environment.background.run(records.read, done)

    def _take_arrived(self, arrived: Arrived) -> None:
        """Append it until others have to have the loop."""
        self._arrived = None
        if arrived.place != self._place():
            return
        data = arrived.data
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._clock.monotonic_ms() < until_ms:
            data = data[self._append(data) :]
            if not whole_batches(data, 1):  # the rest is the beginning of one
                self._near_end = arrived.at_end
                return
        self._arrived = Arrived(self._place(), data, arrived.at_end)

    def _copy_end(self) -> None:
        """Copy the end of the log on the loop: it was written lately, so it is read from memory."""
        source, target, left = self.source, self.target, self._end_bytes
        while left > 0 and target.log_end_offset < source.log_end_offset:
            records = self._read(left)
            if records is None:
                self._skip_to_end()
                return
            try:
                data = memoryview(records.read())
            except OSError as error:
                raise source.give_up_directory(error) from error
            left -= self._append(data)
        if target.log_end_offset < source.log_end_offset:
            self._end_bytes = min(2 * self._end_bytes, END_BYTES_MAX)
            self._near_end = False

    def _append(self, data: memoryview) -> int:
        """Append a piece of it; returns how many bytes that were."""
        size = whole_batches(data, PIECE_BYTES)
        if not size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.source}: no batch at {self.target.log_end_offset}")
        self.target.append_as_follower(data[:size])
        self.copied_bytes += size
        self._unsynced_bytes += size
        return size

    def _skip_to_end(self) -> None:
        """Skip what compaction has taken: the last batches of a segment, before one that is empty."""
        target, offset = self.target, self.source.log_end_offset
        try:
            target.roll(offset)
        except OSError as error:
            raise target.unreadable(error) from error
        target.log_end_offset = offset

    # ---- what the source has on the disk, the target must have there

    def _is_durable(self) -> bool:
        if self.target.recovery_point >= self.source.recovery_point:
            return True
        if self._flushes < PATIENT_FLUSHES:
            return False
        self.target.flush()
        return True

    def _flush(self, then: Callable[[], object]) -> None:
        self._unsynced_bytes = 0
        if self.target.log_end_offset == self.source.log_end_offset:
            self._flushes += 1
        self.target.flush_in_background(then)


def whole_batches(data: memoryview, limit: int) -> int:
    """Count the bytes of the first whole batches: as many as fit in `limit`, at least one; 0 when there is none."""
    size = 0
    while len(data) - size >= LOG_OVERHEAD:
        after = size + LOG_OVERHEAD + int.from_bytes(data[size + 8 : size + LOG_OVERHEAD], "big", signed=True)
        if after > len(data) or (size and after > limit) or after <= size:
            break
        size = after
    return size


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
        """Move a replica to `path`, one of `log.dirs`; the answer for the client.

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
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            logger.warning("%s waits for space: %s", copy, error)
            self._without_room[key] = self._running.pop(key)
            self._clock.call_later(RETRY_MS, lambda: self._wait_again(key, copy))
            self._run_next()
        else:
            logger.error("%s does not continue: %s", copy, error)
            self.forget(*key)

    def _wait_again(self, key: PartitionKey, copy: LogCopy) -> None:
        if self._without_room.get(key) is copy:
            self._waiting[key] = self._without_room.pop(key)
            self._run_next()
