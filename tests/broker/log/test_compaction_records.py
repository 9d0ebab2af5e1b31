"""Which records stay, and what becomes of their batches."""

from dataclasses import replace

import pytest

from odradek.broker.log.compaction import offset_map
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.conversion import records_of
from odradek.protocol.message_set import down_convert, encode_message, up_convert
from odradek.protocol.record_batch import read_header
from odradek.protocol.records import Columns, decode_records, encode_batch, encode_headers
from odradek.testing.compacted_log import COMPACT, SMALL, CompactedLog
from odradek.testing.log_environments import offset_for_timestamp, read_batches


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    world.put((b"c", b"4"))
    world.put((b"b", b"5"))
    world.roll()
    world.compact()
    assert world.entries() == [(2, b"a", b"3"), (3, b"c", b"4"), (4, b"b", b"5")]
    assert world.headers() == [(0, 2, 1), (3, 3, 1), (4, 4, 1)]
    for offset in range(6):
        assert world.read(offset) == [one for one in world.entries() if one[0] >= (0 if offset <= 2 else offset)]


def test_the_active_segment_is_left_alone_but_counts() -> None:
    """What is in the active segment does not make older records obsolete yet: it is not in the map."""
    world = CompactedLog()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    world.roll()
    world.put((b"a", b"3"))
    world.compact()
    assert world.entries() == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_nothing_at_or_after_the_high_watermark_is_touched() -> None:
    world = CompactedLog()
    for number in range(3):
        world.put((b"a", b"1"), (b"a", b"%d" % number))
        world.roll()
    world.high_watermark = 3
    world.compact()
    assert world.headers() == [(0, 1, 1), (2, 3, 2), (4, 5, 2)]
    assert world.log.cleaned_to == 2
    world.high_watermark = 4
    world.compact()
    assert world.headers() == [(2, 3, 1), (4, 5, 2)]


def test_records_younger_than_the_lag_are_left_alone() -> None:
    config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=100)
    world = CompactedLog(config)
    for number in range(3):
        world.put((b"a", b"1"), (b"a", b"%d" % number))
        world.roll()
        world.clock.advance(60)
    world.compact()
    assert world.headers() == [(2, 3, 1), (4, 5, 2)]
    world.clock.advance(40)
    world.compact()
    assert world.headers() == [(4, 5, 1)]


def test_records_older_than_the_longest_lag_are_compacted_at_any_ratio() -> None:
    config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    world = CompactedLog(config)
    world.put((b"a", b"1"), (b"a", b"2"))
    world.roll()
    world.clock.advance(100)
    world.compact()
    assert world.headers() == [(0, 1, 2)]
    world.clock.advance(1)
    world.compact()
    assert world.headers() == [(0, 1, 1)]


def test_records_without_a_time_are_never_too_old() -> None:
    config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    world = CompactedLog(config)
    world.log.append_as_leader(encode_batch(0, [-1, -1], [b"a"] * 2, [b"1", b"2"]), 0)
    world.roll()
    world.clock.advance(1000)
    world.compact()
    assert world.headers() == [(0, 1, 2)]


def test_it_waits_until_enough_is_dirty() -> None:
    config = LogConfig(cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.5)
    world = CompactedLog(config)
    world.put((b"a", b"x" * 100), (b"b", b"x" * 100))
    world.roll()
    world.compact()
    assert world.log.cleaned_to == 2
    world.put((b"a", b"x"))
    world.roll()
    world.compact()
    assert world.log.cleaned_to == 2
    world.put((b"b", b"x" * 200))
    world.roll()
    world.compact()
    assert world.log.cleaned_to == 4
    assert [offset for offset, _, _ in world.entries()] == [2, 3]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_keeps_its_codec_its_headers_and_its_timestamps(codec: int) -> None:
    world = CompactedLog()
    now_ms = world.clock.now_ms()
    headers = [[("name", b"%d" % number)] for number in range(4)]
    times = [now_ms + number for number in (5, 9, 3, 1)]
    keys, values = [b"a", b"b", b"a", b"c"], [b"v" * 40] * 4
    world.log.append_as_leader(encode_batch(0, times, keys, values, headers, codec=codec), 7)
    world.put((b"b", b"2"))
    world.roll()
    world.compact()
    batch = world.batches()[0]
    header, columns = read_header(batch), decode_records(batch)
    assert (header.base_offset, header.last_offset, header.codec, header.leader_epoch) == (0, 3, codec, 7)
    assert (columns.offsets, columns.timestamps) == ([2, 3], [now_ms + 3, now_ms + 1])
    assert header.max_timestamp == now_ms + 3
    assert columns.raw_headers == [encode_headers(headers[2]), encode_headers(headers[3])]


