"""Writing batches into a log: as their leader, who gives the offsets, or as a follower, who takes them.

The plain path is one batch of a client: header and checksum looked at, sixteen bytes patched, one write.
"""

import struct
from typing import TYPE_CHECKING

from odradek.broker.log import rewriting
from odradek.broker.log.append import Appended, Origin, checked_fields
from odradek.broker.log.batches import Batch, checksum_of, decode_header
from odradek.broker.log.control import decode_end_of_transaction, learn
from odradek.broker.log.failure import DISK_FULL
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.broker.log.producers.state import CompletedTransaction, RememberedBatch, sequence_after
from odradek.broker.log.rolling import should_roll
from odradek.broker.log.segment import Segment
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MIN_LEGACY_LENGTH,
    TRANSACTIONAL_BIT,
    CorruptBatch,
)
from odradek.world.files import Buffer

if TYPE_CHECKING:
    from odradek.broker.log.log import Log

PATCH = struct.Struct(">qii")
"""Base offset, length, leader epoch: the first 16 bytes of a batch."""


def as_leader(log: "Log", records: memoryview | bytearray, leader_epoch: int, origin: Origin) -> Appended:
    """See Log.append_as_leader."""
    config = log.config
    view = memoryview(records)
    append_time_ms = -1
    if log.rewrites:
        view, append_time_ms = rewriting.rewrite(
            config, f"{log.topic}-{log.partition}", view, log.storage.clock.now_ms()
        )
    first_offset = next_offset = log.log_end_offset
    batches: list[Batch] = []
    at, end = 0, len(view)
    while at < end:
        fields = checked_fields(view, at, config, origin)
        _, length, _, magic, crc, attributes, delta, first_ms, max_ms, producer_id, epoch, sequence, count = fields
        size = length + LOG_OVERHEAD
        if producer_id >= 0:
            duplicate = _check_producer(log, fields, view[at : at + size], origin, len(view) == size)
            if duplicate is not None:
                return Appended(*duplicate[2:], log.log_start_offset, True)
        PATCH.pack_into(view, at, next_offset, length, leader_epoch)
        last_offset = next_offset + delta
        batches.append(
            tuple.__new__(Batch, (
                at, size, next_offset, last_offset, leader_epoch, magic, crc, attributes, first_ms, max_ms,
                producer_id, epoch, sequence, count,
            ))
        )  # fmt: skip
        next_offset = last_offset + 1
        at += size
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch at all")
    if end > config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{end} bytes, segment.bytes is {config.segment_bytes}")
    _write(log, view, batches)
    return Appended(first_offset, next_offset - 1, append_time_ms, log.log_start_offset)


def as_follower(log: "Log", records: Buffer) -> Appended:
    """See Log.append_as_follower."""
    view = memoryview(records)
    batches = _batches_of(view)
    if not batches:
        return Appended(log.log_end_offset, log.log_end_offset - 1, -1, log.log_start_offset)
    first, last = batches[0], batches[-1]
    if first.base_offset < log.log_end_offset:
        _start_within(log, first)
    if last.next_position <= log.config.segment_bytes:
        _write(log, view[: last.next_position], batches)
    else:  # what the leader has accepted is taken, one by one into segments of its own
        for batch in batches:
            _write(log, view[batch.position : batch.next_position], [batch._replace(position=0)])
    return Appended(first.base_offset, last.last_offset, -1, log.log_start_offset)


def _start_within(log: "Log", batch: Batch) -> None:
    """An empty log whose start lies within the leader's first batch begins with that batch (Kafka KAFKA-6361)."""
    start = log.log_start_offset
    if start == log.log_end_offset and batch.magic == 2 and batch.last_offset >= start:
        log.truncate_fully_and_start_at(batch.base_offset)
        log.log_start_offset = start
    else:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic}-{log.partition}: offset {batch.base_offset} does not continue {log.log_end_offset}",
        )


