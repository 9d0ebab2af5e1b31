"""Offsets by time, as ListOffsets asks for them. Source: UnifiedLog.scala and FileRecords of Kafka 3.9.

Searching a batch may take long, so it is done in steps, and nothing behind the record found is looked at. After a pause
a segment is looked up again before anything is read from its file.
"""

from typing import Final, NamedTuple

from odradek.broker.log.batches import Batch
from odradek.broker.log.local_log import LocalLog
from odradek.broker.log.segment import Segment
from odradek.broker.log.time_index_check import confirm_largest_timestamp, offset_before
from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.message_set import add_records, read_message
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.protocol.primitives import SIGNED, Buffer
from odradek.protocol.record_batch import MAGIC_AT, MAGIC_V2, BatchHeader, CorruptBatch, read_header
from odradek.protocol.records import Columns, read_wide, stored_section
from odradek.protocol.steps import STEP_RECORDS, Steps

TimestampedOffset = tuple[int, int, int]
"""Timestamp in ms, offset and leader epoch of a record."""


class _Place(NamedTuple):
    """A batch that may hold the record looked for. `data` is a copy: the segment may be gone when it is searched."""

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


Found = tuple[int, int] | None
"""Timestamp in ms and offset of a record; None when there is none."""
HEAD_BYTES: Final = 5 + 1 + 10 + 5
"""Most that comes before a record's key: its length, attributes, and the differences of timestamp and offset."""


def find_record(batch: Buffer, timestamp_ms: int, start_offset: int) -> Steps[Found]:
    """Return the first record at or after a time and an offset.

    `batch`: the whole of one batch, or one message of an old format. Only a piece of what a batch decompresses to is in
    memory at a time. Raises CorruptBatch.
    """
    if batch[MAGIC_AT] == MAGIC_V2:
        try:
            return (yield from _find(batch, read_header(batch), timestamp_ms, start_offset))
        except (IndexError, MalformedMessage) as error:
            raise CorruptBatch(0, f"records: {error}") from None
    columns = Columns([], [], [], [])
    yield from add_records(columns, read_message(batch, 0, len(batch)))
    found = zip(columns.timestamps, columns.offsets, strict=True)
    return next((one for one in found if one[0] >= timestamp_ms and one[1] >= start_offset), None)


def _find(batch: Buffer, header: BatchHeader, timestamp_ms: int, start_offset: int) -> Steps[Found]:
    """Find the record in a batch of magic 2. Raises IndexError, MalformedMessage."""
    base_offset, base_ms = header.base_offset, header.base_timestamp
    left = header.record_count
    pieces = compression.pieces(header.codec, stored_section(batch, 0, header))
    data, at, more = b"", 0, True
    while left:
        piece = next(pieces, None)
        if piece is None:
            more = False
        elif at < len(data):
            data, at = data[at:] + piece, 0
        else:  # within the value of a record that is passed over
            data, at = piece, at - len(data)
        last = len(data) - HEAD_BYTES if more else len(data)
        while left and at <= last:
            number = data[at]
            size, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
            if size < 0:
                raise MalformedMessage(f"a record of {size} bytes")
            end = at + size
            number = data[at + 1]  # behind the attributes
            delta_ms, at = (SIGNED[number], at + 2) if number < 0x80 else read_wide(data, at + 1, number)
            at_ms = header.max_timestamp if header.is_log_append_time else base_ms + delta_ms
            if at_ms >= timestamp_ms:
                number = data[at]
                delta, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
                if base_offset + delta >= start_offset:
                    return at_ms, base_offset + delta
            at = end
            left -= 1
            if left % STEP_RECORDS == 0:
                yield
        if left and not more:
            raise MalformedMessage(f"{left} records of {header.record_count} are not there")
        yield
    return None
