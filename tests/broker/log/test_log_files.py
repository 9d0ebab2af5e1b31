"""Files of a log: when they are flushed, opened, closed, preallocated, and what of them is loaded."""

import os
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.log.errors import StorageFailure
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import OpenSegments
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    offset_of_max_timestamp,
    open_test_log,
    read_batches,
)
from odradek.testing.virtual_clock import ManualClock
from odradek.world.files import FileRange
from odradek.world.os_files import OsFiles
from tests.broker.log.one_log import BATCH, World, bases


def test_flush_messages_bounds_what_is_not_on_the_disk() -> None:
    world = World(flush_messages=3)
    world.append(2)
    assert world.log.recovery_point == 0
    world.append()
    assert world.log.recovery_point == 3
    world.append(2)
    world.files.crash()
    log = open_test_log(world.log.environment, world.config, recovery_point=3)
    assert log.log_end_offset >= 3


def test_a_flush_that_a_truncation_overtakes_does_not_move_the_recovery_point() -> None:
    world = World()
    waiting: list[Any] = []

    class Later:
        def run(self, work: object, done: object) -> bool:
            waiting.append((work, done))
            return True

        def resize(self, threads: int) -> None:
            raise AssertionError

        def close(self) -> None:
            raise AssertionError

    world.append(5)
    world.log.environment.background = Later()
    world.log.flush_in_background()
    world.log.truncate_to(2)
    world.append(2)
    work, done = waiting.pop()
    done(work())
    assert world.log.recovery_point <= 2


def test_truncation_tells_the_manager_when_the_recovery_point_goes_back() -> None:
    told: list[str] = []
    world = World()
    world.log.environment.truncated = told.append
    world.append(5)
    world.log.truncate_to(4)
    assert not told
    world.log.flush()
    world.log.truncate_to(2)
    assert told == [world.log.log_directory]
    assert world.log.recovery_point == 2


def test_old_segments_that_are_not_read_are_closed_and_come_back() -> None:
    world = World(segment_bytes=BATCH * 2, index_interval_bytes=1, retention_ms=-1)
    world.log.environment.open_segments = OpenSegments(limit=1)
    world.append(8)
    for _ in range(2):
        assert [columns.offsets for columns in read_batches(world.log)] == [[offset] for offset in range(8)]
    still_open = [segment.base_offset for segment in world.log.segments if segment._file is not None]
    assert still_open == [4, 6]


def test_a_log_that_rests_has_no_file_open() -> None:
    world = World(segment_bytes=BATCH * 2)

    def open_files(log: Log) -> list[int]:
        return [segment.base_offset for segment in log.segments if segment._file is not None]

    assert open_files(world.log) == []
    world.append(5)
    world.log.flush()
    records = world.log.read(4, 1000, 5, whole_first_batch=True).records
    world.log.rest()
    assert 4 in open_files(world.log), "it was written to since the last time"
    world.log.rest()
    assert 4 not in open_files(world.log)
    assert isinstance(records, FileRange) and len(records.read()) == BATCH, "who is sending goes on"
    world.append()
    assert open_files(world.log)[-1] == 4
    close_log(world.log)
    log = open_test_log(world.log.environment, world.config, clean=True)
    assert open_files(log) == []
    assert [columns.offsets for columns in read_batches(log)] == [[offset] for offset in range(6)]


def test_a_flush_opens_no_old_segment_for_longer() -> None:
    world = World(segment_bytes=BATCH * 2)
    world.append(5)
    for segment in world.log.segments[:-1]:
        segment.release()
    world.log.recovery_point = 0
    syncs = world.files.syncs
    world.log.flush()
    assert world.files.syncs > syncs + 2
    assert [segment._file for segment in world.log.segments[:-1]] == [None, None]


