"""Offsets by time, as ListOffsets asks for them. Source: UnifiedLog.scala and FileRecords of Kafka 3.9."""

from odradek.broker.log.batches import Batch
from odradek.broker.log.local_log import LocalLog
from odradek.broker.log.segment import Segment
from odradek.broker.log.time_index_check import confirm_largest_timestamp, offset_before
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.record_search import find_record

EARLIEST, LATEST = -2, -1

TimestampedOffset = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""


def offset_for_timestamp(log: LocalLog, timestamp_ms: int) -> TimestampedOffset | None:
    """Find the first record, by offset, at or after that time; None when there is none.

    Raises KafkaError CORRUPT_MESSAGE when the log is damaged there; StorageFailure.
    """
    try:
        for segment in log.segments[max(0, log.segment_number(log.log_start_offset)) :]:
            confirm_largest_timestamp(segment)
            if segment.largest_timestamp.timestamp_ms >= timestamp_ms:
                found = _in_segment(log, segment, timestamp_ms)
                if found is not None:
                    return found
    except OSError as error:
        raise log.give_up_directory(error) from error
    except CorruptBatch as bad:
        raise log.corrupt_message(bad) from bad
    return None


def _in_segment(log: LocalLog, segment: Segment, timestamp_ms: int) -> TimestampedOffset | None:
    log.use(segment)
    start = max(offset_before(segment, timestamp_ms), log.log_start_offset)
    for batch in segment.batches_from(start):
        if batch.max_timestamp_ms >= timestamp_ms:
            found = _in_batch(segment, batch, timestamp_ms, log.log_start_offset)
            if found is not None:
                return found
    return None


def _in_batch(segment: Segment, batch: Batch, timestamp_ms: int, start_offset: int) -> TimestampedOffset | None:
    found = find_record(segment.file.pread(batch.size_bytes, batch.position), timestamp_ms, start_offset)
    return None if found is None else (*found, batch.leader_epoch)


def offset_of_max_timestamp(log: LocalLog) -> TimestampedOffset | None:
    """Find the first record that has the largest timestamp of the log (KIP-734); None when no record has one.

    As in Kafka, a record that has been deleted by offset counts while its segment is there. Raises KafkaError
    CORRUPT_MESSAGE when the log is damaged there; StorageFailure.
    """
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
                return _in_batch(segment, batch, largest.timestamp_ms, start_offset=0)
    except OSError as error:
        raise log.give_up_directory(error) from error
    except CorruptBatch as bad:
        raise log.corrupt_message(bad) from bad
    return None


def offsets_before(log: LocalLog, timestamp_ms: int, limit: int) -> list[int]:
    """Return what 0.8's getOffsetsBefore did: offsets where segments begin, and the log end, by time of change.

    Newest first, at most `limit`, changed before `timestamp_ms` (-1 latest, -2 earliest). Raises StorageFailure.
    """
    try:
        points = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in log.segments]
    except OSError as error:
        raise log.give_up_directory(error) from error
    if log.active.size_bytes:
        points.append((log.log_end_offset, log.environment.clock.now_ms()))
    if timestamp_ms == EARLIEST:
        points = points[:1]
    elif timestamp_ms != LATEST:
        while points and points[-1][1] > timestamp_ms:
            points.pop()
    return sorted((offset for offset, _ in points[::-1][: max(limit, 0)]), reverse=True)
