"""Copying a log while it is appended to, truncated, trimmed and begun anew: at the end the two are the same."""

import errno
import random
from dataclasses import replace

import pytest

from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import FULL_DISK_PAUSE_MS, LogEnvironment
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.log.segment import Segment
from odradek.broker.replication import log_copy
from odradek.broker.replication.log_copy import LogCopy
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.background_work import DeferredBackground
from odradek.testing.log_environments import make_batch
from odradek.testing.simulated_files import Fault, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground

CONFIG = LogConfig(segment_bytes=2_000, retention_bytes=3_000, retention_ms=-1, index_interval_bytes=200)
TURNS_MAX = 1_000


class World:
    """Two logs of one partition in two directories, and a copy that is taken turn by turn."""

    def __init__(self, seed: int, background: DeferredBackground | InlineBackground | None = None) -> None:
        self.clock = ManualClock()
        self.random = random.Random(seed)
        self.background = background or DeferredBackground(self.random)
        self.failed: list[str] = []
        files = SimulatedFiles(seed, self.clock.now_ms)
        self.environment = LogEnvironment(
            files, self.clock, self.background, self.random, failed=lambda path, cause: self.failed.append(path)
        )
        self.files = files
        self.source, self.target = self._log("/a/t-0"), self._log("/b/t-0.1-future")
        self.epoch = 0
        self.begin()

    def _log(self, path: str) -> Log:
        return open_log(self.environment, path, "t", 0, CONFIG, clean=True)

    def begin(self) -> None:
        """A copy, as after a restart when there was one before."""
        self.copy = LogCopy(self.source, self.target, self.clock)
        self.due, self.whole = True, False

    def _is_due(self) -> None:
        self.due = True

    def turn(self) -> None:
        if self.due:
            self.due = False
            self.whole = self.copy.advance(self._is_due)
            if self.whole:
                self.due = True
                return
        if isinstance(self.background, DeferredBackground):
            self.background.step()
        self.clock.advance(0)

    def finish(self) -> None:
        for _ in range(TURNS_MAX):
            self.whole = False
            self.turn()
            if self.whole:
                return
        raise AssertionError(f"{self.copy} does not end")

    # what may happen to the source

    def append(self) -> None:
        values = [self.random.randbytes(self.random.randrange(200)) for _ in range(self.random.randrange(1, 5))]
        self.source.append_as_leader(make_batch(values), self.epoch)

    def truncate(self) -> None:
        """As a follower whose leader does not have the end: the next comes with a newer epoch."""
        start, end = self.source.log_start_offset, self.source.log_end_offset
        self.source.truncate_to(self.random.randrange(start, end + 1))
        self.epoch += 1

    def elect(self) -> None:
        self.epoch += 1
        self.source.assign_epoch(self.epoch, self.source.log_end_offset)

    def trim(self) -> None:
        start, end = self.source.log_start_offset, self.source.log_end_offset
        self.source.advance_log_start_offset(self.random.randrange(start, end + 1))
        delete_old_segments(self.source, end)

    def begin_anew(self) -> None:
        self.source.truncate_fully_and_start_at(self.source.log_end_offset + self.random.randrange(1, 10))
        self.epoch += 1

    def flush(self) -> None:
        self.source.flush()


def content(log: Log) -> bytes:
    """Everything a reader can have."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        segment = log.segments[log.segment_number(offset)]
        for batch in segment.batches_from(offset) if segment.size_bytes else ():
            found += segment.file.pread(batch.size_bytes, batch.position)
            offset = batch.last_offset + 1
        after = [one.base_offset for one in log.segments if one.base_offset > segment.base_offset]
        offset = max(offset, min(after, default=log.log_end_offset))
    return found


def check_same(source: Log, target: Log) -> None:
    assert (target.log_start_offset, target.log_end_offset) == (source.log_start_offset, source.log_end_offset)
    assert content(target) == content(source)
    assert target.recovery_point >= source.recovery_point
    for epoch, start in target.epochs.entries() if content(source) else ():
        assert (
            source.end_offset_for_epoch(epoch)[0] == epoch
            and source.epochs.epoch_at(max(start, source.log_start_offset)) == epoch
        )


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_meanwhile(seed: int) -> None:
    world = World(seed)
    events = [world.append] * 6 + [world.truncate, world.elect, world.trim, world.flush]
    if seed % 4 == 0:
        events += [world.begin_anew]
    for _ in range(world.random.randrange(20, 200)):
        world.random.choice([*events, world.turn, world.turn, world.turn, world.begin] if seed % 2 else events)()
        if world.random.random() < 0.5:
            world.turn()
    world.finish()
    check_same(world.source, world.target)


def test_a_copy_that_finds_no_descriptor_for_its_cut_is_cut_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the target has an end that the source has not."""
    world = World(1, InlineBackground())
    for log, epoch in ((world.source, 2), (world.target, 1)):
        log.append_as_leader(make_batch([b"both"]), 0)
        log.append_as_leader(make_batch([b"of epoch %d" % epoch]), epoch)
    world.source.append_as_leader(make_batch([b"more"]), 2)
    world.begin()
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "place_of_cut", _exhausted)
        with pytest.raises(StorageFailure):
            world.turn()
    assert not world.failed
    world.due = True
    world.finish()
    check_same(world.source, world.target)


