"""When a batch belongs into a new segment, and beginning one.

Source: LogSegment.shouldRoll, LocalLog.roll of Kafka 3.9.
"""

from typing import TYPE_CHECKING

from odradek.broker.log import flushing, listing
from odradek.broker.log.config import LogConfig
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from odradek.broker.log.segment import Segment
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.log.log import Log


def should_roll(
    segment: Segment, config: LogConfig, size_bytes: int, last_offset: int, max_timestamp_ms: int, clock: Clock
) -> bool:
    """Whether batches of together that size, that end with that offset, do not go into `segment`. Raises OSError."""
    size = segment.size_bytes
    if last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET:
        return True
    if size == 0:
        return False
    if size > config.segment_bytes - size_bytes:
        return True
    first = segment.first_timestamp_ms
    if first is None:
        first = segment.load_first_timestamp()
    waited = max_timestamp_ms - first if first >= 0 else clock.now_ms() - segment.created_ms
    if waited > config.segment_ms - segment.roll_jitter_ms:
        return True
    limit = config.segment_index_bytes
    return len(segment.offset_index.positions) >= limit // OFFSET_ENTRY_BYTES or (
        len(segment.time_index.timestamps) >= limit // TIME_ENTRY_BYTES - 1
    )


def roll(log: "Log", first_offset: int) -> Segment:
    """See Log.roll."""
    base_offset = max(first_offset, log.log_end_offset)
    former = log.active
    if former.base_offset == base_offset:
        return former
    former.become_inactive()
    log.producers.map_end_offset = base_offset
    log.snapshots.write(log.producers)
    segment = listing.new_segment(log.storage, log.directory, base_offset, log.config)
    log.segments.append(segment)
    log.segments_changed()
    log.use(former)
    flushing.in_background(log)
    return segment
