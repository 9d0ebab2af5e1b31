"""History of a run as seen from outside: what producers were told, what readers read, and what went wrong.

Values are unique: `producer-number`. A violation is a sentence; the first one ends the run.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.clock import Clock

TRANSCRIPT_LINES = 4000
LATE_MS = 10_000.0
"""Time for which a reader may hold, or be sent, what a disk had that has been replaced."""


class Violation(AssertionError):  # noqa: N818 - what a run shows
    """The cluster broke a promise."""


class History:
    """A run's facts. Whoever finds that they contradict each other raises Violation at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: deque[str] = deque(maxlen=TRANSCRIPT_LINES)
        self.lines_dropped = 0
        self.values: dict[TopicPartition, dict[int, bytes]] = {}
        """What is known to be at an offset, by whoever saw it first."""
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self.placed: dict[bytes, tuple[TopicPartition, int]] = {}
        """Partition and offset of each value: under idempotence there is only one."""
        self._committed: dict[TopicPartition, int] = {}
        """Highest offsets whose commit by the group was acknowledged."""
        self.failed: dict[bytes, str] = {}
        self.rotten: set[int] = set()
        """Brokers with bits on their disks that have turned over: what they hold is no evidence."""
        self._mended_ms = -math.inf
        """Time at which the last of those disks was replaced."""
        self.expires = False
        """True if old records of the topic are deleted."""
        self.log_start_of: Callable[[TopicPartition], int] = lambda partition: 0
        """Below this a partition's records may be gone by now."""
        self.read_count = 0
        self.violation: Violation | None = None
        self.on_violation: Callable[[], object] = lambda: None
        self.on_acknowledged: Callable[[TopicPartition, int], object] = lambda partition, offset: None
        self.on_read: Callable[[TopicPartition, int], object] = lambda partition, offset: None

    def note(self, text: str) -> None:
        """A line of the transcript."""
        if len(self.lines) == self.lines.maxlen:
            self.lines_dropped += 1
        self.lines.append(f"{self._clock.monotonic_ms() / 1000:9.3f} {text}")

    def violated(self, text: str) -> None:
        """Keep the first one, and end the run."""
        self.note(f"VIOLATION {text}")
        if self.violation is None:
            self.violation = Violation(text)
            self.on_violation()

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group's coordinator took these."""
        for partition, offset in offsets.items():
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def has_expired(self, partition: TopicPartition, expected: int, found: int) -> bool:
        """Tell whether a reader may go on at `found` instead: what is between has been deleted for its age."""
        return self.expires and expected < found <= self.log_start_of(partition)

    def committed_of(self, partition: TopicPartition) -> int:
        """Return the offset that the group has certainly committed; 0 when none is known."""
        return self._committed.get(partition, 0)

    def begins(self, partition: TopicPartition, offset: int, member: str, committed: int) -> None:
        """A member begins there that was given the partition when so much was committed: none of that comes again."""
        if offset < committed:
            self.violated(f"{member} begins {partition} at {offset}, committed was {committed}")

    def at(self, partition: TopicPartition, offset: int, value: bytes, who: str) -> None:
        """Note that `who` was given `value` at `offset` as committed data."""
        known = self.values.setdefault(partition, {})
        before = known.get(offset)
        if before is None:
            known[offset] = value
            elsewhere = self.placed.get(value)
            if elsewhere is not None and elsewhere != (partition, offset):
                self.violated(f"{value!r} is at {partition} {offset} and at {elsewhere}: a duplicate ({who})")
            self.placed[value] = (partition, offset)
        elif before != value:
            self.violated(f"{partition} offset {offset}: {before!r} was seen there, {who} finds {value!r}")

    def read(self, partition: TopicPartition, offset: int) -> None:
        """Note that a reader was given records up to and with the one at `offset`."""
        self.on_read(partition, offset)

    def mended(self, broker_id: int) -> None:
        """Note that a broker has a new disk instead of one that had rotted."""
        self.rotten.discard(broker_id)
        self._mended_ms = self._clock.monotonic_ms()

    def refused(self, who: str, error: KafkaError) -> None:
        """Note that a reader was told of an error instead: only what lay on a disk that has rotted may be refused."""
        rotten = bool(self.rotten) or self._clock.monotonic_ms() - self._mended_ms <= LATE_MS
        if rotten and error.code == ErrorCode.CORRUPT_MESSAGE:
            self.note(f"{who}: {error!r:.150}")
        else:
            self.violated(f"{who}: {error!r}")

    def acknowledge(self, partition: TopicPartition, offset: int, value: bytes, producer: str) -> None:
        """A producer was told so."""
        if offset < 0:  # DUPLICATE_SEQUENCE_NUMBER: it is there, the broker does not know where any more
            self.note(f"{producer}: {value!r} is somewhere in {partition}")
            return
        self.at(partition, offset, value, producer)
        self.on_acknowledged(partition, offset)
        self.acknowledged.setdefault(partition, {})[offset] = value


class _TranscriptHandler(logging.Handler):
    """Handler that makes log records lines of the transcript. What other threads log is no part of the run.

    Where a failure that nobody had foreseen is caught and logged, so that the rest goes on, it is one nevertheless.
    """

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history, self._thread = history, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._history.note(f"  {record.name.removeprefix('odradek.')}: {record.getMessage()}")
            if record.exc_info and record.levelno >= logging.ERROR:
                failure = record.exc_info[1]
                self._history.violated(f"a failure of ours is logged: {record.getMessage()}: {failure!r}")


@contextmanager
def logs_noted(history: History) -> Iterator[None]:
    """Note what brokers and clients log, from INFO on, in the transcript of a run."""
    handler = _TranscriptHandler(history)
    levels = {name: logging.getLogger(name).level for name in ("odradek", "state.change.logger")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
