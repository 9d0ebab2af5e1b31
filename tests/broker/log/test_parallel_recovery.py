"""After an unclean stop: child processes repair the logs, and what they leave undone the broker does itself."""

import asyncio
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.log.checkpoint_format import RECOVERY_POINTS
from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.log.recovery import parallel as parallel_recovery
from odradek.broker.log.recovery.parallel import CHILD, TornLog, encode_request, shared_out
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import KafkaError
from odradek.testing.background_work import InlineChildren
from odradek.testing.log_environments import make_batch, read_batches
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground, ThreadBackground
from odradek.world.children import Child, Children, Ended, Heard, ProcessChildren
from odradek.world.clock import LoopClock
from odradek.world.os_files import OsFiles
from odradek.world.tasks import Tasks

US = DirectoryOwner(1, "cluster-a")
CONFIG = LogConfig(segment_bytes=2000)
PARTITIONS = 4
PRODUCER = 77


@pytest.fixture(autouse=True)
def _however_little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel_recovery, "LEAST_BYTES", 0)
    yield


class Broken:
    """Children that end at once and have done nothing; or that do the first log only."""

    def __init__(self, clock: ManualClock, inner: Children | None = None) -> None:
        self.clock, self.inner, self.begun = clock, inner, 0

    def run(
        self, module: str, request: bytes, heard: Heard, ended: Ended, *, bytes_per_second: float = float("inf")
    ) -> Child:
        self.begun += 1
        if self.inner is None:
            self.clock.call_soon(lambda: ended(False))
            return self
        child = self.inner.run(module, request, lambda line: (heard(line), child.kill()), ended)
        return child

    def kill(self) -> None:
        """It has ended."""


