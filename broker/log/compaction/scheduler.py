"""Scheduling of compaction: the dirtiest first, in a child process, a few at a time.

Source: LogCleaner.CleanerThread, LogCleanerManager.grabFilthiestCompactedLog of Kafka 3.9.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable

from odradek.broker.log.compaction.cleanable_offsets import (
    LogToClean,
    dirty_part,
    first_dirty_offset,
    log_to_clean,
    make_request,
)
from odradek.broker.log.compaction.job import Job
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import CorruptBatch
from odradek.world.children import Children
from odradek.world.clock import Clock
from odradek.world.periodic import PeriodicActions

logger = logging.getLogger(__name__)

CHILD = "odradek.broker.log.compaction.rewrite"
LARGEST_MAP_BYTES = 2**31 - 1
HINDERED_DOUBLINGS_MAX = 6
"""Most doublings of the pause of a log whose compaction was hindered: by a full disk, a killed child, no free file."""

Step = Callable[[], None]


class Compaction:
    """Scheduler of compaction, owned by the log manager.

    `logs()`: those that may be compacted; `cleaned(log)`: called after a compaction.

    `covers(log, offset, then)` tells whether a start will know that the disk has all before `offset`; if not, `then` is
    called when it will. Only what is before such an offset is compacted: recovery would take the gaps for lost data.
    """

    def __init__(
        self,
        clock: Clock,
        children: Children,
        settings: LogManagerSettings,
        logs: Callable[[], Iterable[Log]],
        high_watermark_of: Callable[[Log], int],
        cleaned: Callable[[Log], object],
        covers: Callable[[Log, int, Step], bool] = lambda log, offset, then: True,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._children = children
        self._periodic = PeriodicActions(clock)
        self._logs = logs
        self._high_watermark_of = high_watermark_of
        self._cleaned = cleaned
        self._covers = covers
        self._jobs: dict[Log, Job] = {}
        self._damaged: dict[Log, int] = {}
        """Logs that cannot be compacted, and how often they had been truncated then."""
        self._hindered: dict[Log, tuple[int, float]] = {}
        """Logs whose compaction something has hindered: how often in a row, and the time in ms before which others go
        first."""
        self._uncovered: set[Log] = set()
        """Logs whose turn it was, but whose checkpoint was not written yet: when it cannot be, others go first."""
        self._looking = False
        self._stopped = False
        self.dirtiest_ratio = 0.0
        """Largest dirty share of a log that could be compacted, at the last look."""
        self._ratio_seen = 0.0
        self.last_look_ms = clock.monotonic_ms()
        """When this looked for work last, on the monotonic clock."""
        self._runs: deque[tuple[float, int, int]] = deque(maxlen=max(1, settings.log_cleaner_threads))

    def last_runs(self) -> list[tuple[float, int, int]]:
        """Return the seconds of the last compactions, and bytes before and after, as many as may run side by side."""
        return list(self._runs)

    def uncleanable(self) -> dict[Log, int]:
        """Return the logs that cannot be compacted, each with the bytes that wait for it."""
        given_up = [log for log, count in self._damaged.items() if count == log.history_changes and not log.closed]
        return {log: _bytes_that_wait(log) for log in given_up}

    def start(self) -> None:
        """Begin to look after a first pause."""
        self._look_later()

    def stop(self) -> None:
        """End the children; what they had not finished is begun anew after the next start. Harmless twice."""
        self._stopped = True
        self._periodic.stop()
        for job in list(self._jobs.values()):
            job.abort("the broker stops")

    def abandon(self, log: Log) -> None:
        """Stop compacting a log that goes: the child must not write into a directory of the same name."""
        job = self._jobs.get(log)
        if job is not None:
            job.abort("the log is gone")

    # looking for work

    def _look_later(self) -> None:
        if not self._stopped:
            self._periodic.later("look", max(1, self.settings.log_cleaner_backoff_ms), self.look)

    def look(self) -> None:
        """Begin with the dirtiest log, if one is dirty enough and a child may be begun."""
        self._look_later()
        self.last_look_ms = self._clock.monotonic_ms()
        settings = self.settings
        if not settings.log_cleaner_enable or len(self._jobs) >= settings.log_cleaner_threads:
            return
        if self._looking or self._stopped:
            return
        self._looking = True
        self._ratio_seen = 0.0
        found: list[tuple[LogToClean, Log]] = []
        logs = [log for log in self._logs() if log.config.compacts and log not in self._jobs]

        def take_step(log: Log | None) -> None:
            if log is not None:
                self._look_at(log, found)
            else:
                self._begin_dirtiest(found)

        self._damaged = {log: count for log, count in self._damaged.items() if not log.closed}
        self._hindered = {log: hindered for log, hindered in self._hindered.items() if not log.closed}
        self._uncovered = {log for log in self._uncovered if not log.closed}
        self._periodic.for_each("compaction", [*logs, None], take_step)

    def _look_at(self, log: Log, found: list[tuple[LogToClean, Log]]) -> None:
        if log.closed or self._damaged.get(log) == log.history_changes or self._waits(log):
            return
        try:
            dirty = log_to_clean(log, self._high_watermark_of(log), self._clock.now_ms())
        except StorageFailure:  # reported already
            return
        except (CorruptBatch, KafkaError) as bad:
            self._give_up(log, str(bad))
        except OSError as error:
            log.unreadable(error)
        else:
            if dirty is None:
                return
            self._ratio_seen = max(self._ratio_seen, dirty.ratio)
            if dirty.pays(log.config.min_cleanable_dirty_ratio):
                found.append((dirty, log))

    def _waits(self, log: Log) -> bool:
        return log in self._hindered and self._clock.monotonic_ms() < self._hindered[log][1]

    def _begin_dirtiest(self, found: list[tuple[LogToClean, Log]]) -> None:
        self._looking = False
        self.dirtiest_ratio = self._ratio_seen
        living = [(dirty, log) for dirty, log in found if not log.closed]
        for dirty, log in sorted(living, key=lambda one: one[0].ratio, reverse=True):
            if self._covers(log, dirty.first_uncleanable_offset, self.look):
                self._uncovered.discard(log)
                self._begin(log, dirty)
                if len(living) > 1:
                    self._clock.call_soon(self.look)
                return
            if log not in self._uncovered:
                self._uncovered.add(log)
                return

    def _begin(self, log: Log, dirty: LogToClean) -> None:
        settings = self.settings
        threads = max(1, settings.log_cleaner_threads)
        map_bytes = min(LARGEST_MAP_BYTES, settings.log_cleaner_dedupe_buffer_size // threads)
        try:
            full = settings.log_cleaner_io_buffer_load_factor
            request = make_request(log, dirty, self._clock.now_ms(), map_bytes, full)
        except StorageFailure:  # reported already
            self._hinder(log)
            return
        except KafkaError as bad:
            self._give_up(log, str(bad))
            return
        except OSError as error:
            log.unreadable(error)
            self._hinder(log)
            return
        logger.info(
            "%s: compacting %d segments before %d, dirty from %d on (%.0f%%)",
            log, len(request.segments), dirty.first_uncleanable_offset, dirty.first_dirty_offset, 100 * dirty.ratio,
        )  # fmt: skip
        job = self._jobs[log] = Job(log, request, self._job_done, self._clock)
        rate = settings.log_cleaner_io_max_bytes_per_second / threads
        job.child = self._children.run(CHILD, request.encode(), job.heard, job.ended, bytes_per_second=rate)

    # results

    def _job_done(self, job: Job) -> None:
        log = job.log
        del self._jobs[log]
        if job.damage is not None:
            self._give_up(log, job.damage)
        if job.hindered:
            self._hinder(log)
        else:
            self._hindered.pop(log, None)
        if job.end_offset is None or log.closed:
            return
        if job.finished is not None:
            self._runs.append((job.took_ms / 1000.0, job.size_before(), job.finished.bytes_written))
        log.cleaned_to = job.end_offset
        self._cleaned(log)
        self.look()

    def _hinder(self, log: Log) -> None:
        """Have the log wait while others go first; for twice as long as the time before."""
        times = self._hindered.get(log, (0, 0.0))[0] + 1
        pause_ms = max(1, self.settings.log_cleaner_backoff_ms) * 2 ** min(times, HINDERED_DOUBLINGS_MAX)
        self._hindered[log] = times, self._clock.monotonic_ms() + pause_ms

    def _give_up(self, log: Log, reason: str) -> None:
        logger.error("%s cannot be compacted and will not be until it is truncated or opened again: %s", log, reason)
        self._damaged[log] = log.history_changes


def _bytes_that_wait(log: Log) -> int:
    """Return the size of a log's dirty segments, without the active one."""
    first_dirty = first_dirty_offset(log.cleaned_to, log.log_start_offset, log.log_end_offset)
    sizes = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
    return dirty_part(sizes, first_dirty, log.log_end_offset, None).cleanable_bytes
