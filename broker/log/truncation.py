"""Dropping the end of a log, or all of it: a follower that has to agree with its leader.

The last segment goes first, and the one that is cut only when those after it are gone for good, so that a crash leaves
the beginning of what was there. File and directory are synced before the next append, so that no crash can bring the
dropped end, a segment or a snapshot back beside the data that took its place.
"""

import logging
from typing import TYPE_CHECKING

from odradek.broker.log import listing
from odradek.broker.log.producers.replay import rebuild_producers
from odradek.broker.log.producers.state import ProducerState
from odradek.broker.log.retention import remove_segments
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch

if TYPE_CHECKING:
    from odradek.broker.log.log import Log

logger = logging.getLogger(__name__)


def truncate_to(log: "Log", offset: int) -> bool:
    """Drop all at or after `offset`, and what is left of a batch that it cuts. Whether there was anything."""
    assert offset >= 0, offset
    if offset >= log.log_end_offset:
        if log.epochs.truncate_from_end(log.log_end_offset):
            log.write_epochs()
        return False
    logger.info("%s: truncating to offset %d", log, offset)
    if offset <= log.log_start_offset:
        start_over(log, offset)
        return True
    try:
        gone = [segment for segment in reversed(log.segments) if segment.base_offset > offset]
        if gone:
            remove_segments(log, gone)
            log.storage.files.sync_directory(log.directory)
        log.log_end_offset = log.active.truncate_to(offset, log.storage.clock.now_ms())
        log.segments_changed()
        log.storage.open_segments.forget(log.active)
        if log.log_end_offset < log.log_start_offset:
            start_over(log, log.log_start_offset)
            return True
        log.went_back_to(log.log_end_offset)
        log.producers = rebuild_producers(
            log.storage, log.segments, log.snapshots, log.log_start_offset, log.log_end_offset
        )
        log.active.sync()
        log.storage.files.sync_directory(log.directory)
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic}-{log.partition}: {bad}") from bad
    except OSError as error:
        raise log.failed(error) from error
    if log.epochs.truncate_from_end(log.log_end_offset):
        log.write_epochs()
    return True


def start_over(log: "Log", offset: int) -> None:
    """Drop everything; the log is empty and begins at `offset`."""
    logger.info("%s: starting over at offset %d", log, offset)
    try:
        remove_segments(log, log.segments[::-1])
        log.segments = [listing.new_segment(log.storage, log.directory, offset, log.config)]
        log.segments_changed()
        log.snapshots.remove_outside(offset, offset)
        log.storage.files.sync_directory(log.directory)
        log.storage.files.sync_directory(log.log_directory)
    except OSError as error:
        raise log.failed(error) from error
    goes_back = offset < log.log_start_offset
    log.log_start_offset = log.log_end_offset = offset
    log.went_back_to(0)
    log.recovery_point = offset
    if goes_back:
        _settle(log)
    log.producers = ProducerState(offset)
    log.epochs.clear()
    log.write_epochs()


def _settle(log: "Log") -> None:
    """A checkpoint with the higher start would hide what the leader has before it from this replica."""
    try:
        log.storage.settle(log)
    except OSError as error:
        raise log.failed(error) from error
