"""Chores of a broker's logs, and how long they hold the loop up: measured against a goal.

    python bench/log_chores.py [--logs 2000] [--move-mb 64] [--directory DIR]

Rows: for each chore over all logs, the longest time between two turns of the loop, in processor time of the loop's
thread (a busy machine does not count) and on the clock. The last rows move one replica to another log directory, with
nothing else to do and while it is appended to. Exit code 1 when a turn took longer than the goal.
"""

import argparse
import asyncio
import gc
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import this_tree  # noqa: F401

from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.directories.maintenance import LogMaintenance
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.throttling import RateLimit
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import make_batch
from odradek.world.background import ThreadBackground
from odradek.world.clock import LoopClock
from odradek.world.os_files import OsFiles

GOAL_MS = 20.0
SEGMENTS = 8
MB = 1 << 20
APPENDED_BYTES = 100_000


class Turns:
    """Looks at the clocks once in every turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.begin()
        self._look()

    def begin(self) -> None:
        self._processor, self._wall = time.thread_time(), time.perf_counter()
        self.longest_processor_ms = self.longest_wall_ms = 0.0

    def _look(self) -> None:
        processor, wall = time.thread_time(), time.perf_counter()
        self.longest_processor_ms = max(self.longest_processor_ms, 1000 * (processor - self._processor))
        self.longest_wall_ms = max(self.longest_wall_ms, 1000 * (wall - self._wall))
        self._processor, self._wall = processor, wall
        self._loop.call_soon(self._look)


class Settings:
    """Settings of all logs alike, changed on the way."""

    def __init__(self) -> None:
        self.config = LogConfig(segment_bytes=600, retention_ms=-1, file_delete_delay_ms=3_600_000)

    def of(self, topic: str) -> LogConfig:
        return self.config


class Bench:
    def __init__(self, where: Path, logs: int) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self.background = ThreadBackground(loop)
        self.settings = Settings()
        self.logs = LogManager(
            OsFiles(),
            self.clock,
            self.background,
            random.Random(1),
            [str(where / "a"), str(where / "b")],
            self.settings.of,
            settings=LogManagerSettings(),
        )
        self.count = logs
        self.turns = Turns(loop)
        self.missed = False

    async def fill(self) -> None:
        opened = asyncio.Event()
        self.logs.open(DirectoryOwner(0, "bench"), opened.set)
        await opened.wait()
        self.logs.protect_from(lambda log: log.log_end_offset)
        for number in range(self.count):
            log = self.logs.get_or_create(f"topic-{number}", 0, number.to_bytes(16, "big"), is_new=True)
            for _ in range(SEGMENTS):
                log.append_as_leader(make_batch([bytes(500)]), 0)
            await asyncio.sleep(0)

    async def measure(self, name: str, act: Callable[[], object], until: Callable[[], Awaitable[object]]) -> None:
        gc.collect()
        self.turns.begin()
        act()
        await until()
        self.report(name)

    def report(self, name: str, more: str = "") -> None:
        turns = self.turns
        self.missed |= turns.longest_processor_ms > GOAL_MS
        print(f"{name:32} {turns.longest_processor_ms:8.1f} ms {turns.longest_wall_ms:8.1f} ms  {more}", flush=True)

    async def chores(self) -> None:
        maintenance: LogMaintenance = self.logs._maintenance
        points = self.logs.checkpoints
        watermarks = {(log.topic, log.partition): log.log_end_offset for log in self.logs.all_logs()}
        await self.measure("nothing", lambda: None, rest)
        await self.measure("recovery points", points.write_recovery_points, rest)
        await self.measure("log starts", points.write_log_starts, rest)
        await self.measure("high watermarks", lambda: points.write_high_watermarks(watermarks.get), rest)
        await self.measure("producers", maintenance._expire_producers, rest)
        await self.measure("settings of the broker", self.logs.configure_all, rest)
        await self.measure("retention, nothing to do", maintenance._apply_retention, rest)
        self.use(LogConfig(flush_ms=0, retention_ms=-1))
        await self.measure("flush of all", maintenance._flush_overdue, rest)
        self.use(LogConfig(retention_bytes=0, segment_bytes=600, file_delete_delay_ms=3_600_000))
        await self.measure("retention of everything", maintenance._apply_retention, rest)

    def use(self, config: LogConfig) -> None:
        self.settings.config = config
        for log in self.logs.all_logs():
            log.configure(config)

    async def retention_of_one(self, segments: int) -> None:
        log = self.logs.get_or_create("long", 0, bytes(15) + b"l", is_new=True)
        log.configure(LogConfig(segment_bytes=600))
        for _ in range(segments):
            log.append_as_leader(make_batch([bytes(500)]), 0)
            await asyncio.sleep(0)
        log.configure(LogConfig(segment_bytes=600, retention_bytes=0))
        await self.measure(f"retention of {segments} segments", self.logs._maintenance._apply_retention, rest)

    async def move(self, size_bytes: int, *, busy: bool) -> None:
        topic = "busy" if busy else "moving"
        log = self.logs.get_or_create(topic, 0, bytes(15) + topic[:1].encode(), is_new=True)
        batch = bytes(make_batch([bytes(1000)] * (APPENDED_BYTES // 1000)))
        while log.size_bytes < size_bytes:
            log.append_as_leader(bytearray(batch), 0)
            await asyncio.sleep(0)
        partition = Partition(topic, 0, 0, log)
        moves = DirectoryMoves(
            {(topic, 0): partition}, self.logs, self.clock, RateLimit(self.clock, RateWindows(11, 1000.0))
        )
        idle = asyncio.Event()
        self.background.run(lambda: None, lambda _: idle.set())
        await idle.wait()  # what the chores have begun
        away = next(path for path in self.logs.directories if path != log.log_directory)
        self.turns.begin()
        began = time.perf_counter()
        assert moves.alter(topic, 0, away, exists=True) == 0
        appended = await self._until_moved(partition, log, batch if busy else b"")
        took = time.perf_counter() - began
        more = f"{partition.log.size_bytes / MB / took:.0f} MB/s"
        self.report(
            "move, appended to" if busy else "move", more + (f", {appended / MB / took:.0f} MB/s appended" * busy)
        )

    @staticmethod
    async def _until_moved(partition: Partition, former: Log, batch: bytes) -> int:
        appended = 0
        while partition.log is former:
            if batch:
                partition.log.append_as_leader(bytearray(batch), 0)
                appended += len(batch)
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        return appended


async def rest(seconds: float = 1.0) -> None:
    """Wait while what was begun goes on."""
    await asyncio.sleep(seconds)


async def run(where: Path, logs: int, move_bytes: int) -> bool:
    bench = Bench(where, logs)
    await bench.fill()
    gc.disable()  # the broker freezes what lives long
    print(f"{logs} logs; the goal is {GOAL_MS:.0f} ms\n{'':32} {'processor':>11} {'clock':>11}")
    await bench.chores()
    await bench.retention_of_one(logs // 2)
    bench.use(LogConfig(retention_ms=-1))
    await bench.move(move_bytes, busy=False)
    await bench.move(move_bytes, busy=True)
    bench.logs.close()
    return not bench.missed


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--logs", type=int, default=2_000, help="number of logs")
    arguments.add_argument(
        "--move-mb", type=int, default=64, help="megabytes of the log that is moved to another directory"
    )
    arguments.add_argument("--directory", type=Path, default=None, help="folder for the logs")
    given = arguments.parse_args()
    where = Path(tempfile.mkdtemp(dir=given.directory))
    try:
        return 0 if asyncio.run(run(where, given.logs, given.move_mb * MB)) else 1
    finally:
        shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
