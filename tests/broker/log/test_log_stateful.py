"""The log against a list: whatever is done to it, it holds what the list holds, and a crash loses only what was not
synced and never leaves half a batch."""

import random
from typing import Any

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.records import decode_records
from odradek.testing.log_environments import (
    close_log,
    make_batch,
    make_environment,
    offset_for_timestamp,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock

CONFIG = LogConfig(
    segment_bytes=1000, index_interval_bytes=150, retention_bytes=3000, retention_ms=-1, file_delete_delay_ms=10
)

ModelBatch = tuple[tuple[int, ...], tuple[bytes | None, ...], int]
"""Offsets, values, leader epoch."""


def batches_of(log) -> list[ModelBatch]:
    found: list[Any] = []
    for number, segment in enumerate(log.segments):
        end = log.log_end_offset if number + 1 == len(log.segments) else log.segments[number + 1].base_offset
        for batch in segment.batches_from(segment.base_offset) if segment.size_bytes else ():
            records = decode_records(segment.file.pread(batch.size_bytes, batch.position))
            assert batch.last_offset < end
            found.append((tuple(records.offsets), tuple(records.values), batch.leader_epoch))
    return found


class LogMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(seed, self.clock.now_ms)
        self.environment = make_environment(self.files, self.clock)
        self.random = random.Random(seed)
        self.log = open_test_log(self.environment, CONFIG, clean=True)
        self.model: list[ModelBatch] = []
        self.earlier: list[list[ModelBatch]] = []
        """What the log held before each truncation since: a crash may bring it back."""
        self.deleted: list[ModelBatch] = []
        """What retention took: a crash may bring back the end of it."""
        self.epoch = 0
        self.start = self.end = 0

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6), value_bytes=st.integers(0, 200))
    def append(self, sizes: list[int], value_bytes: int) -> None:
        for count in sizes:
            values = [self.random.randbytes(value_bytes) for _ in range(count)]
            appended = self.log.append_as_leader(make_batch(values, timestamp_ms=self.clock.now_ms()), self.epoch)
            assert (appended.first_offset, appended.last_offset) == (self.end, self.end + count - 1)
            self.model.append((tuple(range(self.end, self.end + count)), tuple(values), self.epoch))
            self.end += count
            self.clock.advance(1)

    @rule(count=st.integers(2, 4))
    def append_fetched(self, count: int) -> None:
        data = bytearray()
        for _ in range(count):
            values = [self.random.randbytes(20)]
            data += make_batch(values, base_offset=self.end, epoch=self.epoch, timestamp_ms=self.clock.now_ms())
            self.model.append(((self.end,), tuple(values), self.epoch))
            self.end += 1
        self.log.append_as_follower(bytes(data) + bytes(data[:30]))

    @rule()
    def elect(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    @rule(fraction=st.floats(0, 1), length=st.floats(0, 1), max_bytes=st.integers(0, 2000), whole=st.booleans())
    def read(self, fraction: float, length: float, max_bytes: int, whole: bool) -> None:
        offset = self.start + round(fraction * (self.end - self.start))
        limit = offset + round(length * (self.end - offset))
        found = self.log.read(offset, max_bytes, limit, whole_first_batch=whole)
        data = found.records if isinstance(found.records, bytes) else found.records.read()
        assert len(data) == len(found.records)
        visible = [batch for batch in self.model if batch[0][-1] >= offset and batch[0][-1] < limit]
        if visible:
            first = self.log.read(offset, 0, limit, whole_first_batch=True)
            assert bool(data) == (whole or max_bytes >= len(first.records))
        at = 0
        for offsets, values, _ in visible:
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            if at + 12 > len(data) or at + size > len(data):
                assert at > 0 or not data
                break
            records = decode_records(data, at)
            assert (tuple(records.offsets), tuple(records.values)) == (offsets, values)
            at += size

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = self.start + round(fraction * (self.end - self.start))
        self.earlier.append(list(self.model))
        assert self.log.truncate_to(offset) is (offset < self.end)
        first = self.log.segments[0].base_offset
        self.model = [batch for batch in self.model if batch[0][-1] < offset and batch[0][0] >= first]
        self.end = self.log.log_end_offset
        last = self.model[-1][0][-1] + 1 if self.model else self.start
        assert last <= self.end <= max(offset, self.start)
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        assert self.log.roll() is self.log.active
        assert self.log.active.base_offset == self.end

    @rule(ahead=st.integers(-5, 50))
    def start_over(self, ahead: int) -> None:
        """As a follower whose leader has nothing of what it has."""
        self.start = self.end = max(0, self.end + ahead)
        self.log.truncate_fully_and_start_at(self.end)
        self.model, self.earlier, self.deleted = [], [], []
        self.epoch += 1

    @rule(fraction=st.floats(0, 1))
    def search_by_time(self, fraction: float) -> None:
        timestamp = FIRST_WALL_CLOCK_MS + round(fraction * (self.clock.now_ms() - FIRST_WALL_CLOCK_MS))
        found = offset_for_timestamp(self.log, timestamp)
        times = [
            (time, offset)
            for records in read_batches(self.log)
            for time, offset in zip(records.timestamps, records.offsets, strict=True)
            if time >= timestamp and offset >= self.start
        ]
        assert (found and found[:2]) == (times[0] if times else None)

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        self.start += round(fraction * (self.end - self.start))
        self.log.advance_log_start_offset(self.start)

    @rule()
    def retain(self) -> None:
        delete_old_segments(self.log, self.end)
        self.forget_deleted()
        self.clock.advance(20)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end
        self.earlier.clear()

    @rule()
    def reopen(self) -> None:
        close_log(self.log)
        self.log = open_test_log(self.environment, CONFIG, recovery_point=self.end, clean=True)
        self.forget_deleted()
        assert self.log.recovery_point == self.end
        self.earlier.clear()

    @rule()
    def kill(self) -> None:
        recovery_point = self.log.recovery_point
        self.files.kill()
        self.log = open_test_log(self.environment, CONFIG, recovery_point=recovery_point)
        self.forget_deleted()
        assert self.log.log_end_offset == self.end

    @rule()
    def crash(self) -> None:
        recovery_point, end = self.log.recovery_point, self.end
        self.files.crash()
        self.log = open_test_log(self.environment, CONFIG, recovery_point=recovery_point)
        note(f"recovered {self.log} of {recovery_point}..{end}")
        survived = batches_of(self.log)
        possible = [self.deleted + batches for batches in (*self.earlier, self.model)]
        assert any(is_run_of(survived, batches) for batches in possible), (survived, possible)
        self.end, self.start = self.log.log_end_offset, self.log.log_start_offset
        assert self.end >= recovery_point
        self.model, self.earlier, self.deleted = survived, [], []
        self.epoch = max(self.epoch, self.log.epochs.latest)

    def forget_deleted(self) -> None:
        first = self.log.segments[0].base_offset
        self.start = self.log.log_start_offset
        self.deleted += [batch for batch in self.model if batch[0][0] < first]
        for batches in (self.model, *self.earlier):
            batches[:] = [batch for batch in batches if batch[0][0] >= first]

    @invariant()
    def holds_the_model(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert batches_of(log) == self.model
        read = [tuple(records.offsets) for records in read_batches(log)]
        assert read == [batch[0] for batch in self.model if batch[0][-1] >= self.start]
        covered = [batch for batch in self.model if log.epochs.epoch_at(batch[0][0]) >= 0]
        assert all(log.epochs.epoch_at(batch[0][0]) == batch[2] for batch in covered)

    def teardown(self) -> None:
        """Nothing to give back: all of it is in memory."""


def is_run_of(survived: list[ModelBatch], batches: list[ModelBatch]) -> bool:
    """Whether these are consecutive batches of those."""
    if not survived:
        return True
    if survived[0] not in batches:
        return False
    first = batches.index(survived[0])
    return batches[first : first + len(survived)] == survived


LogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLogAgainstModel = LogMachine.TestCase
