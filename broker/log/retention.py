"""Retention: which segments of a log may go, and their removal. Source: UnifiedLog.deleteOldSegments of Kafka 3.9."""

import logging
import sys
from collections.abc import Callable

from odradek.broker.log.errors import NO_ROOM
from odradek.broker.log.log import Log
from odradek.broker.log.segment import Segment
from odradek.broker.log.time_index_check import confirm_largest_timestamp

logger = logging.getLogger(__name__)


def delete_old_segments(log: Log, high_watermark: int, at_most: int = sys.maxsize) -> int:
    """Delete segments before the log start, and by `retention.bytes` and `retention.ms` when the policy says delete.

    Nothing at or beyond the high watermark goes. Returns how many went. Raises StorageFailure.
    """
    try:
        return _delete_old_segments(log, high_watermark, at_most)
    except OSError as error:
        if error.errno in NO_ROOM:  # no segment could be made in the place of the last one, which stays
            logger.error("%s: no space for a new segment, so the last one is not deleted: %s", log, error)
            return 0
        raise log.give_up_directory(error) from error


def _delete_old_segments(log: Log, high_watermark: int, at_most: int) -> int:
    def before_start(segment: Segment, end: int) -> bool:
        return segment is not log.active and end <= log.log_start_offset

    deleted = _delete_while(log, high_watermark, at_most, before_start, "log start offset")
    if not log.config.deletes:
        return deleted
    excess = log.size_bytes - log.config.retention_bytes

    def too_large(segment: Segment, _: int) -> bool:
        nonlocal excess
        excess -= segment.size_bytes
        return excess >= 0

    if log.config.retention_bytes >= 0:
        deleted += _delete_while(log, high_watermark, at_most - deleted, too_large, "retention.bytes")
    if log.config.retention_ms >= 0:
        oldest_ms = log.environment.clock.now_ms() - log.config.retention_ms
        deleted += _delete_while(
            log, high_watermark, at_most - deleted, lambda segment, _: _is_older(segment, oldest_ms), "retention.ms"
        )
    return deleted


def _is_older(segment: Segment, oldest_ms: int) -> bool:
    """Tell whether a segment's newest record is older than that time, and not by the word of an index alone."""
    if segment.retention_timestamp_ms() >= oldest_ms:
        return False
    confirm_largest_timestamp(segment)
    return segment.retention_timestamp_ms() < oldest_ms


def _delete_while(
    log: Log, high_watermark: int, at_most: int, may_go: Callable[[Segment, int], bool], reason: str
) -> int:
    """Delete from the oldest on while `may_go(segment, offset after it)`; never beyond the high watermark."""
    count = 0
    for number, segment in enumerate(log.segments[:at_most]):
        last = number + 1 == len(log.segments)
        end = log.log_end_offset if last else log.segments[number + 1].base_offset
        if (last and segment.size_bytes == 0) or end > high_watermark or not may_go(segment, end):
            break
        count = number + 1
    if count:
        if count == len(log.segments):
            log.roll()
        logger.info(
            "%s: deleting %d segments before offset %d: %s", log, count, log.segments[count].base_offset, reason
        )
        log.advance_log_start_offset(log.segments[count].base_offset)
        log.remove_segments(log.segments[:count])
        log.snapshots.remove_before(log.segments[0].base_offset)
    return count