def test_preallocated_segments_take_their_room_at_once_and_give_back_what_is_left(tmp_path: Path) -> None:
    megabyte = 1 << 20
    config = LogConfig(preallocate=True, segment_bytes=megabyte)
    environment = make_environment(OsFiles(), ManualClock())

    def sizes(number: int) -> tuple[int, int]:
        """What the file holds, and what it takes on the disk."""
        status = os.stat(log.segments[number].path(".log"))
        return status.st_size, status.st_blocks * 512

    log = open_log(environment, str(tmp_path / "topic-0"), "topic", 0, config, clean=True)
    assert sizes(0)[0] == 0
    assert sizes(0)[1] >= megabyte
    log.append_as_leader(make_batch([b"x"]), 0)
    log.abandon()  # killed
    log = open_log(environment, str(tmp_path / "topic-0"), "topic", 0, config)
    assert log.log_end_offset == 1
    log.roll()
    assert sizes(0)[0] == len(make_batch([b"x"]))
    assert sizes(0)[1] < megabyte <= sizes(1)[1]
    close_log(log)
    assert sizes(1)[1] < megabyte


def test_a_file_that_kafka_preallocated_is_cut_to_what_was_written() -> None:
    world = World()
    world.append(3)
    world.log.active.file.append(bytes(100_000))
    log = open_test_log(world.log.environment, world.config)
    assert (log.log_end_offset, log.size_bytes) == (3, 3 * BATCH)


def test_old_segments_with_large_indexes_are_closed_earlier() -> None:
    world = World(segment_bytes=BATCH * 4, index_interval_bytes=1, retention_ms=-1)
    world.append(17)
    log = world.log
    for segment in log.segments[:-1]:
        segment.release()
    one = 3 * 8  # the first of four batches has no entry
    log.environment.open_segments = OpenSegments(limit_bytes=2 * one)
    for _ in range(3):
        assert len(read_batches(log)) == 17
    loaded = [segment.index_bytes for segment in log.segments[:-1]]
    assert set(loaded) == {0, one}
    assert sum(loaded) <= 3 * one, "the newest counts from its next use on"
    for segment in log.segments:
        log.environment.open_segments.forget(segment)
    assert log.environment.open_segments._bytes == 0


def test_a_reader_of_old_segments_loads_no_time_index() -> None:
    world = World(segment_bytes=BATCH * 4, index_interval_bytes=1)
    world.append(9)
    close_log(world.log)
    log = open_test_log(world.log.environment, world.config, clean=True)
    assert len(read_batches(log)) == 9
    assert [segment._time_index for segment in log.segments[:-1]] == [None, None]
    assert offset_of_max_timestamp(log) is not None


def test_retention_does_not_load_the_indexes_of_old_segments() -> None:
    world = World(segment_bytes=BATCH * 2, index_interval_bytes=1)
    world.append(8)
    close_log(world.log)
    log = open_test_log(world.log.environment, world.config, clean=True)
    assert delete_old_segments(log, 8) == 0
    assert all(segment._time_index is None for segment in log.segments[:-1])


def test_a_deleted_log_that_is_still_read_takes_no_directory_offline() -> None:
    world, heard = World(segment_bytes=BATCH * 2), []
    world.log.environment.failed = lambda directory, cause: heard.append(directory)
    world.append(5)
    world.log.abandon()
    world.files.remove_directory(DIRECTORY)
    with pytest.raises(StorageFailure):
        world.log.read(0, 100, 5, whole_first_batch=True)
    assert heard == []


def test_an_untouched_log_is_closed_without_a_sync() -> None:
    world = World()
    world.append(3)
    close_log(world.log)
    log = open_test_log(world.log.environment, world.config, clean=True)
    syncs = world.files.syncs
    close_log(log)
    assert world.files.syncs == syncs
    assert open_test_log(world.log.environment, world.config, clean=True).log_end_offset == 3


@pytest.mark.parametrize("seed", range(6))
def test_what_was_truncated_does_not_come_back_before_a_newer_segment(seed: int) -> None:
    world = World(segment_bytes=BATCH * 3)
    world.append(4)  # the first segment is full, and synced when the second begins
    world.log.truncate_to(2)
    world.log.append_as_leader(make_batch([b"y" * 2 * BATCH]), 1)
    assert bases(world.log) == [0, 2]
    world.log.flush()
    world.files.random.seed(seed)
    world.files.crash()
    log = open_test_log(world.log.environment, world.config, recovery_point=3)
    assert [columns.offsets for columns in read_batches(log)] == [[0], [1], [2]]
    assert log.segments[0].size_bytes == 2 * BATCH
