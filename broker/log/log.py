"""The log of one partition replica: appending to it, truncating it, and what it knows beside its records.

Everything here runs on the loop; only the syncs of a flush go to the background. Trouble with the disk is raised as
StorageFailure after the log manager has heard of it; trouble with what a client sent as KafkaError.
Source of the behaviour: UnifiedLog.scala of Kafka 3.9.
"""

import errno
import logging
import struct

from odradek.broker.log import rewriting
from odradek.broker.log.batches import LARGEST_EPOCH, Appended, Batch, Origin, checked_batches, checked_fields
from odradek.broker.log.errors import NO_ROOM, CorruptFile
from odradek.broker.log.flush import Flush
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.local_log import LocalLog
from odradek.broker.log.log_environment import Claims, LogEnvironment
from odradek.broker.log.producer_recovery import rebuild_producers
from odradek.broker.log.producer_snapshots import Snapshots
from odradek.broker.log.producer_state import CompletedTransaction, ProducerState
from odradek.broker.log.segment import Segment
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.broker.log.verifications import UNGUARDED, VerificationGuard
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import LOG_OVERHEAD, CorruptBatch
from odradek.world.files import Buffer

logger = logging.getLogger(__name__)

PATCH = struct.Struct(">qii")
"""Base offset, length, leader epoch: the first 16 bytes of a batch."""