def _exhausted(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_end_of_a_compacted_log_without_a_batch() -> None:
    """A segment from which compaction took the last batches, and an empty one after it."""
    for written in (0, 3):
        world = World(1)
        for _ in range(written):
            world.append()
        world.source.roll(100)
        world.source.log_end_offset = 100
        world.finish()
        check_same(world.source, world.target)
        assert world.target.log_end_offset == 100
        world.source.append_as_leader(make_batch([b"next"]), 0)
        world.finish()
        check_same(world.source, world.target)


def test_what_was_written_is_brought_to_the_disk_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "UNSYNCED_BYTES_MAX", 40_000)
    monkeypatch.setattr(log_copy, "READ_BYTES", 10_000)
    world = World(1, InlineBackground())
    world.source.config = world.target.config = LogConfig()
    for _ in range(500):
        world.append()
    world.finish()
    check_same(world.source, world.target)
    assert 0 < world.target.recovery_point < world.target.log_end_offset


def test_a_source_that_is_flushed_all_the_time_is_caught_up_with() -> None:
    world = World(1)
    for _ in range(200):
        world.append()
        world.source.flush()
        world.turn()
        if world.whole:
            break
    check_same(world.source, world.target)
    assert world.whole


def test_a_full_disk_is_reported_and_goes_on() -> None:
    world = World(1)
    for _ in range(20):
        world.append()
    world.files.capacity_bytes = 0
    with pytest.raises(KafkaError) as refused:
        world.finish()
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR and not world.failed
    world.files.capacity_bytes = None
    world.clock.advance(FULL_DISK_PAUSE_MS)
    world.due = True
    world.finish()
    check_same(world.source, world.target)


def with_failing_disk(path: str) -> World:
    world = World(1)
    for _ in range(20):
        world.append()
    world.turn()
    world.files.fault = Fault(world.files.calls, 1000, under=path)
    return world


def test_a_disk_of_the_target_that_fails_ends_the_copy() -> None:
    world = with_failing_disk("/b")
    with pytest.raises(StorageFailure):
        world.finish()
    assert set(world.failed) == {"/b"}


def test_a_disk_of_the_source_that_fails_is_reported_as_that_and_nothing_is_copied() -> None:
    world = with_failing_disk("/a")
    with pytest.raises(AssertionError, match="does not end"):
        world.finish()
    assert set(world.failed) == {"/a"}
    assert world.target.log_end_offset == 0


@pytest.mark.parametrize("at", [9, 100])  # in the length of the first batch, in its records
def test_damage_in_the_source_is_not_copied(at: int) -> None:
    world = World(1)
    for _ in range(20):
        world.append()
    segment = world.source.segments[0]
    data = bytearray(world.files.read(segment.path(".log")))
    data[at] ^= 1
    world.files.write_atomically(segment.path(".log"), data)
    segment.release()
    with pytest.raises(KafkaError) as refused:
        world.finish()
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_transaction_whose_marker_was_compacted_away_is_not_open_in_the_copy() -> None:
    """After a restart the target has records of it; the source has neither those nor the marker any more."""
    world = World(1, InlineBackground())
    world.source.config = replace(CONFIG, cleanup_policy=frozenset({"compact"}))
    later = make_batch([b"later"], base_offset=3, epoch=0)
    for log in (world.source, world.target):
        log.append_as_follower(make_batch([b"before"], epoch=0))
    world.target.append_as_follower(
        make_batch([b"a record"], base_offset=1, epoch=0, producer_id=7, transactional=True)
    )
    world.source.append_as_follower(later)
    world.begin()
    world.finish()
    check_same(world.source, world.target)
    assert world.target.last_stable_offset(4) == 4


def test_what_is_not_compacted_is_not_copied_again_for_its_open_transactions() -> None:
    world = World(1, InlineBackground())
    for log in (world.source, world.target):
        log.append_as_follower(make_batch([b"a record"], epoch=0, producer_id=7, transactional=True))
    world.begin()
    world.finish()
    check_same(world.source, world.target)
    assert world.copy.copied_bytes == 0
