"""Offsets by time, as ListOffsets asks for them. Source: UnifiedLog.scala and FileRecords of Kafka 3.9.

A batch may take long to be searched, and so that is done in steps. Nothing is read from a file after a pause but by
looking for it anew.
"""

from typing import NamedTuple

from odradek.broker.log.batches import Batch
from odradek.broker.log.local_log import LocalLog
from odradek.broker.log.segment import Segment
from odradek.broker.log.time_index_check import confirm_largest_timestamp, offset_before
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.record_search import find_record
from odradek.protocol.steps import Steps

TimestampedOffset = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""


class _Place(NamedTuple):
    """A batch that may hold the record looked for. Its bytes are a copy: its segment may be gone by the time."""

    data: bytes
    leader_epoch: int
    next_offset: int


def find_offset(log: LocalLog, timestamp_ms: int) -> Steps[TimestampedOffset | None]:
    """Find the first record, by offset, at or after that time; None when there is none.

    Raises KafkaError CORRUPT_MESSAGE when the log is damaged there; StorageFailure.
    """
    offset = log.log_start_offset
    while (place := _at_or_after(log, timestamp_ms, offset)) is not None:
        found = yield from _in_batch(log, place, timestamp_ms, log.log_start_offset)
        if found is not None:
            return found
        offset = place.next_offset
    return None


def _at_or_after(log: LocalLog, timestamp_ms: int, offset: int) -> _Place | None:
    """Find the first batch with that offset or behind it that has a record at or after that time."""
    try:
        for segment in log.segments[max(0, log.segment_number(offset)) :]:
            confirm_largest_timestamp(segment)
            if segment.largest_timestamp.timestamp_ms < timestamp_ms:
                continue
            log.use(segment)
            for batch in segment.batches_from(max(offset_before(segment, timestamp_ms), offset)):
                if batch.max_timestamp_ms >= timestamp_ms:
                    return _place(segment, batch)
    except OSError as error:
        raise log.unreadable(error) from error
    except CorruptBatch as bad:
        raise log.corrupt_message(bad) from bad
    return None


def _place(segment: Segment, batch: Batch) -> _Place:
    data = segment.file.pread(batch.size_bytes, batch.position)
    return _Place(data, batch.leader_epoch, batch.last_offset + 1)


def _in_batch(log: LocalLog, place: _Place, timestamp_ms: int, start_offset: int) -> Steps[TimestampedOffset | None]:
    try:
        found = yield from find_record(place.data, timestamp_ms, start_offset)
    except CorruptBatch as bad:
        raise log.corrupt_message(bad) from bad
    return None if found is None else (*found, place.leader_epoch)


def find_max_timestamp(log: LocalLog) -> Steps[TimestampedOffset | None]:
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
        batches = segment.batches_from(largest.offset)
        place = next((_place(segment, batch) for batch in batches if batch.max_timestamp_ms == largest[0]), None)
    except OSError as error:
        raise log.unreadable(error) from error
    except CorruptBatch as bad:
        raise log.corrupt_message(bad) from bad
    return None if place is None else (yield from _in_batch(log, place, largest.timestamp_ms, start_offset=0))


def offsets_before(log: LocalLog, timestamp_ms: int, limit: int) -> list[int]:
    """Return what 0.8's getOffsetsBefore did: offsets where segments begin, and the log end, by time of change.

    Newest first, at most `limit`, changed before `timestamp_ms` (-1 latest, -2 earliest). Raises StorageFailure.
    """
    try:
        points = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in log.segments]
    except OSError as error:
        raise log.unreadable(error) from error
    if log.active.size_bytes:
        points.append((log.log_end_offset, log.environment.clock.now_ms()))
    if timestamp_ms == EARLIEST_TIMESTAMP:
        points = points[:1]
    elif timestamp_ms != LATEST_TIMESTAMP:
        while points and points[-1][1] > timestamp_ms:
            points.pop()
    return sorted((offset for offset, _ in points[::-1][: max(limit, 0)]), reverse=True)
