"""The bytes of both indexes, and what is refused of them."""

import pytest

from odradek.broker.log.dump import verify
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.index import OffsetIndex, TimeIndex
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import SimulatedFiles

BASE = 1000


def offset_index() -> OffsetIndex:
    index = OffsetIndex(BASE)
    index.append(BASE + 4, 200)
    index.append(BASE + 9, 3_000_000_000)
    return index


def time_index() -> TimeIndex:
    index = TimeIndex(BASE)
    index.append_if_larger(-1, BASE)
    index.append_if_larger(1_700_000_000_000, BASE + 4)
    index.append_if_larger(1_700_000_000_000, BASE + 6)
    index.append_if_larger(1_700_000_000_001, BASE + 9)
    return index


@pytest.mark.parametrize(("offset", "position"), [(0, 0), (1003, 0), (1004, 200), (1008, 200), (1009, 3_000_000_000)])
def test_offset_lookup(offset: int, position: int) -> None:
    index = offset_index()
    slot = index.slot_before(offset)
    assert (index.entry(slot)[1] if slot >= 0 else 0) == position


def test_golden_bytes_and_appending_to_the_file() -> None:
    """Written by hand; Kafka's own indexes are in test_byte_for_byte.py."""
    files = SimulatedFiles()
    files.make_directory("/d")
    index, times = offset_index(), time_index()
    index.write(files, "/d/index")
    assert files.read("/d/index").hex() == "00000004000000c800000009b2d05e00"
    times.write(files, "/d/time")
    assert files.read("/d/time").hex() == "0000018bcfe56800000000040000018bcfe5680100000009"
    index.append(BASE + 20, 3_000_000_001)
    index.write(files, "/d/index")
    assert len(files.read("/d/index")) == 24
    index.truncate_to(BASE + 9)
    index.append(BASE + 15, 300)
    index.write(files, "/d/index")
    assert OffsetIndex.decode(files.read("/d/index"), BASE, 301).entries() == [(1004, 200), (1015, 300)]
    assert TimeIndex.decode(files.read("/d/time"), BASE).entries() == times.entries()


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(0, BASE), (1_700_000_000_000, 1004), (1_700_000_000_001, 1009), (2_000_000_000_000, 1009)],
)
def test_time_lookup(timestamp: int, offset: int) -> None:
    index = time_index()
    slot = index.slot_before(timestamp)
    assert (index.entry(slot).offset if slot >= 0 else BASE) == offset


@pytest.mark.parametrize(("end", "left"), [(1009, 1), (1010, 2), (1004, 0), (0, 0)])
def test_truncation(end: int, left: int) -> None:
    index, times = offset_index(), time_index()
    index.truncate_to(end)
    times.truncate_to(end)
    assert (len(index), len(times)) == (left, left)


@pytest.mark.parametrize(
    "data",
    [
        "00",
        "00000004000000640000000300000065",
        "00000004000000640000000500000063",
        "00000004000003e8",
        "8000000000000001",
    ],
)
def test_bad_offset_indexes_are_refused(data: str) -> None:
    with pytest.raises(CorruptFile):
        OffsetIndex.decode(bytes.fromhex(data), BASE, 1000)


@pytest.mark.parametrize(
    "data",
    [
        "00",
        "ffffffffffffffff00000000",
        "000000000000000180000000",
        "000000000000000200000001000000000000000100000002",
        "000000000000000200000002000000000000000300000001",
    ],
)
def test_bad_time_indexes_are_refused(data: str) -> None:
    with pytest.raises(CorruptFile):
        TimeIndex.decode(bytes.fromhex(data), BASE)


def test_an_index_that_gets_entries_leaves_other_empty_ones_empty() -> None:
    """They share the numbers that they do not have."""
    for index, other in ((OffsetIndex(10), OffsetIndex(10)), (OffsetIndex(10), OffsetIndex(20))):
        index.append(12, 100)
        index.truncate_to(0)
        index.append(11, 50)
        assert (index.entries(), other.entries(), OffsetIndex(0).entries()) == ([(11, 50)], [], [])
    times, untimed = TimeIndex(10), TimeIndex(10)
    times.append_if_larger(5, 12)
    times.truncate_to(0)
    times.append_if_larger(4, 11)
    assert (times.entries(), untimed.entries(), TimeIndex(0).entries()) == ([(4, 11)], [], [])


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31, BASE + 2**32])
def test_an_offset_that_no_entry_can_name_gets_none(offset: int) -> None:
    """A damaged batch has one, and some segments that Kafka before 1.1 compacted: with their indexes missing, the
    reader and a start that came to them ended with an exception, again and again."""
    files = SimulatedFiles()
    batches = [make_batch([b"x"], base_offset=one, timestamp_ms=one) for one in (BASE, BASE + 2, offset)]
    files.set_content(f"{DIRECTORY}/{BASE:020d}.log", b"".join(batches))
    log = open_test_log(make_environment(files), LogConfig(index_interval_bytes=0), clean=True)
    assert log.segments[0].offset_index.entries() == [(BASE + 2, len(batches[0]))]
    assert log.segments[0].time_index.entries()[0] == (BASE + 2, BASE + 2)
    assert log.append_as_leader(make_batch([b"y"]), 0).first_offset == max(offset, BASE + 2) + 1
    assert [columns.offsets for columns in read_batches(log)][:2] == [[BASE], [BASE + 2]]
    close_log(log)


def test_the_files_of_a_truncated_log_are_sound_while_it_is_open() -> None:
    """`dump-log --verify` on a broker that was running called the entries of what had been cut off damage."""
    files = SimulatedFiles()
    config = LogConfig(index_interval_bytes=0)
    log = open_test_log(make_environment(files), config)
    for number in range(20):
        log.append_as_leader(make_batch([b"x"], timestamp_ms=1000 + number), 0)
    close_log(log)
    log = open_test_log(make_environment(files), config, clean=True)
    assert len(log.active.time_index) == 19
    log.truncate_to(10)
    assert not list(verify(files, DIRECTORY))
    log.append_as_leader(make_batch([b"yy"], timestamp_ms=5000), 0)
    assert not list(verify(files, DIRECTORY))


@pytest.mark.parametrize("first", [0, 1])
def test_a_segment_without_records_has_files_of_its_indexes_after_a_clean_stop(first: int) -> None:
    """Kafka says "Could not find offset index file" of each that has none, and recovers it; its tools end there."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files))
    if first:
        log.append_as_leader(make_batch([b"x"]), 0)
        log.roll()
    close_log(log)
    names = {f"{first:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    assert names <= set(files.list_directory(DIRECTORY))
