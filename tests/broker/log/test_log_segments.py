"""Segments of a log: when they roll and are deleted, what is read from them and found by time."""

import pytest

from odradek.broker.log.offset_lookup import offsets_before
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records import encode_batch
from odradek.testing.log_environments import (
    DIRECTORY,
    make_batch,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_test_log,
    read_batches,
)
from odradek.world.files import FileRange
from tests.broker.log.one_log import BATCH, World, bases


def test_roll_by_size() -> None:
    world = World(segment_bytes=BATCH * 3)
    world.append(7)
    assert bases(world.log) == [0, 3, 6]
    assert world.names(".log") == [f"{offset:020d}.log" for offset in (0, 3, 6)]
    assert world.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (3, 6)]


def test_roll_by_age_counts_from_the_first_record() -> None:
    world = World(segment_ms=1000)
    world.append()
    world.clock.advance(1000)
    world.append()
    assert bases(world.log) == [0]
    world.clock.advance(1)
    world.append()
    assert bases(world.log) == [0, 2]


def test_jitter_is_taken_off_the_age() -> None:
    """So that the segments of many partitions, which were begun together, do not all end together."""
    world = World(segment_ms=1000, segment_jitter_ms=500)
    jitter_ms = world.log.active.roll_jitter_ms
    assert 0 < jitter_ms < 500
    world.append()
    world.clock.advance(1000 - jitter_ms)
    world.append()
    assert bases(world.log) == [0]
    world.clock.advance(1)
    world.append()
    assert bases(world.log) == [0, 2]


def test_roll_by_age_counts_from_the_making_when_records_have_no_time() -> None:
    world = World(segment_ms=1000)
    world.append(timestamp_ms=-1)
    world.clock.advance(1001)
    world.append(timestamp_ms=-1)
    assert bases(world.log) == [0, 1]


def test_roll_when_an_index_is_full() -> None:
    world = World(index_interval_bytes=1, segment_index_bytes=48)
    world.append(9)
    assert bases(world.log) == [0, 7]  # six entries of 8 bytes, and none for the first batch
    world = World(index_interval_bytes=1, segment_index_bytes=48)
    for timestamp in range(9):
        world.append(timestamp_ms=timestamp)
    assert bases(world.log) == [0, 4, 8]  # three entries of 12 bytes, the fourth place is for the last


def test_roll_before_a_relative_offset_overflows() -> None:
    world = World()
    world.append()
    far = 2**31 + 5
    world.log.append_as_follower(bytes(make_batch(base_offset=far)))
    assert bases(world.log) == [0, far]
    assert [columns.offsets for columns in read_batches(world.log)] == [[0], [far]]


def test_retention_by_size_keeps_at_least_that_much() -> None:
    world = World(segment_bytes=BATCH * 2, retention_bytes=BATCH * 4, retention_ms=-1, file_delete_delay_ms=60_000)
    world.append(9)
    assert delete_old_segments(world.log, 9) == 2
    assert (world.log.log_start_offset, bases(world.log)) == (4, [4, 6, 8])
    assert world.names(".log.deleted") == [f"{offset:020d}.log.deleted" for offset in (0, 2)]
    world.clock.advance(60_000)
    assert not world.names(".deleted")
    assert world.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (4, 6, 8)]


def test_retention_never_passes_the_high_watermark() -> None:
    world = World(segment_bytes=BATCH * 2, retention_bytes=0, retention_ms=-1)
    world.append(6)
    assert delete_old_segments(world.log, 3) == 1
    assert world.log.log_start_offset == 2


def test_retention_by_time_may_take_everything() -> None:
    world = World(segment_bytes=BATCH * 2, retention_ms=1000)
    world.append(5)
    world.clock.advance(1000)
    assert delete_old_segments(world.log, 5) == 0
    world.clock.advance(1)
    assert delete_old_segments(world.log, 5) == 3
    assert (world.log.log_start_offset, bases(world.log), world.log.size_bytes) == (5, [5], 0)
    world.append()
    assert world.log.log_end_offset == 6


def test_segments_before_the_log_start_go_also_when_the_topic_is_compacted() -> None:
    world = World(segment_bytes=BATCH * 2)
    world.append(6)
    world.log.configure(LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=0))
    world.log.advance_log_start_offset(3)
    assert delete_old_segments(world.log, 6) == 1
    assert (world.log.log_start_offset, bases(world.log)) == (3, [2, 4])
    world.log.advance_log_start_offset(6)
    assert delete_old_segments(world.log, 6) == 1
    assert (world.log.log_start_offset, bases(world.log)) == (6, [4]), "the active one stays"


@pytest.mark.parametrize(("policy", "left"), [("compact", [0, 2, 4]), ("compact,delete", [6])])
def test_retention_takes_nothing_from_a_topic_that_is_only_compacted(policy: str, left: list[int]) -> None:
    world = World(
        segment_bytes=BATCH * 2, retention_ms=1000, retention_bytes=BATCH, cleanup_policy=frozenset(policy.split(","))
    )
    for number in range(6):
        world.log.append_as_leader(encode_batch(0, [world.clock.now_ms()], [b"%d" % number], [b"x" * 49]), 0)
    world.clock.advance(5000)
    delete_old_segments(world.log, 6)
    assert bases(world.log) == left


