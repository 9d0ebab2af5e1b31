"""One log on a simulated disk."""

from typing import Any

from odradek.broker.log.log import Log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import (
    DIRECTORY,
    make_batch,
    make_environment,
    open_test_log,
)
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock

BATCH = len(make_batch([b"x" * 50]))


class World:
    """A log on simulated files with a clock."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(now_ms=self.clock.now_ms)
        self.config = LogConfig(**settings)
        self.log = open_test_log(make_environment(self.files, self.clock), self.config, clean=True)

    def append(self, count: int = 1, timestamp_ms: int | None = None) -> None:
        for _ in range(count):
            at = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
            self.log.append_as_leader(make_batch([b"x" * 50], timestamp_ms=at), 0)

    def names(self, suffix: str) -> list[str]:
        return [name for name in self.files.list_directory(DIRECTORY) if name.endswith(suffix)]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]
