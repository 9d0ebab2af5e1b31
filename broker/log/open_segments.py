"""Cache of old segments whose files are kept open, because they were read lately."""

from collections import OrderedDict

from odradek.broker.log.segment import Segment

OPEN_OLD_SEGMENTS = 500
"""Inactive segments with an open file and loaded indexes."""
OPEN_INDEX_BYTES = 64 * 1024 * 1024
"""Memory of all these indexes together; those of a full 1 GB segment have up to 5 MB."""


class OpenSegments:
    """Inactive segments that were read lately; the one unused for longest is released when there are too many.

    Or when their indexes are too large: what a segment has loaded counts from its next use on.
    """

    def __init__(self, limit: int = OPEN_OLD_SEGMENTS, limit_bytes: int = OPEN_INDEX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._segments: OrderedDict[Segment, int] = OrderedDict()
        self._bytes = 0

    def use(self, segment: Segment) -> None:
        """Count it as read just now."""
        size = segment.index_bytes
        self._bytes += size - self._segments.get(segment, 0)
        self._segments[segment] = size
        self._segments.move_to_end(segment)
        while len(self._segments) > 1 and (len(self._segments) > self._limit or self._bytes > self._limit_bytes):
            oldest, size = self._segments.popitem(last=False)
            self._bytes -= size
            oldest.release()

    def forget(self, segment: Segment) -> None:
        """Leave it out: it was deleted or closed."""
        self._bytes -= self._segments.pop(segment, 0)
