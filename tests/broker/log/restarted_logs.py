"""Logs of a broker that can be started again on the same disks."""

import random

from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground

US = DirectoryOwner(1, "cluster-a")

TOPIC_ID = bytes(range(16))


class Broker:
    """A log manager that can be started again on the same disks."""

    def __init__(self, directories: tuple[str, ...] = ("/a", "/b")) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(7, self.clock.now_ms)
        self.directories = directories
        self.config = LogConfig(segment_bytes=500, retention_bytes=0, retention_ms=-1)
        self.settings = LogManagerSettings(log_initial_task_delay_ms=100)
        self.lost: list[tuple[str, list[tuple[str, int]]]] = []
        self.logs = self.make()

    def make(self) -> LogManager:
        return LogManager(
            self.files,
            self.clock,
            InlineBackground(),
            random.Random(5),
            self.directories,
            lambda topic: self.config,
            settings=self.settings,
            directory_failed=lambda path, cause, partitions: self.lost.append((path, partitions)),
        )

    def start(self, identity: DirectoryOwner = US) -> "Broker":
        self.logs = self.make()
        ready = []
        self.logs.open(identity, lambda: ready.append(True))
        assert ready == [True]
        return self

    def write(self, topic: str, partition: int, count: int = 1) -> None:
        log = self.logs.get_or_create(topic, partition, TOPIC_ID, is_new=True)
        for _ in range(count):
            log.append_as_leader(make_batch([b"x" * 100]), 0)
