"""Checks of time indexes: an entry is compared with the log before anybody relies on it.

An index has no checksum. A disk that rots, or a file that a power failure tore, may hold entries that rise as they
should and are wrong all the same. They may cost time, but must never lead past a record.
"""

import logging

from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.index import TimeEntry
from odradek.broker.log.segment import FALSE_ENTRIES_MAX, Segment
from odradek.protocol.record_batch import CorruptBatch

logger = logging.getLogger(__name__)


def offset_before(segment: Segment, timestamp_ms: int) -> int:
    """Return an offset before which no record has that time or a later one. Raises OSError, CorruptBatch.

    The entry before the one that would do is taken: a timestamp that is repeated could make a wrong one look right.
    """
    index = segment.time_index
    slot = index.slot_before(timestamp_ms) - 1
    for number in range(slot, max(slot - FALSE_ENTRIES_MAX, -1), -1):
        entry = index.entry(number)
        if is_true(segment, entry):
            return entry.offset
        logger.warning("%s: entry %s of its time index is wrong", segment, entry)
    return segment.base_offset


def is_true(segment: Segment, entry: TimeEntry) -> bool:
    """Tell whether the batch with that offset has that timestamp. Raises OSError, CorruptBatch."""
    batch = next(segment.batches_from(entry.offset), None)
    return batch is not None and batch.max_timestamp_ms == entry.timestamp_ms


def confirm_largest_timestamp(segment: Segment) -> None:
    """Check a segment's largest timestamp before the segment is deleted or passed over for it: a batch has it, and none
    after that has a larger one.

    Otherwise the indexes are made anew. Where the log is damaged it is left as it is. Raises OSError.
    """
    if segment.largest_is_confirmed:
        return
    try:
        if not _is_largest(segment, segment.largest_timestamp):
            logger.error("%s: its time index is wrong, the indexes are rebuilt", segment)
            segment.rebuild_indexes()
            segment.write_indexes(sync=True)
    except CorruptBatch as bad:
        logger.error("%s is damaged: %s", segment, bad)
    segment.largest_is_confirmed = True


def _is_largest(segment: Segment, entry: TimeEntry) -> bool:
    if not segment.size_bytes:
        return entry.timestamp_ms < 0
    position = segment.locate(entry.offset) if entry.timestamp_ms >= 0 else 0
    batches = iterate_headers(segment.file, position, segment.size_bytes)
    first = next(batches, None) if entry.timestamp_ms >= 0 else None
    if entry.timestamp_ms >= 0 and (first is None or first.max_timestamp_ms != entry.timestamp_ms):
        return False
    return all(batch.largest_timestamp_ms <= entry.timestamp_ms for batch in batches)


def check_last_time_entry(segment: Segment) -> None:
    """Check a segment's last time entry after a clean stop, before the segment is written to again. Raises OSError,
    CorruptBatch."""
    last = segment.time_index.last
    if last.timestamp_ms >= 0 and not is_true(segment, last):
        logger.error("%s: its time index is wrong, the indexes are rebuilt", segment)
        segment.rebuild_indexes()
        segment.write_indexes()
