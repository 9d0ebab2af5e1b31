"""Questions about segments and times, and making a segment. Source: UnifiedLog.scala and FileRecords of Kafka 3.9."""

from typing import TYPE_CHECKING

from odradek.broker.log.batches import Batch
from odradek.broker.log.config import LogConfig
from odradek.broker.log.index_check import confirm_largest_timestamp, offset_before
from odradek.broker.log.segment import Segment
from odradek.broker.log.segment_files import SUFFIXES
from odradek.broker.log.storage import Storage
from odradek.protocol.conversion import records_of
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch

if TYPE_CHECKING:
    from odradek.broker.log.log import Log

EARLIEST, LATEST = -2, -1

TimestampedOffset = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""


def new_segment(storage: Storage, directory: str, base_offset: int, config: LogConfig) -> Segment:
    """An empty segment with its files; what a crash left of others by that name goes. Raises OSError."""
    segment = Segment(storage.files, directory, base_offset, config, storage.clock.now_ms())
    if config.segment_jitter_ms:
        segment.roll_jitter_ms = storage.random.randrange(min(config.segment_jitter_ms, config.segment_ms) or 1)
    for suffix in SUFFIXES:
        if storage.files.exists(segment.path(suffix)):
            storage.files.remove(segment.path(suffix))
    segment.create(config.segment_bytes)
    return segment


def first_at_or_after(log: "Log", timestamp_ms: int) -> TimestampedOffset | None:
    """The first record of the log, by offset, whose timestamp is not before `timestamp_ms`."""
    try:
        for segment in log.segments[max(0, log.segment_number(log.log_start_offset)) :]:
            confirm_largest_timestamp(segment)
            if segment.largest_timestamp.timestamp_ms >= timestamp_ms:
                found = _in_segment(log, segment, timestamp_ms)
                if found is not None:
                    return found
    except OSError as error:
        raise log.failed(error) from error
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic}-{log.partition}: {bad}") from bad
    return None


def _in_segment(log: "Log", segment: Segment, timestamp_ms: int) -> TimestampedOffset | None:
    log.use(segment)
    start = max(offset_before(segment, timestamp_ms), log.log_start_offset)
    for batch in segment.batches_from(start):
        if batch.max_timestamp_ms >= timestamp_ms:
            found = _in_batch(segment, batch, timestamp_ms, log.log_start_offset)
            if found is not None:
                return found
    return None


def _in_batch(segment: Segment, batch: Batch, timestamp_ms: int, start_offset: int) -> TimestampedOffset | None:
    records = records_of(segment.file.pread(batch.size_bytes, batch.position))
    for timestamp, offset in zip(records.timestamps, records.offsets, strict=True):
        if timestamp >= timestamp_ms and offset >= start_offset:
            return timestamp, offset, batch.leader_epoch
    return None


def with_max_timestamp(log: "Log") -> TimestampedOffset | None:
    """The first record that has the largest timestamp of the log (KIP-734)."""
    try:
        for segment in log.segments:
            confirm_largest_timestamp(segment)
        segment = max(log.segments, key=lambda segment: segment.largest_timestamp.timestamp_ms)
        largest = segment.largest_timestamp
        if largest.timestamp_ms < 0:
            return None
        log.use(segment)
        for batch in segment.batches_from(largest.offset):
            if batch.max_timestamp_ms == largest.timestamp_ms:
                return _in_batch(segment, batch, largest.timestamp_ms, log.log_start_offset)
    except OSError as error:
        raise log.failed(error) from error
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic}-{log.partition}: {bad}") from bad
    return None


def segment_offsets_before(log: "Log", timestamp_ms: int, limit: int) -> list[int]:
    """What 0.8's getOffsetsBefore answered: offsets where segments begin, and the log end, by time of change."""
    try:
        points = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in log.segments]
    except OSError as error:
        raise log.failed(error) from error
    if log.active.size_bytes:
        points.append((log.log_end_offset, log.storage.clock.now_ms()))
    if timestamp_ms == EARLIEST:
        points = points[:1]
    elif timestamp_ms != LATEST:
        while points and points[-1][1] > timestamp_ms:
            points.pop()
    return sorted((offset for offset, _ in points[::-1][: max(limit, 0)]), reverse=True)