class World:
    """Logs of one directory that were not closed, each with half a batch at its end."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(3, self.clock.now_ms)
        self.children: Children = InlineChildren(self.files, self.clock)
        logs = self.open()
        for partition in range(PARTITIONS):
            log = logs.get_or_create("t", partition, is_new=True)
            for number in range(30 + partition):
                log.append_as_leader(make_batch([b"x" * 100], producer_id=PRODUCER, sequence=number), number // 20)
            log.active.file.append(bytes(make_batch([b"torn"], base_offset=1000))[:-3])
        self.files.kill()

    def open(self, processes: int = 2) -> LogManager:
        logs = LogManager(
            self.files, self.clock, InlineBackground(), random.Random(5), ["/a"], lambda topic: CONFIG,
            children=self.children,
        )  # fmt: skip
        ready: list[bool] = []
        logs.open(US, lambda: ready.append(True), recovery_processes=processes)
        self.clock.advance(0)
        assert ready == [True]
        return logs


def state(log: Log) -> object:
    """All that an opened log knows."""
    producers = {one.producer_id: (one.epoch, one.batches) for one in log.producers.producers.values()}
    indexes = [(one.base_offset, one.size_bytes, one.offset_index.entries()) for one in log.segments]
    records = [columns.offsets for columns in read_batches(log)]
    ends = (log.log_start_offset, log.log_end_offset, log.recovery_point, log.clean_end_offset)
    return ends, log.epochs.entries(), producers, indexes, records


def test_children_leave_what_the_broker_would_have_left(caplog: pytest.LogCaptureFixture) -> None:
    apart, alone = World(), World()
    alone.children = Broken(alone.clock)
    with caplog.at_level(logging.WARNING):
        repaired = {log.partition: state(log) for log in apart.open().all_logs()}
    assert caplog.text.count("the last valid offset is") == PARTITIONS
    assert "the last valid offset is 29\n" in caplog.text
    assert repaired == {log.partition: state(log) for log in alone.open().all_logs()}
    assert len(repaired) == PARTITIONS


def test_a_producer_may_repeat_its_last_batches_after_a_repair() -> None:
    log = World().open().get("t", 0)
    assert log is not None
    for sequence in (25, 29):
        assert log.append_as_leader(make_batch([b"x" * 100], producer_id=PRODUCER, sequence=sequence), 9).duplicate
    with pytest.raises(KafkaError):
        log.append_as_leader(make_batch([b"x" * 100], producer_id=PRODUCER, sequence=24), 9)


def test_files_that_a_child_has_removed_are_not_looked_for() -> None:
    world = World()
    world.files.flip(f"/a/t-2/{0:020d}.log", 70)
    before = len([name for name in world.files.list_directory("/a/t-2") if name.endswith(".log")])
    log = world.open().get("t", 2)
    assert log is not None and before > 1 == len(log.segments)
    assert log.log_end_offset == 0


def test_what_a_child_did_not_come_to_is_done_here() -> None:
    world = World()
    children = world.children = Broken(world.clock, world.children)
    logs = world.open()
    assert children.begun == 2
    assert [log.log_end_offset for log in logs.all_logs()] == [30, 31, 32, 33]
    assert all(len(read_batches(log)) == log.log_end_offset for log in logs.all_logs())


def test_after_a_clean_stop_and_for_little_nobody_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    children = world.children = Broken(world.clock)
    monkeypatch.setattr(parallel_recovery, "LEAST_BYTES", 100_000)
    world.open().close()
    monkeypatch.setattr(parallel_recovery, "LEAST_BYTES", 0)
    world.open()
    assert children.begun == 0


@pytest.mark.parametrize(("recovery_point", "from_segment"), [(0, 0), (10, 0), (11, 1), (21, 1), (22, 2), (30, 2)])
def test_only_what_lies_after_the_recovery_point_counts(recovery_point: int, from_segment: int) -> None:
    logs = World().open()
    log = logs.all_logs()[0]
    logs.directories["/a"].checkpoints.write_now({RECOVERY_POINTS: {("t", 0): recovery_point}})
    torn = parallel_recovery.torn_logs(log.environment, logs.directories["/a"], lambda topic: CONFIG)[0]
    assert [segment.base_offset for segment in log.segments] == [0, 11, 22]
    assert torn.size_bytes == sum(segment.size_bytes for segment in log.segments[from_segment:])


def test_shares_are_about_the_same_size() -> None:
    def torn(size_bytes: int) -> TornLog:
        return TornLog("/a", "t", 0, 0, 0, 4096, ["delete"], 0, size_bytes)

    shares = shared_out([torn(size) for size in (1, 9, 5, 4, 0, 1)], 2)
    assert sorted(sum(log.size_bytes for log in share) for share in shares) == [10, 10]
    assert len(shared_out([torn(1)], 8)) == 1


def test_real_processes_on_real_files(tmp_path: Path) -> None:
    async def start(logs: LogManager) -> None:
        ready = asyncio.Event()
        logs.open(US, ready.set, recovery_processes=2)
        await asyncio.wait_for(ready.wait(), PATIENCE_SECONDS)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def make(background: ThreadBackground) -> LogManager:
            return LogManager(
                OsFiles(), LoopClock(loop), background, random.Random(), [str(tmp_path)],
                lambda topic: CONFIG, children=ProcessChildren(Tasks(LoopClock(loop), print)),
            )  # fmt: skip

        of_first = ThreadBackground(loop)
        first, second = make(of_first), make(ThreadBackground(loop))
        await start(first)
        for partition in range(2):
            log = first.get_or_create("t", partition, is_new=True)
            log.append_as_leader(make_batch([b"whole"]), 0)
            log.active.file.append(b"half a batch")
        first.directories[str(tmp_path)].release()  # as when it is killed
        await start(second)
        assert [log.log_end_offset for log in second.all_logs()] == [1, 1]
        assert (tmp_path / "t-1" / f"{1:020d}.snapshot").exists(), "a child has been there"
        second.close()
        of_first.close()

    asyncio.run(main())


def test_a_child_has_the_priority_of_the_broker_that_waits_for_it() -> None:
    """It gave way to whatever else ran: on a busy machine a start after a crash took a hundred times as long."""
    program = (
        "import atexit, os, runpy, sys\n"
        "atexit.register(lambda: print(os.getpriority(os.PRIO_PROCESS, 0)))\n"
        f"sys.argv = ['', '{os.getpid()}', 'inf']\n"
        f"runpy.run_module({CHILD!r}, run_name='__main__')\n"
    )
    nothing = encode_request([], 0, 0)
    done = subprocess.run([sys.executable, "-c", program], input=nothing, stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) == os.getpriority(os.PRIO_PROCESS, 0)
