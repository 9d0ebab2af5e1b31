"""Checkpoints of many logs: collected in slices of the loop's time, and never claiming more than is true."""

import asyncio
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.log.checkpoint_format import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_offsets,
)
from odradek.broker.log.directories.checkpoint_files import CheckpointFiles
from odradek.broker.log.directories.checkpoints import Checkpoints
from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.log_environment import Claims, LogEnvironment
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.log_environments import make_batch, make_environment
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground, ThreadBackground
from odradek.world.clock import LoopClock
from odradek.world.time_slices import SLICE_MS

PATH = f"/data/{RECOVERY_POINTS}"


class Slow:
    """Offsets of four partitions, each of which takes half a slice to find out."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.environment: LogEnvironment = make_environment(clock=self.clock)
        self.files = CheckpointFiles(self.environment, "/data", lambda: False)
        self.points = {("t", partition): 100 + partition for partition in range(4)}

    def entries(self) -> Iterator[tuple[PartitionKey, int]]:
        for key in list(self.points):
            self.clock.stall(SLICE_MS / 2)
            yield key, self.points[key]

    def written(self) -> dict[PartitionKey, int] | None:
        return decode_offsets(self.environment.files.read(PATH)) if self.environment.files.exists(PATH) else None


def test_a_checkpoint_of_many_partitions_gives_the_loop_back() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    assert slow.written() is None, "two of the four were found out in the first slice"
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


def test_logs_that_are_left_out_give_the_loop_back_as_well() -> None:
    """Ten thousand logs that begin at 0, as all do at first, held it for 30 ms each minute."""
    slow = Slow()

    class BeginsAt0:
        @property
        def log_start_offset(self) -> int:
            slow.clock.stall(SLICE_MS / 2)
            return 0

    here: dict[PartitionKey, Any] = {("t", number): BeginsAt0() for number in range(8)}
    directory: Any = SimpleNamespace(offline=None, checkpoints=slow.files)
    directories: Any = SimpleNamespace(by_path={"/data": directory})
    logs: Any = SimpleNamespace(in_directory=lambda path: here)
    began_ms = slow.clock.monotonic_ms()
    Checkpoints(slow.clock, directories, logs).write_log_starts()
    assert slow.clock.monotonic_ms() - began_ms == SLICE_MS
    slow.clock.advance(10 * SLICE_MS)
    assert decode_offsets(slow.environment.files.read(f"/data/{LOG_START_OFFSETS}")) == {}


def test_what_is_being_collected_counts_as_claimed_already() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    assert slow.files.claim_more_than(Claims("t", 0, 50, 0, 0, 200)), "it was found out before the log was truncated"
    assert not slow.files.claim_more_than(Claims("t", 3, 50, 0, 0, 200)), "its turn is yet to come"
    slow.points["t", 0] = slow.points["t", 3] = 50
    slow.files.write_now({RECOVERY_POINTS: dict(slow.points)})
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points, "what was begun earlier does not replace it"
    assert not slow.files.claim_more_than(Claims("t", 0, 50, 0, 0, 200))


def test_the_end_does_not_wait_for_turns_of_the_loop() -> None:
    slow = Slow()
    slow.files.write(RECOVERY_POINTS, slow.entries)
    slow.files.finish_collecting()
    assert slow.written() == slow.points
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


def test_a_background_that_is_closed_says_that_it_takes_nothing() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        background = ThreadBackground(loop)
        background.close()
        environment = make_environment(clock=LoopClock(loop))
        environment.background = background
        files = CheckpointFiles(environment, "/data", lambda: False)
        files.write(RECOVERY_POINTS, lambda: [(("t", 0), 1)])
        assert not files._being_written and not environment.files.exists(PATH)

    asyncio.run(main())


@pytest.mark.parametrize("at", [0, 3])
def test_a_fault_while_offsets_are_collected_keeps_no_later_checkpoint_from_being_written(at: int) -> None:
    """It was taken for being written for ever: a start had all logs to recover from where they were then."""
    slow = Slow()

    def entries() -> Iterator[tuple[PartitionKey, int]]:
        for number, entry in enumerate(slow.entries()):
            if number == at:
                raise ZeroDivisionError
            yield entry

    with pytest.raises(ZeroDivisionError):
        slow.files.write(RECOVERY_POINTS, entries)
        slow.clock.advance(10 * SLICE_MS)
    slow.files.write(RECOVERY_POINTS, slow.entries)
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


def test_a_fault_while_it_is_written_keeps_no_later_checkpoint_from_being_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    told: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(slow.environment.files, "write_atomically", lambda path, data: 1 // 0)
        slow.files.write(RECOVERY_POINTS, slow.entries, lambda: told.append("the first"))
        slow.clock.advance(10 * SLICE_MS)
    assert not told and f"{PATH} was not written" in caplog.text and "ZeroDivisionError" in caplog.text
    slow.files.write(RECOVERY_POINTS, slow.entries, lambda: told.append("the second"))
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points and told == ["the second"]


def test_a_fault_of_who_waits_for_a_checkpoint_keeps_no_later_one_from_being_written() -> None:
    slow = Slow()
    with pytest.raises(ZeroDivisionError):
        slow.files.write(RECOVERY_POINTS, slow.entries, lambda: 1 // 0)
        slow.clock.advance(10 * SLICE_MS)
    slow.points["t", 0] = 500
    slow.files.write(RECOVERY_POINTS, slow.entries)
    slow.clock.advance(10 * SLICE_MS)
    assert slow.written() == slow.points


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_high_watermark_that_was_taken_back_does_not_come_again_with_the_next_start(made_anew: bool) -> None:
    """It let readers have what was not replicated: a truncation, or the deletion of a topic, left it in the file."""
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)

    def start() -> LogManager:
        logs = LogManager(files, clock, InlineBackground(), random.Random(5), ["/a"], lambda topic: LogConfig())
        logs.open(DirectoryOwner(1, "cluster-a"), lambda: None)
        return logs

    logs = start()
    for partition in range(2):
        logs.get_or_create("t", partition, is_new=True).append_as_leader(make_batch([b"x"] * 100), 0)
    logs.checkpoints.write_high_watermarks({("t", 0): 100, ("t", 1): 90}.get)
    log = logs.get_or_create("t", 0)
    if made_anew:
        logs.delete("t", 0)
        log = logs.get_or_create("t", 0, is_new=True)
    else:
        log.truncate_to(0)
    log.append_as_leader(make_batch([b"y"] * 150), 1)
    files.kill()
    found = start().checkpoints.read_high_watermarks()
    assert (found.get(("t", 0), 0), found["t", 1]) == (0, 90)


@pytest.mark.parametrize("offset", ["-5", "99999999999999999999"])
def test_a_log_start_that_no_log_can_have_does_not_count(offset: str) -> None:
    """The log was emptied for it, or began in a segment that the next start did not find."""
    files = SimulatedFiles()
    files.set_content("/a/log-start-offset-checkpoint", f"0\n2\nempty 0 {offset}\nfull 0 {offset}\n".encode())
    files.make_directory("/a/empty-0")
    files.set_content(f"/a/full-0/{0:020d}.log", bytes(make_batch([b"x"])))
    for end in (0, 1):
        logs = LogManager(files, ManualClock(), InlineBackground(), random.Random(5), ["/a"], lambda topic: LogConfig())
        logs.open(DirectoryOwner(1, "cluster-a"), lambda: None)
        assert sorted(map(str, logs.all_logs())) == [f"Log(empty-0, 0..{end})", "Log(full-0, 0..1)"]
        logs.get_or_create("empty", 0).append_as_leader(make_batch([b"x"]), 0)
        files.kill()


@pytest.mark.parametrize(("cleaned_to", "expected"), [(7, 7), (10, 10), (11, 0)])
def test_a_log_that_ends_before_what_was_compacted_is_not_taken_for_clean(cleaned_to: int, expected: int) -> None:
    """A disk that was restored from an older copy, or has lost its end: what is there was never compacted, maybe, and
    never would be."""
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)

    def start() -> LogManager:
        logs = LogManager(files, clock, InlineBackground(), random.Random(5), ["/a"], lambda topic: LogConfig())
        logs.open(DirectoryOwner(1, "cluster-a"), lambda: None)
        return logs

    logs = start()
    logs.get_or_create("t", 0, is_new=True).append_as_leader(make_batch([b"x"] * 10), 0)
    logs.close()
    files.write_atomically(f"/a/{CLEANER_OFFSETS}", encode_offsets({("t", 0): cleaned_to}), sync=True)
    assert start().get_or_create("t", 0).cleaned_to == expected