def test_a_batch_of_which_all_stays_is_copied_as_it_is() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), (b"b", b"1"), codec=4)
    world.put((b"c", b"1"))
    world.put((b"c", b"2"))
    world.roll()
    before = world.batches()
    world.compact()
    assert world.batches() == [before[0], before[2]]


@pytest.mark.parametrize("remembered", [0, 1, 7, 100])
def test_it_does_not_matter_how_many_verdicts_are_remembered(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others the keys are looked up."""
    monkeypatch.setattr(offset_map, "VERDICTS_MAX", remembered)
    world = CompactedLog()
    for number in range(12):
        values = (None if number % 5 == 0 else b"v", b"w", None if number % 3 == 0 else b"x")
        world.put(*zip((b"%d" % (number % 4), b"a%d" % number, b"%d" % (number % 3)), values, strict=True))
    world.roll()
    written = world.entries()
    world.compact()
    last = {key: offset for offset, key, _ in written}
    assert world.entries() == [one for one in written if last[one[1]] == one[0]]
    assert [read_header(one).delete_horizon_ms is not None for one in world.batches()] == [
        any(value is None for value in decode_records(one).values) for one in world.batches()
    ]


# tombstones


def test_a_tombstone_stays_for_delete_retention_after_it_was_first_compacted() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), (b"b", b"1"))
    world.put((b"a", None))
    world.roll()
    world.clock.advance(10_000)
    world.compact()
    assert world.entries() == [(1, b"b", b"1"), (2, b"a", None)]
    header = read_header(world.batches()[1])
    assert header.delete_horizon_ms == world.clock.now_ms() + SMALL.delete_retention_ms
    assert decode_records(world.batches()[1]).timestamps == [world.clock.now_ms() - 10_000]
    world.clock.advance(SMALL.delete_retention_ms - 1)
    world.put((b"c", b"1"))
    world.roll()
    world.compact()
    assert (2, b"a", None) in world.entries()
    world.clock.advance(1)
    world.put((b"d", b"1"))
    world.roll()
    world.compact()
    assert [key for _, key, _ in world.entries()] == [b"b", b"c", b"d"]


def test_a_tombstone_that_is_superseded_goes_at_once() -> None:
    world = CompactedLog()
    world.put((b"a", None))
    world.put((b"a", b"1"))
    world.roll()
    world.compact()
    assert world.entries() == [(1, b"a", b"1")]


def test_the_horizon_is_kept_when_a_batch_loses_more_records() -> None:
    world = CompactedLog()
    world.put((b"a", None), (b"b", b"1"))
    world.roll()
    world.compact()
    horizon_ms = read_header(world.batches()[0]).delete_horizon_ms
    world.clock.advance(500)
    world.put((b"b", b"2"))
    world.roll()
    world.compact()
    assert world.entries() == [(0, b"a", None), (2, b"b", b"2")]
    assert read_header(world.batches()[0]).delete_horizon_ms == horizon_ms is not None


# message formats of old


def old_log(*messages: bytes | bytearray) -> CompactedLog:
    """A log that has them as a follower gets them."""
    world = CompactedLog()
    for message in messages:
        world.log.append_as_follower(bytes(message))
    world.roll()
    return world


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_compacted_too(magic: int) -> None:
    world = old_log(*(encode_message(magic, number, 1, b"k%d" % (number % 2), b"v%d" % number) for number in range(5)))
    world.compact()
    found = [up_convert(batch) for batch in world.batches()]
    assert [(one.offsets, one.keys) for one in found] == [([3], [b"k1"]), ([4], [b"k0"])]


def test_old_compressed_messages_lose_records_one_by_one() -> None:
    def wrapper(offsets: list[int], keys: list[bytes | None]) -> bytes:
        return down_convert(Columns(offsets, [1] * len(offsets), keys, [b"v"] * len(offsets)), 1, 1)

    world = old_log(wrapper([0, 1, 2], [b"a", b"b", b"c"]), wrapper([3, 4], [b"c", b"a"]))
    world.compact()
    found = [up_convert(batch) for batch in world.batches()]
    assert [(one.offsets, one.keys) for one in found] == [([1], [b"b"]), ([3, 4], [b"c", b"a"])]


def test_batches_behind_old_compressed_messages_lose_the_right_records() -> None:
    wrapper = down_convert(Columns([0, 1, 2], [1] * 3, [b"a", b"b", b"c"], [b"v"] * 3), 1, 1)
    world = old_log(wrapper, encode_batch(3, [1] * 3, [b"d", b"e", b"c"], [b"v", b"v", b"v"]))
    world.put((b"e", b"w"), (b"b", b"w"))
    world.roll()
    world.compact()
    found = [records_of(batch) for batch in world.batches()]
    assert [one.offsets for one in found] == [[0], [3, 5], [6, 7]]


def test_old_tombstones_stay_as_long_as_their_segment_is_young() -> None:
    """Measured from the newest compacted segment."""
    config = LogConfig(
        segment_bytes=60, cleanup_policy=COMPACT, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0
    )
    world = CompactedLog(config)
    world.log.append_as_follower(bytes(encode_message(1, 0, 1, b"a", None)))
    for offset in (1, 2, 3):
        world.clock.advance(500)
        world.log.append_as_follower(bytes(encode_message(1, offset, 1, b"%d" % offset, b"1")))
        world.roll()
        world.compact()
        kept = [up_convert(batch).keys[0] for batch in world.batches()]
        assert kept == ([b"a", b"1", b"2"][: offset + 1] if offset < 3 else [b"1", b"2", b"3"])


# around it


def test_small_segments_become_one() -> None:
    world = CompactedLog()
    for number in range(40):
        world.put((b"k%d" % (number % 4), b"x" * 30))
    world.roll()
    world.compact()
    world.put((b"k0", b"y"))
    world.roll()
    world.compact()
    assert world.log.segments[0].base_offset == 0
    assert len(world.log.segments) == 2
    assert [offset for offset, _, _ in world.entries()] == [37, 38, 39, 40]


def test_offsets_that_no_segment_has_are_clean_too() -> None:
    """A follower of a compacted leader has such gaps. The log would be compacted again and again, up to the first."""
    world = CompactedLog(replace(SMALL, min_cleanable_dirty_ratio=0.99))  # so that there is one round
    for number, first in enumerate((0, 15, 30)):
        world.log.roll(first)
        for offset in range(first, first + 3):
            batch = encode_batch(offset, [1000], [b"%d" % offset], [b"%d" % number], partition_leader_epoch=0)
            world.log.append_as_follower(batch)
    world.log.flush()
    world.compact()
    assert (world.rounds, world.log.cleaned_to) == ([30], 30)


def test_the_indexes_of_a_compacted_segment_find_everything() -> None:
    world = CompactedLog(LogConfig(cleanup_policy=COMPACT, index_interval_bytes=200, min_cleanable_dirty_ratio=0.0))
    for number in range(100):
        world.put((b"k%d" % (number * 7 % 60), b"v%d" % number))
        world.clock.advance(10)
    world.roll()
    world.compact()
    offset_index, time_index = world.log.segments[0].offset_index, world.log.segments[0].time_index
    assert len(offset_index) > 10 and len(time_index) > 10
    entries = world.entries()
    assert len(entries) == 60
    for offset in range(world.log.log_end_offset):
        assert world.read(offset) == [one for one in entries if one[0] >= offset]
    first_ms = read_batches(world.log)[0].timestamps[0]
    for number, columns in enumerate(read_batches(world.log)):
        found = offset_for_timestamp(world.log, columns.timestamps[0])
        assert found is not None and found[1] == entries[number][0]
    assert offset_for_timestamp(world.log, first_ms - 1) == (first_ms, entries[0][0], 0)


def test_compacted_segments_keep_the_date_of_the_newest_that_went_in() -> None:
    world = CompactedLog()
    for _ in range(20):
        world.put((b"a", b"x" * 60))
        world.clock.advance(1000)
    world.roll()
    dates = [segment.modified_ms() for segment in world.log.segments[:-1]]
    world.clock.advance(1000)
    world.compact()
    assert [segment.modified_ms() for segment in world.log.segments[:-1]] == dates


def test_compact_and_delete_together() -> None:
    config = LogConfig(
        segment_bytes=500,
        cleanup_policy=frozenset({"compact", "delete"}),
        min_cleanable_dirty_ratio=0.0,
        retention_ms=50_000,
    )
    world = CompactedLog(config)
    for number in range(40):
        world.put((b"k%d" % (number % 4 if number % 2 else number), b"x" * 40))
        world.clock.advance(1000)
    world.roll()
    world.compact()
    entries = world.entries()
    assert 20 <= len(entries) < 30
    world.clock.advance(25_000)
    assert delete_old_segments(world.log, world.log.log_end_offset) > 0
    left = [one for one in entries if one[0] >= world.log.log_start_offset]
    assert world.entries() == left and 0 < len(left) < len(entries)
    world.compact()
    assert world.entries() == left
