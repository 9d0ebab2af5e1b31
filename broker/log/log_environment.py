"""The environment of the logs of a broker: the outside world, the old segments kept open, and the log manager."""

import contextlib
import logging
import posixpath
import random
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import NamedTuple

from odradek.broker.log.errors import OUT_OF_DESCRIPTORS
from odradek.broker.log.segment import OFFSET_INDEX, SUFFIXES, TIME_INDEX, Segment
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.background import Background
from odradek.world.clock import Clock
from odradek.world.durations import Durations
from odradek.world.files import Files

logger = logging.getLogger(__name__)

FULL_DISK_TOLD_EVERY_MS = 60_000
FULL_DISK_PAUSE_MS = 100
"""Time for which appends to a full disk are refused without another attempt: each attempt ends with a sync, and where
thousands of partitions try again every second the loop would do nothing else."""
DESCRIPTORS_FOR_A_CHANGE = 16
"""Files that a truncation, with the threads in the background, may open at once."""
OPEN_OLD_SEGMENTS = 500
"""Inactive segments with an open file and loaded indexes."""
OPEN_INDEX_BYTES = 64 * 1024 * 1024
"""Memory of all these indexes together; those of a full 1 GB segment have up to 5 MB."""


class Claims(NamedTuple):
    """Limits of what the checkpoints of a log directory may say of a log: `CheckpointFiles` lowers what is above."""

    topic: str
    partition: int
    recovery_point: int
    log_start_offset: int
    cleaned_to: int
    log_end_offset: int
    """Limit of the high watermark."""


