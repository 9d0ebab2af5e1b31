"""A clean shutdown: all is on the disk before the marker is, whoever synced it."""

import errno
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from odradek.broker.log.directories.directory_files import CLEAN_SHUTDOWN, DirectoryOwner
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import SimulatedFile, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import Background, InlineBackground

T = TypeVar("T")

US = DirectoryOwner(1, "cluster-a")
PARTITIONS = 3


class Deaf(InlineBackground):
    """Once `deaf` it takes nothing any more, as after `close`."""

    deaf = False

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        return not self.deaf and super().run(work, done)


def start(files: SimulatedFiles, clock: ManualClock, background: Background) -> LogManager:
    logs = LogManager(files, clock, background, random.Random(5), ["/a", "/b"], lambda topic: LogConfig())
    logs.open(US, lambda: None)
    return logs


def write(logs: LogManager) -> None:
    for partition in range(PARTITIONS):
        logs.get_or_create("t", partition, is_new=True).append_as_leader(make_batch([b"x"], producer_id=7), 3)


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_after_a_clean_shutdown_a_power_failure_takes_nothing(seed: int, deaf: bool) -> None:
    clock, background = ManualClock(), Deaf()
    files = SimulatedFiles(seed, clock.now_ms)
    logs = start(files, clock, background)
    write(logs)
    background.deaf = deaf
    logs.close()
    files.crash()
    again = start(files, clock, InlineBackground())
    assert [(log.log_end_offset, log.clean_end_offset, log.recovery_point) for log in again.all_logs()] == [
        (1, 1, 1)
    ] * PARTITIONS
    assert all(log.epochs.entries() == [(3, 0)] and list(log.producers.producers) == [7] for log in again.all_logs())
    assert all(len(log.active.time_index) == 1 for log in again.all_logs())


def test_a_log_that_never_held_a_record_is_closed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)
    logs = start(files, clock, InlineBackground())
    for partition in range(PARTITIONS):
        logs.get_or_create("t", partition, is_new=True).assign_epoch(3, 0)
    synced: list[str] = []
    sync, sync_directory = SimulatedFile.sync, SimulatedFiles.sync_directory
    monkeypatch.setattr(SimulatedFile, "sync", lambda file: (synced.append(file.path), sync(file)))
    monkeypatch.setattr(
        SimulatedFiles, "sync_directory", lambda self, path: (synced.append(path), sync_directory(self, path))
    )
    logs.close()
    assert synced and not [path for path in synced if "/t-" in path]
    files.crash()
    again = start(files, clock, InlineBackground())
    assert [(log.log_end_offset, log.clean_end_offset) for log in again.all_logs()] == [(0, 0)] * PARTITIONS


def test_a_directory_that_cannot_be_synced_gets_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)
    logs = start(files, clock, InlineBackground())
    write(logs)
    sync = SimulatedFile.sync

    def fail(file: SimulatedFile) -> None:
        if file.path.startswith("/a/t-") and file.path.endswith(".log"):
            raise OSError(errno.EIO, "a bad disk", file.path)
        sync(file)

    monkeypatch.setattr(SimulatedFile, "sync", fail)
    logs.close()
    assert not files.exists(f"/a/{CLEAN_SHUTDOWN}")
    assert files.exists(f"/b/{CLEAN_SHUTDOWN}")


def test_a_broker_that_is_stopped_while_it_opens_leaves_no_marker() -> None:
    clock, background = ManualClock(), Deaf()
    files = SimulatedFiles(1, clock.now_ms)
    logs = start(files, clock, background)
    write(logs)
    files.kill()
    background.deaf = True
    start(files, clock, background).close()
    assert not files.exists(f"/a/{CLEAN_SHUTDOWN}")
    again = start(files, clock, InlineBackground())
    assert [log.clean_end_offset for log in again.all_logs()] == [-1] * PARTITIONS


def test_a_lock_that_cannot_be_closed_keeps_the_other_directory_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker ended with a stack there: the other directory was not closed, and ZooKeeper waited for the session."""
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)
    logs = start(files, clock, InlineBackground())
    write(logs)
    close = SimulatedFile.close

    def fails(file: SimulatedFile) -> None:
        close(file)
        raise OSError(errno.EIO, "the disk is gone", file.path)

    monkeypatch.setattr(SimulatedFile, "close", fails)
    logs.close()
    assert all(files.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in ("/a", "/b"))
    again = start(files, clock, InlineBackground())
    assert [log.clean_end_offset for log in again.all_logs()] == [1] * PARTITIONS


@pytest.mark.parametrize("written", [True, False])
def test_what_waits_for_its_removal_has_files_of_its_indexes_after_a_clean_shutdown(written: bool) -> None:
    """Kafka, started on the directory, said an error of each topic that had been deleted in the last minute, and
    recovered it."""
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)
    logs = start(files, clock, InlineBackground())
    logs.get_or_create("t", 0, is_new=True)
    if written:
        logs.get_or_create("t", 0, is_new=False).append_as_leader(make_batch([b"x"]), 3)
    logs.delete("t", 0)
    logs.close()
    (left,) = [name for name in files.list_directory("/a") if name.startswith("t-0.")]
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= set(files.list_directory(f"/a/{left}"))