def test_epochs_go_with_their_records() -> None:
    world = World(segment_bytes=BATCH * 5, retention_bytes=BATCH * 10, retention_ms=-1)
    for number in range(15):
        world.log.append_as_leader(make_batch([b"x" * 50]), 0 if number < 7 else 1 if number < 10 else 2)
    assert delete_old_segments(world.log, 15) == 1
    assert world.log.epochs.entries() == [(0, 5), (1, 7), (2, 10)]
    world.log.advance_log_start_offset(12)
    assert world.log.epochs.entries() == [(2, 12)]
    assert world.files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n2 12\n"


def test_a_slow_reader_of_a_deleted_segment_is_not_broken() -> None:
    world = World(segment_bytes=BATCH * 2, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=1)
    world.append(4)
    records = world.log.read(0, 10_000, 4, whole_first_batch=True).records
    assert isinstance(records, FileRange)
    delete_old_segments(world.log, 4)
    world.clock.advance(1)
    assert len(records.read()) == len(records) == BATCH * 2


@pytest.mark.parametrize("offset", [1, 8, -1])
def test_reads_out_of_range_are_refused(offset: int) -> None:
    world = World()
    world.append(7)
    world.log.advance_log_start_offset(2)
    with pytest.raises(KafkaError) as refused:
        world.log.read(offset, 1000, 7, whole_first_batch=True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("offset", "end", "max_bytes", "whole", "length"),
    [
        (0, 6, 10_000, True, 3 * BATCH),  # the rest of its segment
        (2, 6, 10_000, True, BATCH),
        (4, 6, 10_000, True, 2 * BATCH),
        (4, 5, 10_000, True, BATCH),  # not beyond the high watermark
        (5, 5, 10_000, True, 0),
        (7, 6, 10_000, True, 0),
        (0, 6, 2 * BATCH + 5, True, 2 * BATCH + 5),  # cut where the limit is, as Kafka does
        (0, 6, 5, True, BATCH),
        (0, 6, 5, False, 0),  # a part of a batch alone is of no use
        (0, 6, BATCH + 5, False, BATCH + 5),
        (0, 6, 0, True, BATCH),
        (0, 6, 0, False, 0),
    ],
)
def test_how_much_a_read_gives(offset: int, end: int, max_bytes: int, whole: bool, length: int) -> None:
    world = World(segment_bytes=BATCH * 3)
    world.append(7)
    assert len(world.log.read(offset, max_bytes, end, whole_first_batch=whole).records) == length


def test_a_damaged_header_is_not_served() -> None:
    world = World(index_interval_bytes=10_000)
    world.append(3)
    path = f"{DIRECTORY}/{0:020d}.log"
    log = open_test_log(world.log.environment, world.config, recovery_point=3)
    log.segments[0].file.truncate(0)
    log.segments[0].file.append(bytes(BATCH) + world.files.read(path))
    with pytest.raises(KafkaError) as refused:
        log.read(1, 1000, 3, whole_first_batch=True)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_offsets_by_time() -> None:
    world = World(segment_bytes=BATCH * 2, index_interval_bytes=1)
    for timestamp in (100, 300, 200, 500, 400):
        world.append(timestamp_ms=timestamp)
    log = world.log
    assert offset_for_timestamp(log, 0) == (100, 0, 0)
    assert offset_for_timestamp(log, 101) == (300, 1, 0)
    assert offset_for_timestamp(log, 301) == (500, 3, 0)
    assert offset_for_timestamp(log, 501) is None
    assert offset_of_max_timestamp(log) == (500, 3, 0)
    log.advance_log_start_offset(2)
    assert offset_for_timestamp(log, 0) == (200, 2, 0)
    log.advance_log_start_offset(4)
    assert offset_of_max_timestamp(log) == (500, 3, 0), "as in Kafka, while its segment is there"


def test_the_record_within_a_batch_is_found_by_time() -> None:
    world = World()
    world.log.append_as_leader(make_batch([b"a"] * 5, timestamp_ms=1000, codec=1), 6)
    assert offset_for_timestamp(world.log, 1003) == (1003, 3, 6)
    assert offset_of_max_timestamp(world.log) == (1004, 4, 6)


def test_offsets_before_as_in_0_8() -> None:
    world = World(segment_bytes=BATCH * 2)
    start = world.clock.now_ms()
    for _ in range(5):
        world.append()
        world.clock.advance(1000)
    assert offsets_before(world.log, -1, 10) == [5, 4, 2, 0]
    assert offsets_before(world.log, -1, 1) == [5]
    assert offsets_before(world.log, -2, 10) == [0]
    assert offsets_before(world.log, start + 3000, 10) == [2, 0]
    assert offsets_before(world.log, start - 1, 10) == []
    world.log.advance_log_start_offset(3)
    delete_old_segments(world.log, 5)
    assert offsets_before(world.log, -1, 10) == [5, 4, 3], "a reader who begins at 2 would be out of range"
    assert offsets_before(world.log, -2, 10) == [3]
