"""Key → offset in bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.testing.compacted_log import CompactedLog, newest


@given(st.lists(st.lists(st.none() | st.binary(max_size=2), min_size=1, max_size=5), max_size=20))
def test_it_knows_the_last_offset_of_each_key(batches: list[list[bytes | None]]) -> None:
    offset_map = OffsetMap(200 * SLOT_BYTES, 0.9, most_keys=100)
    expected: dict[bytes, int] = {}
    offset = 0
    for keys in batches:
        superseded = []
        for number, key in enumerate(keys, offset):
            superseded.append(number if key is None else expected.get(key, -1))
            if key is not None:
                expected[key] = number
        assert offset_map.put(range(offset, offset + len(keys)), keys) == superseded
        offset += len(keys)
    assert offset_map.get([*expected, b"never", None]) == [*expected.values(), -1, -1]
    assert offset_map.entries == len(expected)
    assert offset_map.latest_offset == offset - 1


def test_it_takes_no_more_memory_than_it_was_given() -> None:
    offset_map = OffsetMap(1000, 0.75, most_keys=10**9)
    assert offset_map.memory_bytes <= 1000
    keys = [b"key %d" % number for number in range(40)]
    assert offset_map.put(range(40), keys) == [-1] * int(offset_map.memory_bytes // SLOT_BYTES * 0.75) == [-1] * 30
    assert offset_map.get(keys) == [*range(30), *[-1] * 10]
    assert offset_map.latest_offset == 29


def test_it_takes_no_more_memory_than_the_keys_need() -> None:
    assert OffsetMap(2**30, 0.9, most_keys=100).memory_bytes < 250 * SLOT_BYTES


@pytest.mark.parametrize(("memory_bytes", "load_factor"), [(SLOT_BYTES, 0.9), (0, 0.9), (3 * SLOT_BYTES, 0.1)])
def test_a_map_without_room_for_a_key_is_refused(memory_bytes: int, load_factor: float) -> None:
    with pytest.raises(ValueError, match="hold no key"):
        OffsetMap(memory_bytes, load_factor, most_keys=1000)


def test_what_does_not_fit_is_done_in_several_rounds() -> None:
    """30 keys, room for five: each round cleans as far as the map reached, in the middle of a batch too."""
    settings = LogManagerSettings(
        log_cleaner_backoff_ms=2**50,
        log_cleaner_dedupe_buffer_size=7 * SLOT_BYTES,
        log_cleaner_io_buffer_load_factor=0.8,
    )
    world = CompactedLog(settings=settings)
    for number in range(40):
        world.put(*((b"key %d" % (key % 30), b"%d %d" % (number, key)) for key in range(number, number + 3)))
    world.roll()
    before = world.entries()
    world.compact()
    assert world.rounds[-1] == world.log.cleaned_to == world.log.active.base_offset
    assert len(world.rounds) == 14, "of each three keys two are there already"
    assert world.rounds == sorted(set(world.rounds))
    after = world.entries()
    assert newest(after) == newest(before)
    assert len(after) == 30