def _check_producer(
    log: "Log", fields: tuple[int, ...], batch: memoryview, origin: Origin, alone: bool
) -> RememberedBatch | None:
    """May the producer write this? The remembered batch when it is a duplicate. Raises KafkaError."""
    attributes, delta, producer_id, epoch, sequence = fields[5], fields[6], fields[9], fields[10], fields[11]
    if not alone:
        raise KafkaError(ErrorCode.INVALID_RECORD, "batches with a producer id have to be appended one by one")
    if attributes & CONTROL_BIT:
        end = decode_end_of_transaction(batch)
        if end is not None:
            log.producers.check_marker(producer_id, epoch, end.coordinator_epoch)
        return None
    last_sequence = sequence_after(sequence, delta)
    return log.producers.check(
        producer_id,
        epoch,
        sequence,
        last_sequence,
        transactional=bool(attributes & TRANSACTIONAL_BIT),
        client=origin is Origin.CLIENT,
    )


def _write(log: "Log", view: memoryview, batches: list[Batch]) -> None:
    """One append to the active segment, or to a new one; then everything that is remembered of batches."""
    first, last, size = batches[0], batches[-1], len(view)
    max_timestamp_ms = first.max_timestamp_ms
    if first is not last:
        max_timestamp_ms = max(batch.max_timestamp_ms for batch in batches)
    try:
        if log.unsettled:
            log.storage.settle(log)
            log.unsettled = False
        segment = log.segments[-1]
        if should_roll(segment, log.config, size, last.last_offset, max_timestamp_ms, log.storage.clock):
            # at the log end, also when a compacted leader's next batch is further on: after a crash a segment that
            # does not begin where the one before ends tells that the end of that one was lost
            far = last.last_offset - log.log_end_offset > LARGEST_RELATIVE_OFFSET
            segment = log.roll(first.base_offset if far else 0)
        position = segment.size_bytes
        segment.append(view)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error}") from error
        raise log.failed(error) from error
    log.log_end_offset = last.last_offset + 1
    log.know_position(first.base_offset, position)
    for batch in batches:
        segment.note(batch.last_offset, position + batch.position, batch.size_bytes, batch.max_timestamp_ms)
        if batch.leader_epoch > log.epochs.latest:
            log.assign_epoch(batch.leader_epoch, batch.base_offset)
        elif batch.magic != 2:
            log.forget_epochs()
        if batch.producer_id >= 0:
            _learn(log, segment, batch, view)
    log.producers.map_end_offset = log.log_end_offset
    if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
        log.flush()


def _learn(log: "Log", segment: Segment, batch: Batch, view: memoryview) -> None:
    completed = learn(log.producers, batch, view[batch.position : batch.next_position])
    if completed is not None:
        _complete(log, segment, completed)


def _complete(log: "Log", segment: Segment, completed: CompletedTransaction) -> None:
    """Note an aborted one in the segment's index; then it holds back readers only until it is replicated."""
    if completed.aborted:
        stable = log.producers.stable_offset_after(completed)
        try:
            segment.transactions.append(AbortedTransaction(*completed[:3], stable))
        except OSError as error:
            raise log.failed(error) from error
    log.producers.complete(completed)


def _batches_of(view: memoryview) -> list[Batch]:
    """The whole batches in fetched bytes, checked. Raises KafkaError CORRUPT_MESSAGE."""
    batches: list[Batch] = []
    at, end, last_offset = 0, len(view), -1
    try:
        while end - at >= LOG_OVERHEAD:
            size = int.from_bytes(view[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD
            if size > end - at:
                break
            if size < LOG_OVERHEAD + MIN_LEGACY_LENGTH:
                raise CorruptBatch(at, f"{size} bytes are too few")
            content = view[at : at + size]
            header = content if size >= HEADER_BYTES else bytes(content) + bytes(HEADER_BYTES)
            batch = decode_header(header, 0, at)
            if checksum_of(content) != batch.crc:
                raise CorruptBatch(at, f"stored checksum {batch.crc} is not that of the batch")
            if batch.base_offset <= last_offset:
                raise CorruptBatch(at, f"offset {batch.base_offset} after {last_offset}")
            last_offset = batch.last_offset
            batches.append(batch)
            at += size
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from None
    return batches
