"""What a read gives."""

from typing import NamedTuple

from odradek.broker.log.segment import Segment
from odradek.world.files import FileRange


class LogSlice(NamedTuple):
    """What a read found. Every batch but possibly the last is whole; `len(records)` is the number of bytes."""

    records: FileRange | bytes
    first_batch_incomplete: bool = False
    """The first batch is larger than `max_bytes` and was cut: the reader needs a larger limit."""
    segment: Segment | None = None
    """Where the records lie; None when there are none."""


EMPTY = LogSlice(b"")


def slice_of(segment: Segment, position: int, length: int, max_bytes: int, whole_first_batch: bool) -> LogSlice:
    """The range of the file, cut to `max_bytes` with Kafka's exception for the first batch."""
    incomplete = False
    if length > max_bytes:
        first = segment.batch_size_at(position)
        incomplete = first > max_bytes and not whole_first_batch
        length = min(length, max(max_bytes, first) if whole_first_batch else max_bytes)
        if length <= 0:
            return LogSlice(b"", incomplete)
    return LogSlice(FileRange(segment.file, position, length), incomplete, segment)
