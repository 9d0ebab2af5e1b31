"""When a batch belongs into a new segment. Source: LogSegment.shouldRoll of Kafka 3.9."""

from odradek.broker.log.config import LogConfig
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from odradek.broker.log.segment import Segment
from odradek.world.clock import Clock


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
