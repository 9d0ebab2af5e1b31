"""Lookups in a log whose indexes may have rotted: a false entry of an index costs time and leads past no record."""

from odradek.broker.log.batches import Batch, iterate_headers
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.offset_lookup import find_offset
from odradek.broker.log.segment import Segment
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.protocol.steps import at_once


def misled(log: Log) -> str | None:
    """Tell of an offset or a time at which the log finds another batch than a scan of it does; None: of none.

    The log itself must be sound.
    """
    try:
        in_segments = [(one, list(iterate_headers(one.file, 0, one.size_bytes))) for one in log.segments]
        wrong = [text for segment, there in in_segments if (text := _misled_by_offsets(segment, there)) is not None]
        return wrong[0] if wrong else _misled_by_times(log, [batch for _, there in in_segments for batch in there])
    except (OSError, StorageFailure):  # its disk has failed, and nothing is told by it
        return None


def _misled_by_offsets(segment: Segment, batches: list[Batch]) -> str | None:
    for batch in batches:
        for offset in (batch.base_offset, batch.last_offset):
            try:
                found = segment.locate(offset)
            except CorruptBatch as bad:
                return f"{segment}: offset {offset} at byte {batch.position} is not found: {bad}"
            if found != batch.position:
                return f"{segment}: offset {offset} is at byte {batch.position}, and looked for at {found}"
    return None


def _misled_by_times(log: Log, batches: list[Batch]) -> str | None:
    """Compaction leaves batches whose time no record has any more: then the headers do not tell."""
    if log.config.compacts:
        return None
    largest = -1
    for batch in batches:
        if (time_ms := batch.max_timestamp_ms) <= largest:
            continue
        largest = time_ms
        if batch.base_offset < log.log_start_offset:
            continue
        try:
            found = at_once(find_offset(log, time_ms))
        except KafkaError as error:
            return f"{log}: time {time_ms} at offset {batch.base_offset} is not found: {error!r}"
        if found is None or not batch.base_offset <= found[1] <= batch.last_offset:
            return f"{log}: time {time_ms} is at offset {batch.base_offset}, and {found} is found"
    return None
