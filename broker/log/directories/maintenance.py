"""Maintenance of all logs from time to time: retention, flushes by age, producers that are gone.

Source: LogManager.startup and the tasks it schedules.
"""

import contextlib
from collections.abc import Callable

from odradek.broker.log.directories.checkpoints import Checkpoints
from odradek.broker.log.directories.live_logs import LiveLogs
from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.world.periodic import PeriodicActions

SEGMENTS_AT_ONCE = 10
"""Segments of one log that retention takes in one piece, renaming their files."""


class LogMaintenance:
    """Maintains all logs, in slices of time.

    A log that went meanwhile is skipped; one whose disk fails has reported it already.
    Nothing at or beyond `high_watermark_of(log)` is deleted.
    """

    def __init__(
        self,
        environment: LogEnvironment,
        settings: LogManagerSettings,
        logs: LiveLogs,
        checkpoints: Checkpoints,
        high_watermark_of: Callable[[Log], int],
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._settings = settings
        self._logs = logs
        self._checkpoints = checkpoints
        self._high_watermark_of = high_watermark_of
        self._periodic = PeriodicActions(environment.clock)

    def start(self) -> None:
        """Begin with the timers."""
        every, written = self._settings, self._checkpoints
        self._repeat("retention", every.log_retention_check_interval_ms, self._apply_retention)
        self._repeat("flush", every.log_flush_scheduler_interval_ms, self._flush_overdue)
        self._repeat("recovery points", every.log_flush_offset_checkpoint_interval_ms, written.write_recovery_points)
        self._repeat("log starts", every.log_flush_start_offset_checkpoint_interval_ms, written.write_log_starts)
        self._repeat("producers", every.producer_id_expiration_check_interval_ms, self._expire_producers)

    def stop(self) -> None:
        """End the timers, and what is being done in slices."""
        self._periodic.stop()

    def _repeat(self, name: str, interval_ms: int, action: Callable[[], None]) -> None:
        delay_ms = min(interval_ms, self._settings.log_initial_task_delay_ms)
        self._periodic.repeat(name, interval_ms, action, delay_ms=delay_ms)

    def for_each_log(self, name: str, action: Callable[[Log], object]) -> None:
        """Act on all logs, again on those for which the action answers True."""

        def act(log: Log) -> object:
            if self._logs.is_live(log):
                with contextlib.suppress(StorageFailure):
                    return action(log)
            return None

        self._periodic.for_each(name, self._logs.all(), act)

    def _apply_retention(self) -> None:
        def apply(log: Log) -> bool:
            more = delete_old_segments(log, self._high_watermark_of(log), SEGMENTS_AT_ONCE) == SEGMENTS_AT_ONCE
            if not more:
                log.rest()
            return more

        self.for_each_log("retention", apply)

    def _flush_overdue(self) -> None:
        """Flush the logs whose `flush.ms` has passed and that were written to."""
        now_ms = self._clock.now_ms()

        def flush(log: Log) -> None:
            if now_ms - log.last_flush_ms >= log.config.flush_ms and not log.is_flushed:
                log.flush_in_background()

        self.for_each_log("flush", flush)

    def _expire_producers(self) -> None:
        now_ms, expiration_ms = self._clock.now_ms(), self._environment.producer_expiration_ms
        self.for_each_log("producers", lambda log: log.producers.expire(now_ms, expiration_ms))
