"""What all logs of a broker share: the outside world, and the few files of old segments that are kept open."""

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.world.background import Background
from odradek.world.clock import Clock
from odradek.world.files import Files

if TYPE_CHECKING:
    from odradek.broker.log.log import Log
    from odradek.broker.log.segment import Segment

OPEN_OLD_SEGMENTS = 500
"""Inactive segments with an open file and loaded indexes."""
OPEN_INDEX_BYTES = 64 * 1024 * 1024
"""Of all these indexes; those of a full 1 GB segment have up to 5 MB."""


class OpenSegments:
    """Inactive segments that were read lately; the one unused for longest is released when there are too many.

    Or when their indexes are too large: what a segment has loaded counts from its next use on.
    """

    def __init__(self, limit: int = OPEN_OLD_SEGMENTS, limit_bytes: int = OPEN_INDEX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._segments: OrderedDict[Segment, int] = OrderedDict()
        self._bytes = 0

    def use(self, segment: "Segment") -> None:
        """It is being read."""
        size = segment.index_bytes
        self._bytes += size - self._segments.get(segment, 0)
        self._segments[segment] = size
        self._segments.move_to_end(segment)
        while len(self._segments) > 1 and (len(self._segments) > self._limit or self._bytes > self._limit_bytes):
            oldest, size = self._segments.popitem(last=False)
            self._bytes -= size
            oldest.release()

    def forget(self, segment: "Segment") -> None:
        """It was deleted or closed."""
        self._bytes -= self._segments.pop(segment, 0)


class Storage:
    """Passed to every log. The two callbacks are the log manager's."""

    __slots__ = (
        "background",
        "clock",
        "failed",
        "files",
        "open_segments",
        "producer_expiration_ms",
        "random",
        "removals",
        "settle",
        "truncated",
    )

    def __init__(
        self,
        files: Files,
        clock: Clock,
        background: Background,
        random_source: random.Random,
        *,
        failed: Callable[[str, OSError], object] = lambda directory, cause: None,
        truncated: Callable[["Log"], object] = lambda log: None,
        settle: Callable[["Log"], object] = lambda log: None,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        """`failed(log directory, cause)` hears of I/O errors; `truncated(log)` when a recovery point went back.

        `settle(log)` comes before the first append after that, and after the start: see CheckpointFiles. OSError.
        """
        self.files = files
        self.clock = clock
        self.background = background
        self.random = random_source
        self.failed = failed
        self.truncated = truncated
        self.settle = settle
        self.producer_expiration_ms = producer_expiration_ms
        self.open_segments = OpenSegments()
        self.removals: set[str] = set()
        """Log directories that logs were removed from, which is not on the disk yet for certain."""