class OpenSegments:
    """Inactive segments that were read lately. The one unused for longest is released when there are too many, or when
    their indexes take too much memory; an index counts from the first use after it was loaded.
    """

    def __init__(self, limit: int = OPEN_OLD_SEGMENTS, limit_bytes: int = OPEN_INDEX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._segments: OrderedDict[Segment, int] = OrderedDict()
        self._bytes = 0

    def use(self, segment: Segment) -> None:
        """Count a segment as read just now."""
        size = segment.index_bytes
        self._bytes += size - self._segments.get(segment, 0)
        self._segments[segment] = size
        self._segments.move_to_end(segment)
        while len(self._segments) > 1 and (len(self._segments) > self._limit or self._bytes > self._limit_bytes):
            oldest, size = self._segments.popitem(last=False)
            self._bytes -= size
            oldest.release()

    def forget(self, segment: Segment) -> None:
        """Leave a segment out, which was deleted or closed."""
        self._bytes -= self._segments.pop(segment, 0)


class LogEnvironment:
    """The environment of every log of a broker. The callbacks are the log manager's."""

    __slots__ = (
        "background",
        "clock",
        "failed",
        "files",
        "flush_times",
        "full_disk_told_ms",
        "full_disks",
        "lower_checkpoints",
        "open_segments",
        "producer_expiration_ms",
        "random",
        "removals",
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
        truncated: Callable[[str], object] = lambda directory: None,
        lower_checkpoints: Callable[[str, Claims], object] = lambda directory, claims: None,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        """`failed(log directory, cause)` hears of I/O errors, `truncated(log directory)` of a log there that went back.

        `lower_checkpoints(log directory, claims)` is called before the first append after a truncation or a start. When
        it returns, the checkpoints on the disk claim no more of the log than `claims`. It raises OSError.
        """
        self.files = files
        self.clock = clock
        self.background = background
        self.random = random_source
        self.failed = failed
        self.truncated = truncated
        self.lower_checkpoints = lower_checkpoints
        self.producer_expiration_ms = producer_expiration_ms
        self.open_segments = OpenSegments()
        self.flush_times = Durations()
        """Times that flushes of logs took."""
        self.full_disk_told_ms: float | None = None
        self.full_disks: dict[str, tuple[float, OSError]] = {}
        """Log directories in which an append has found no room just now: until when none is tried, and why."""
        self.removals: set[str] = set()
        """Log directories that logs were removed from, which is not on the disk yet for certain."""

    def check_room(self, directory: str) -> None:
        """Refuse an append to a log whose disk was full a moment ago. Raises KafkaError KAFKA_STORAGE_ERROR."""
        log_directory = posixpath.dirname(directory)
        until_ms, error = self.full_disks.get(log_directory, (0.0, OSError()))
        if self.clock.monotonic_ms() < until_ms:
            raise self.refuse_for_room(directory, error)
        self.full_disks.pop(log_directory, None)

    def refuse_append(self, directory: str, error: OSError) -> KafkaError:
        """Make the refusal as `refuse_for_room` does; further appends to a full disk are refused during a pause."""
        if error.errno not in OUT_OF_DESCRIPTORS:
            until_ms = self.clock.monotonic_ms() + FULL_DISK_PAUSE_MS
            self.full_disks[posixpath.dirname(directory)] = until_ms, error
        return self.refuse_for_room(directory, error)

    def refuse_for_room(self, directory: str, error: OSError) -> KafkaError:
        """Make the refusal for a log whose disk is full, or that may open no file; log it once a minute, however many
        try again."""
        now_ms = self.clock.monotonic_ms()
        if self.full_disk_told_ms is None or now_ms - self.full_disk_told_ms >= FULL_DISK_TOLD_EVERY_MS:
            self.full_disk_told_ms = now_ms
            trouble = "no file can be opened" if error.errno in OUT_OF_DESCRIPTORS else "the disk is full"
            logger.error("%s: %s, records are refused until there is space: %s", directory, trouble, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory}: {error}")

    def check_descriptors(self, path: str) -> None:
        """Open a file, which must be there, as often as a change may need descriptors. Raises OSError: then none is to
        be begun, since clients may hold all of them, and what ends halfway costs the log directory."""
        for file in [self.files.open(path) for _ in range(DESCRIPTORS_FOR_A_CHANGE)]:
            file.close()

    def new_segment(
        self, directory: str, base_offset: int, config: LogConfig, names: Collection[str] | None = None
    ) -> Segment:
        """Make an empty segment with its files; what a crash left of others by that name goes. Raises OSError.

        `names`: all that may be in the directory, for those who have listed it."""
        segment = Segment(self.files, directory, base_offset, config, self.clock.now_ms())
        if config.segment_jitter_ms:
            segment.roll_jitter_ms = self.random.randrange(min(config.segment_jitter_ms, config.segment_ms) or 1)
        if names is None or names:
            self._clear(segment)
        try:
            segment.create(config.segment_bytes)
        except OSError:  # records go on in the segment before: a start must not find this one behind them
            self._clear(segment)
            self.files.sync_directory(directory)
            raise
        return segment

    def make_index_files(self, segment: str) -> None:
        """Make the files of a segment's indexes that are missing: Kafka, started on the directory, warns of each and
        makes it anew, so one that cannot be made is left to it. `segment`: the path of its files, without a suffix.

        Done at the end of a clean shutdown, not when a log is made: then 10,000 new partitions would take two seconds
        more.
        """
        for path in (segment + OFFSET_INDEX, segment + TIME_INDEX):
            with contextlib.suppress(OSError):
                if not self.files.exists(path):
                    self.files.open(path, create=True)

    def _clear(self, segment: Segment) -> None:
        for suffix in SUFFIXES:
            if self.files.exists(segment.path(suffix)):
                self.files.remove(segment.path(suffix))

    def remove_files_later(self, paths: list[str], delay_ms: float) -> None:
        """Remove files that were renamed to `.deleted`. What fails is left to the next start."""

        def remove() -> None:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self.files.remove(path)

        def done(result: OSError | None) -> None:
            if isinstance(result, OSError):
                logger.warning("cannot remove deleted segments: %s", result)

        self.clock.call_later(delay_ms, lambda: self.background.run(remove, done))