class Log(LocalLog):
    """Log of a partition replica, opened by `recovery.log_opening.open_log`. All offsets are absolute."""

    __slots__ = ("_is_prepared", "_unwritten_epoch", "clean_end_offset", "epochs", "producers", "rewrites")

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: Snapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        super().__init__(
            environment, directory, topic, partition, config, segments, snapshots, log_start_offset, log_end_offset,
            recovery_point,
        )  # fmt: skip
        self.epochs = epochs
        self.producers = producers
        self.clean_end_offset = -1
        """Log end at the last close; -1 when that was not a clean one."""
        self.rewrites = rewriting.needed(config)  # True if the topic has rules that concern each record
        self._is_prepared = self._unwritten_epoch = False

    # appending

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        leader_epoch: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = UNGUARDED,
    ) -> Appended:
        """Give offsets to whole v2 batches and write them with one call, all or none. `records` is patched in place.

        `guard`: from `begin_verification`, for a client's batch that may begin a transaction; None when there is none.
        Raises KafkaError, nothing written: what `checked_fields`, `ProducerState.check_batch` and `rewriting.apply`
        raise, RECORD_LIST_TOO_LARGE when the batches exceed `segment.bytes`, KAFKA_STORAGE_ERROR when the disk is full.
        Raises StorageFailure.
        """
        config = self.config
        view = memoryview(records)
        from_client = origin is Origin.CLIENT
        append_time_ms = -1
        if self.rewrites or (from_client and rewriting.misdated(view)):
            name = f"{self.topic}-{self.partition}"
            view, append_time_ms = rewriting.apply(config, name, records, self.environment.clock.now_ms())
        first_offset = next_offset = self.log_end_offset
        batches: list[Batch] = []
        at, end = 0, len(view)
        while at < end:
            fields = checked_fields(view, at, config, from_client=from_client)
            _, length, _, magic, crc, attributes, delta, first_ms, max_ms, producer_id, epoch, sequence, count = fields
            size = length + LOG_OVERHEAD
            if producer_id >= 0:
                if size != end:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "a batch with a producer id must be appended alone")
                duplicate = self.producers.check_batch(fields, view, client=from_client, guard=guard)
                if duplicate is not None:
                    self.flush_if_due()  # it may have failed when the batch was written
                    _, _, first_offset, last_offset, append_time_ms = duplicate
                    return Appended(first_offset, last_offset, append_time_ms, self.log_start_offset, duplicate=True)
            PATCH.pack_into(view, at, next_offset, length, leader_epoch)
            last_offset = next_offset + delta
            batches.append(  # tuple.__new__: the constructor of a NamedTuple is a call in Python for each batch
                tuple.__new__(Batch, (
                    at, size, next_offset, last_offset, leader_epoch, magic, crc, attributes, first_ms, max_ms,
                    producer_id, epoch, sequence, count,
                ))
            )  # fmt: skip
            next_offset = last_offset + 1
            at += size
        if not batches:
            raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
        if end > config.segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{end} bytes, segment.bytes is {config.segment_bytes}")
        self._write(view, batches)
        return Appended(first_offset, next_offset - 1, append_time_ms, self.log_start_offset)

    def append_as_follower(self, records: Buffer, leader_epoch: int = LARGEST_EPOCH) -> Appended:
        """Write batches with the offsets and epochs that the leader of `leader_epoch` gave them, as many as
        `checked_batches` finds.

        Raises KafkaError, nothing written: what `checked_batches` raises, OFFSET_OUT_OF_RANGE when they do not continue
        this log. Raises StorageFailure.
        """
        view = memoryview(records)
        batches = checked_batches(view, leader_epoch)
        if not batches:
            return Appended(self.log_end_offset, self.log_end_offset - 1, -1, self.log_start_offset)
        first, last = batches[0], batches[-1]
        if first.base_offset < self.log_end_offset:
            self._start_within(first)
        if last.next_position <= self.config.segment_bytes:
            self._write(view[: last.next_position], batches)
        else:  # more than a segment takes, but the leader has accepted it: one by one, so that segments can be rolled
            for batch in batches:
                self._write(view[batch.position : batch.next_position], [batch._replace(position=0)])
        return Appended(first.base_offset, last.last_offset, -1, self.log_start_offset)

    def _start_within(self, batch: Batch) -> None:
        """Begin an empty log with the leader's first batch when the log's start lies within that (KAFKA-6975)."""
        start = self.log_start_offset
        if start == self.log_end_offset and batch.magic == 2 and batch.last_offset >= start:
            self.truncate_fully_and_start_at(batch.base_offset)
            self.log_start_offset = start
        else:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic}-{self.partition}: offset {batch.base_offset} does not continue {self.log_end_offset}",
            )

    def _write(self, view: memoryview, batches: list[Batch]) -> None:
        """Append to the active segment, or to a new one; then note the batches in indexes, epochs and producers."""
        first, last, size = batches[0], batches[-1], len(view)
        max_timestamp_ms = first.max_timestamp_ms if first is last else max(one.max_timestamp_ms for one in batches)
        if self.environment.full_disks:
            self.environment.check_room(self.directory)
        try:
            if not self._is_prepared:
                self.prepare()
            segment = self.segments[-1]
            if segment.is_full(self.config, size, last.last_offset, max_timestamp_ms, self.environment.clock):
                # at the log end, even if a compacted leader's next batch is further on: after a crash, a segment that
                # does not begin where the one before it ends means that the end of that one was lost
                far = last.last_offset - self.log_end_offset > LARGEST_RELATIVE_OFFSET
                segment = self.roll(first.base_offset if far else 0)
            position = segment.size_bytes
            segment.append(view)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise self.environment.refuse_append(self.directory, error) from error
            raise self.give_up_directory(error) from error
        self.log_end_offset = last.last_offset + 1
        self._remember_position(first.base_offset, position)
        for batch in batches:
            segment.note(batch.last_offset, position + batch.position, batch.size_bytes, batch.largest_timestamp_ms)
            if batch.leader_epoch > self.epochs.latest:
                self.assign_epoch(batch.leader_epoch, batch.base_offset)
            elif batch.magic != 2:
                self._forget_epochs()
            if batch.producer_id >= 0:
                completed = self.producers.append(batch, view[batch.position : batch.next_position])
                if completed is not None:
                    self._complete(segment, completed)
        self.producers.map_end_offset = self.log_end_offset
        self.flush_if_due()

    def _complete(self, segment: Segment, completed: CompletedTransaction) -> None:
        """Note that a transaction has ended, an aborted one in the segment's index too. Raises StorageFailure."""
        if completed.aborted:
            stable = self.producers.stable_offset_after(completed)
            try:
                segment.transactions.append_or_put_off(AbortedTransaction(*completed[:3], stable))
            except OSError as error:
                raise self.give_up_directory(error) from error
        self.producers.complete(completed)

    def prepare(self) -> None:
        """Get ready for an append: lower checkpointed offsets that are above the log's own, and write the leader epoch
        that has no record yet. Raises OSError, StorageFailure."""
        limits = self.recovery_point, self.log_start_offset, self.cleaned_to, self.log_end_offset
        self.environment.lower_checkpoints(self.log_directory, Claims(self.topic, self.partition, *limits))
        if self._unwritten_epoch:
            self.write_epochs()
        self._is_prepared = True

    def roll(self, first_offset: int = 0) -> Segment:
        """Begin a new segment at the log end, or at `first_offset` if that is further on. Raises OSError."""
        base_offset = max(first_offset, self.log_end_offset)
        former = self.active
        if former.base_offset == base_offset:
            return former
        former.become_inactive()
        self.producers.map_end_offset = base_offset
        self.snapshots.write(self.producers)
        segment = self.add_segment(base_offset)
        self.use(former)
        self._flush_in_background()
        return segment

    # truncating

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on, a batch that it falls into included; tell whether there was anything.

        The last segment goes first, and one is cut only when those after it are gone for good: so a crash leaves a
        prefix of the log. File and directory are synced before the next append, so that no crash can bring the
        dropped end back beside the data that took its place.

        Raises StorageFailure when the disk fails: the directory is offline then. Raises KafkaError CORRUPT_MESSAGE when
        the segment is damaged where it is to be cut, StorageFailure when too few descriptors are left: in these two
        cases the log is as it was, and the directory stays online.
        """
        assert offset >= 0, offset
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self.write_epochs()
            return False
        logger.info("%s: truncating to offset %d", self, offset)
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        failed = self.unreadable
        try:
            position, end_offset = self.segments[self.segment_number(offset)].place_of_cut(offset)
            if end_offset < self.log_start_offset:
                self.truncate_fully_and_start_at(self.log_start_offset)
                return True
            self.check_descriptors()
            failed = self.give_up_directory  # from here on a failure leaves the log half cut
            gone = [segment for segment in reversed(self.segments) if segment.base_offset > offset]
            if gone:
                self.remove_segments(gone)
                self.environment.files.sync_directory(self.directory)
            self.active.truncate_at(position, end_offset, self.environment.clock.now_ms())
            self.log_end_offset = end_offset
            self.segments_changed()
            self.environment.open_segments.forget(self.active)
            self._went_back_to(self.log_end_offset)
            self.producers = rebuild_producers(self.environment, self.segments, self.snapshots, self.log_end_offset)
            self.active.sync()
            self.environment.files.sync_directory(self.directory)
        except (CorruptBatch, CorruptFile) as bad:
            if offset > self.log_start_offset:  # else nothing is to stay, and what is damaged need not be read
                raise self.corrupt_message(bad) from bad
            self.truncate_fully_and_start_at(offset)
        except OSError as error:
            raise failed(error) from error
        if self.epochs.truncate_from_end(self.log_end_offset):
            self.write_epochs()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the next batch comes at `offset`. Raises StorageFailure, as `truncate_to` does."""
        self.check_descriptors()
        logger.info("%s: starting over at offset %d", self, offset)
        goes_back = offset < self.log_start_offset
        try:
            self.remove_segments(self.segments[::-1])
            self.add_segment(offset)
            self.snapshots.remove_all()
            self.environment.files.sync_directory(self.directory)
            self.environment.files.sync_directory(self.log_directory)
            self.log_start_offset = self.log_end_offset = offset
            self._went_back_to(0)
            self.recovery_point = offset
            if goes_back:  # a checkpoint with the higher start would hide what the leader has before it
                self.prepare()
        except OSError as error:
            raise self.give_up_directory(error) from error
        self.producers = ProducerState(offset)
        self.epochs.clear()
        self.write_epochs()

    def _went_back_to(self, offset: int) -> None:
        """Note that nothing from `offset` on is on the disk any more, even if a running flush believes otherwise."""
        self.history_changes += 1
        self._is_prepared = False
        self.lowest_end = min(self.lowest_end, offset)
        if self.recovery_point > offset or self.cleaned_to > offset:
            self.recovery_point = min(self.recovery_point, offset)
            self.cleaned_to = min(self.cleaned_to, offset)
            self.environment.truncated(self.log_directory)

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide records before `offset` (DeleteRecords, the leader's log start); whole segments go with the next
        retention. The caller has checked it against the high watermark. Raises KafkaError OFFSET_OUT_OF_RANGE above
        the log end."""
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"log start {offset} after log end {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.write_epochs()

    # leader epochs and transactions

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that the leader epoch `epoch` begins at `start_offset`. Raises StorageFailure.

        At the log end the epoch is written with its first record: a start ignores an epoch without records."""
        if self.epochs.assign(epoch, start_offset):
            if start_offset == self.log_end_offset:
                self._unwritten_epoch, self._is_prepared = True, False
            else:
                self.write_epochs()

    def _forget_epochs(self) -> None:
        """Forget all leader epochs after a message of format 0 or 1, which has none: histories cannot be compared.

        A follower then goes back to its high watermark (UnifiedLog.append). Raises StorageFailure.
        """
        if self.epochs.latest >= 0:
            self.epochs.clear()
            self.write_epochs()

    def write_epochs(self) -> None:
        """Write the leader epochs to their file, which is synced with the next flush. Raises StorageFailure."""
        self._unwritten_epoch = False
        try:
            self.epoch_file.write(self.epochs.entries())
        except OSError as error:
            raise self.give_up_directory(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch up to `epoch`; (-1, -1) when that cannot be told."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset before which all is replicated and of a known outcome (read_committed ends there)."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(high_watermark, max(unstable, self.log_start_offset))

    def begin_verification(self, producer_id: int, epoch: int, first_sequence: int) -> VerificationGuard | None:
        """Return a guard while the coordinator is asked about the producer's transaction; None when it is open here."""
        return self.producers.begin_verification(producer_id, epoch, first_sequence, self.environment.clock.now_ms())

    def is_verified(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Tell whether a verification still stands (ProducerState.is_verified); False once the log is closed.

        The present state of the producers is asked, not the one that gave out the guard: a truncation replaces it.
        """
        return not self.closed and self.producers.is_verified(producer_id, guard)

    # closing, and settings

    def begin_close(self) -> Flush | None:
        """Write what is only in memory, with a snapshot of the producers: a clean shutdown, after which the next start
        has nothing to rebuild. Return what to sync; None if nothing is: the log is closed. Raises StorageFailure."""
        unchanged = self.log_end_offset == self.clean_end_offset and not self.history_changes
        if not self.log_end_offset or (unchanged and not self.epoch_file.unsynced):
            self.environment.make_index_files(self.active.path(""))
            self.abandon()  # it has never held a record, or is as it was opened after the last clean shutdown
            return None
        try:
            self.producers.map_end_offset = self.log_end_offset
            self.snapshots.write(self.producers)
            self.active.become_inactive()
            flush = self._files_to_sync(closing=True)
            if flush.offset < self.log_end_offset:  # a start after a clean shutdown would not look for what is missing
                raise OSError(errno.ENOSPC, "no space for leader epochs or aborted transactions", self.directory)
            return flush
        except OSError as error:
            raise self.give_up_directory(error) from error

    def end_close(self, flush: Flush) -> None:
        """Close the log; `flush`, from `begin_close`, has been synced."""
        self._flushed(flush)
        self.abandon()

    def configure(self, config: LogConfig) -> None:
        """Take other settings of the topic from now on."""
        self.config = config
        self.rewrites = rewriting.needed(config)
