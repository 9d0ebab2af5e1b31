"""Finding the bytes of a log that a reader may have. The segment is bisected, the rest is the segment's index.

Most readers follow the end, so the positions of the batches that were appended last are remembered.
"""

from typing import TYPE_CHECKING

from odradek.broker.log.failure import CorruptFile
from odradek.broker.log.segment import Segment
from odradek.broker.log.slices import EMPTY, LogSlice, slice_of
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.world.files import FileRange

if TYPE_CHECKING:
    from odradek.broker.log.log import Log


def read(log: "Log", offset: int, max_bytes: int, end_offset: int, whole_first_batch: bool) -> LogSlice:
    """See Log.read."""
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {log}")
    if offset >= end_offset:
        return EMPTY
    try:
        return _find(log, offset, max_bytes, end_offset, whole_first_batch)
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic}-{log.partition}: {bad}") from bad
    except OSError as error:
        raise log.failed(error) from error


def _find(log: "Log", offset: int, max_bytes: int, end_offset: int, whole_first_batch: bool) -> LogSlice:
    segments = log.segments
    number = log.segment_number(offset)
    while number < len(segments):
        segment = segments[number]
        position = _position(log, segment, offset)
        end = _end_position(log, number, end_offset)
        if position < end:
            return slice_of(segment, position, end - position, max_bytes, whole_first_batch)
        if end < segment.size_bytes:
            return EMPTY
        number += 1
    return EMPTY


def _position(log: "Log", segment: Segment, offset: int) -> int:
    """`Segment.locate`, remembering the answer in the active segment."""
    if segment is not log.segments[-1]:
        log.use(segment)
        return segment.locate(offset)
    position = log.known_positions.get(offset)
    if position is None:
        position = segment.locate(offset)
        log.know_position(offset, position)
    return position


def _end_position(log: "Log", number: int, end_offset: int) -> int:
    """Where a reader who may see offsets before `end_offset` has to stop in that segment."""
    segments = log.segments
    segment = segments[number]
    after = log.log_end_offset if number + 1 == len(segments) else segments[number + 1].base_offset
    if end_offset >= after:
        return segment.size_bytes
    return _position(log, segment, end_offset) if end_offset > segment.base_offset else 0


def end_of(log: "Log", found: LogSlice) -> int:
    """An offset after the last of the records, from the index alone (LogSegment.fetchUpperBoundOffset)."""
    assert isinstance(found.records, FileRange) and found.segment is not None, found
    indexed = found.segment.offset_index.offset_at(found.records.position + found.records.length)
    if indexed is not None:
        return indexed
    number = log.segment_number(found.segment.base_offset)
    return log.log_end_offset if number + 1 >= len(log.segments) else log.segments[number + 1].base_offset


def aborted_transactions(log: "Log", offset: int, end_offset: int) -> list[AbortedTransaction]:
    """See Log.aborted_transactions."""
    try:
        return _collect_aborted(log, offset, end_offset)
    except CorruptFile as bad:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{log.topic}-{log.partition}: {bad}") from bad
    except OSError as error:
        raise log.failed(error) from error


def _collect_aborted(log: "Log", offset: int, end_offset: int) -> list[AbortedTransaction]:
    """LocalLog.collectAbortedTransactions."""
    found: list[AbortedTransaction] = []
    for segment in log.segments[max(0, log.segment_number(offset)) :]:
        entries = segment.aborted_transactions()
        if entries:
            log.use(segment)
        for aborted in entries:
            if aborted.last_offset >= offset and aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return found
    return found
