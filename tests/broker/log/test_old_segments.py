"""Logs of an older Kafka: segments of formats 0 and 1, compressed or not, beside those of today.

golden/ was written by Apache Kafka 3.9.1 with old formats set; its README says how.
"""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.broker.log import dump
from odradek.broker.log.batches import iterate_headers
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import LogEnvironment
from odradek.broker.log.offset_lookup import offsets_before
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.message_set import down_convert
from odradek.protocol.records import Columns
from odradek.testing.compacted_log import CompactedLog, newest
from odradek.testing.log_environments import (
    close_log,
    make_batch,
    make_environment,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_test_log,
)
from odradek.testing.old_segments import (
    GOLDEN,
    expected,
    golden_bytes,
    golden_copy,
    key_of,
    read_from,
    stored,
    time_of,
    value_of,
)
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles

LOGS = ("v0-0", "v1-0", "mixed-0")
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=-1)


def opened(directory: Path, *, clean: bool, config: LogConfig = CONFIG, log_start_offset: int = 0) -> Log:
    environment = LogEnvironment(OsFiles(), ManualClock(), InlineBackground(), random.Random(1))
    topic = directory.name.rpartition("-")[0]
    return open_log(environment, str(directory), topic, 0, config, clean=clean, log_start_offset=log_start_offset)


def complaints(directory: Path) -> list[dump.Damage]:
    return list(dump.verify(OsFiles(), str(directory)))


def ends_of(path: Path) -> list[int]:
    """Where each batch or message of a segment ends."""
    file = OsFiles().open(str(path))
    return [batch.next_position for batch in iterate_headers(file, 0, file.size())]


# opening


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", LOGS)
def test_everything_is_there(name: str, clean: bool, tmp_path: Path) -> None:
    """The codecs of each format: lz4 of format 0 has the wrong header checksum."""
    log = opened(golden_copy(name, tmp_path), clean=clean)
    assert stored(log) == expected(name)
    assert (log.log_start_offset, log.log_end_offset) == (0, len(expected(name)))
    assert log.epochs.entries() == ([(0, 30)] if name == "mixed-0" else [])


@pytest.mark.parametrize("name", LOGS)
def test_recovery_changes_no_byte_of_a_good_log(name: str, tmp_path: Path) -> None:
    directory = golden_copy(name, tmp_path)
    close_log(opened(directory, clean=False))
    for path in sorted((GOLDEN / name).glob("*.log")):
        assert (directory / path.name).read_bytes() == path.read_bytes()
    assert complaints(directory) == []


@pytest.mark.parametrize("name", LOGS)
def test_indexes_of_kafka_and_ours_find_the_same(name: str, tmp_path: Path) -> None:
    """Those of releases before 0.10.1 have no time index at all."""
    assert complaints(GOLDEN / name) == []
    kafkas = opened(golden_copy(name, tmp_path / "kafka"), clean=True)
    bare = golden_copy(name, tmp_path / "bare")
    for path in bare.iterdir():
        if path.suffix in (".index", ".timeindex"):
            path.unlink()
    ours = opened(bare, clean=True)
    for offset in range(kafkas.log_end_offset):
        assert [one for one in read_from(ours, offset, 1) if one[0] == offset] == [expected(name)[offset]]
        assert read_from(ours, offset, 1) == read_from(kafkas, offset, 1)
        assert offset_for_timestamp(ours, time_of(offset)) == offset_for_timestamp(kafkas, time_of(offset))
    close_log(ours)
    assert complaints(bare) == []


def test_opening_after_a_clean_stop_does_not_read_it_all(tmp_path: Path) -> None:
    """Kafka before 0.11 had no snapshots and no epochs; segments of messages alone have nothing to say of either."""
    directory = golden_copy("v1-0", tmp_path)
    for path in directory.glob("*.snapshot"):
        path.unlink()
    first = directory / "00000000000000000000.log"
    first.write_bytes(first.read_bytes()[:20] + bytes(first.stat().st_size - 20))
    log = opened(directory, clean=True)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries()) == (0, 65, [])
    assert first.stat().st_size == 1327, "what is damaged is found when it is read"
    with pytest.raises(KafkaError):
        log.read(15, 100, 65, whole_first_batch=True)
    close_log(log)
    assert opened(directory, clean=True).producers.map_end_offset == 65


def test_room_for_a_segment_is_no_message(tmp_path: Path) -> None:
    """Kafka's `log.preallocate` leaves zeros, which would have format 0, where nothing is written yet."""
    directory = tmp_path / "new-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(bytes(make_batch((b"a",), producer_id=7, epoch=0)))
    (directory / "00000000000000000001.log").write_bytes(bytes(1500))
    log = opened(directory, clean=False)
    assert not log.active.begins_with_messages and log.active.size_bytes == 0
    assert 7 in log.producers.producers, "the segment before it is not taken for messages alone"
    log.append_as_leader(make_batch((b"b",)), 0)
    assert not log.active.begins_with_messages


@pytest.mark.parametrize("name", ["v0-0", "v1-0"])
def test_a_torn_end_is_cut_off(name: str, tmp_path: Path) -> None:
    """At any byte of a compressed message, and of a plain one."""
    for segment, keep in (("00000000000000000020.log", 4), ("00000000000000000060.log", 5)):
        data = (GOLDEN / name / segment).read_bytes()
        ends = ends_of(GOLDEN / name / segment)
        assert len(ends) == keep
        for cut in (ends[-2] + 1, ends[-2] + 11, ends[-2] + 17, ends[-2] + 30, ends[-1] - 1):
            directory = golden_copy(name, tmp_path / f"{segment}-{cut}")
            (directory / segment).write_bytes(data[:cut])
            log = opened(directory, clean=False)
            last = 50 if segment.startswith("00000000000000000020") else 64
            assert stored(log) == expected(name)[:last] and log.log_end_offset == last
            close_log(log)
            assert complaints(directory) == []


@pytest.mark.parametrize("name", ["v0-0", "v1-0"])
def test_a_wrong_checksum_ends_the_log(name: str, tmp_path: Path) -> None:
    data = (GOLDEN / name / "00000000000000000020.log").read_bytes()
    second = ends_of(GOLDEN / name / "00000000000000000020.log")[0]
    for at in (second + 12, second + 17, second + 40):
        directory = golden_copy(name, tmp_path / str(at))
        (directory / "00000000000000000020.log").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert [one.position for one in complaints(directory)][:1] == [second], "dump-log finds it at its byte"
        assert opened(directory, clean=False).log_end_offset == 30


# looking up


def test_times_are_found_inside_of_compressed_messages(tmp_path: Path) -> None:
    log = opened(golden_copy("v1-0", tmp_path), clean=True)
    for number in (*range(50), *range(60, 65)):
        assert offset_for_timestamp(log, time_of(number)) == (time_of(number), number, -1)
        assert offset_for_timestamp(log, time_of(number) - 999) == (time_of(number), number, -1)
    assert offset_for_timestamp(log, time_of(49) + 1) == (time_of(60), 60, -1), "50 to 59 have no time"
    assert offset_for_timestamp(log, time_of(64) + 1) is None
    assert offset_of_max_timestamp(log) == (time_of(64), 64, -1)


def test_format_0_has_no_times(tmp_path: Path) -> None:
    log = opened(golden_copy("v0-0", tmp_path), clean=True)
    assert offset_for_timestamp(log, 0) is None and offset_of_max_timestamp(log) is None
    assert sorted(offsets_before(log, -1, 10)) == [0, 20, 60, 65] and offsets_before(log, -2, 10) == [0]


def test_times_begin_where_the_format_has_them(tmp_path: Path) -> None:
    log = opened(golden_copy("mixed-0", tmp_path), clean=True)
    assert offset_for_timestamp(log, 0) == (time_of(15), 15, -1)
    assert offset_for_timestamp(log, time_of(29)) == (time_of(29), 29, -1)
    assert offset_for_timestamp(log, time_of(33)) == (time_of(33), 33, 0)
    assert offset_of_max_timestamp(log) == (time_of(44), 44, 0)


def test_the_brokers_time_is_that_of_the_whole_message(tmp_path: Path) -> None:
    log = opened(golden_copy("append-time-0", tmp_path), clean=True)
    times = {offset: timestamp for offset, timestamp, _, _ in stored(log)}
    assert [(n, key_of(n), value_of(n)) for n in range(40)] == [(o, k, v) for o, _, k, v in stored(log)]
    assert times[10] > time_of(10) + 10**11, "not the producer's"
    for first in (10, 20, 30):
        assert {times[number] for number in range(first, first + 10)} == {times[first]}
        assert offset_for_timestamp(log, times[first]) == (times[first], first, -1)
    assert offset_of_max_timestamp(log) == (times[30], 30, -1)


# changing what is there


@pytest.mark.parametrize("name", LOGS)
def test_truncation_cuts_before_a_compressed_message(name: str, tmp_path: Path) -> None:
    """And the log end is where its first record was, so that the leader's copy of it follows again."""
    single = {
        "v0-0": [*range(10), *range(10, 60, 10), *range(60, 65)],
        "mixed-0": [0, *range(10, 16), *range(25, 31), 40],
    }
    firsts = single.get(name, single["v0-0"])
    for offset in (1, 7, 12, 20, 29, 35, 44, 62):
        if offset >= len(expected(name)):
            continue
        end = max(one for one in firsts if one <= offset)
        log = opened(golden_copy(name, tmp_path / str(offset)), clean=True)
        assert log.truncate_to(offset)
        assert log.log_end_offset == end and stored(log) == expected(name)[:end]
        log.append_as_follower(make_batch((b"after",), base_offset=end, epoch=3))
        close_log(log)
        again = opened(Path(log.directory), clean=True)
        assert [one[0] for one in stored(again)] == list(range(end + 1)) and again.epochs.latest == 3
        assert complaints(Path(log.directory)) == []


def test_a_start_within_a_compressed_message(tmp_path: Path) -> None:
    """DeleteRecords hides records; whole segments go."""
    log = opened(golden_copy("v1-0", tmp_path), clean=True)
    log.advance_log_start_offset(25)
    with pytest.raises(KafkaError) as refused:
        log.read(24, 100, 65, whole_first_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert [one[0] for one in read_from(log, 25, 1)] == list(range(20, 30))
    assert offset_for_timestamp(log, 0) == (time_of(25), 25, -1)
    assert delete_old_segments(log, 65) == 1 and log.segments[0].base_offset == 20
    close_log(log)
    again = opened(Path(log.directory), clean=True, log_start_offset=25)
    assert again.log_start_offset == 25 and stored(again) == expected("v1-0")[20:]


@pytest.mark.parametrize("name", ["v0-0", "v1-0"])
def test_retention_goes_by_the_file_where_records_have_no_time(name: str, tmp_path: Path) -> None:
    now_ms = ManualClock().now_ms()
    directory = golden_copy(name, tmp_path)
    for path, number in zip(sorted(directory.glob("*.log")), (19, 49, 64), strict=True):
        seconds = time_of(number) / 1000 if name == "v0-0" else now_ms / 1000
        os.utime(path, (seconds, seconds))
    config = replace(CONFIG, retention_ms=now_ms - time_of(30))
    log = opened(directory, clean=True, config=config)
    assert delete_old_segments(log, 65) == 1 and log.log_start_offset == 20


# following


@pytest.mark.parametrize("max_bytes", [1, 400, 1 << 20])
@pytest.mark.parametrize("name", LOGS)
def test_a_follower_takes_the_same_bytes(name: str, max_bytes: int, tmp_path: Path) -> None:
    leader = opened(golden_copy(name, tmp_path), clean=True)
    follower = open_test_log(make_environment(), CONFIG)
    while follower.log_end_offset < leader.log_end_offset:
        end = leader.log_end_offset
        records = leader.read(follower.log_end_offset, max_bytes, end, whole_first_batch=True).records
        assert not isinstance(records, bytes)
        follower.append_as_follower(records.read())
    assert stored(follower) == expected(name)
    copied = b"".join(segment.file.pread(segment.size_bytes, 0) for segment in follower.segments)
    assert copied == golden_bytes(name)
    for segment in follower.segments:
        if segment.size_bytes:
            first = read_from(follower, segment.base_offset, 1)[0][0]
            assert first == segment.base_offset, "a segment has the name of its first record"
    assert follower.epochs.entries() == ([(0, 30)] if name == "mixed-0" else [])


def test_a_message_without_an_epoch_ends_the_knowledge_of_epochs() -> None:
    """As in a cluster of Kafka that is upgraded broker by broker."""
    log = open_test_log(make_environment())
    log.append_as_follower(make_batch((b"a", b"b"), epoch=4))
    assert log.epochs.latest == 4
    log.append_as_follower(down_convert(Columns([2, 3], [1, 1], [None, None], [b"c", b"d"]), 1, 1))
    assert log.epochs.latest == -1 and log.end_offset_for_epoch(4) == (-1, -1)
    log.append_as_follower(make_batch((b"e",), base_offset=4, epoch=5))
    assert log.epochs.entries() == [(5, 4)]


def test_damage_on_the_way_is_refused() -> None:
    log = open_test_log(make_environment())
    data = bytearray(golden_bytes("v1-0"))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(data)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE and log.log_end_offset == 0
    log.append_as_follower(golden_bytes("v1-0")[:-1])
    assert log.log_end_offset == 64, "what is cut off is left"


# compaction


@pytest.mark.parametrize("name", [*LOGS, "append-time-0"])
def test_compaction_keeps_the_newest_of_every_key(name: str) -> None:
    """In messages and wrappers of every codec; formats, codecs, offsets and times stay."""
    compact = frozenset({"compact"})
    world = CompactedLog(
        replace(CONFIG, cleanup_policy=compact, min_cleanable_dirty_ratio=0.0, delete_retention_ms=10**15)
    )
    world.log.append_as_follower(golden_bytes(name))
    world.roll()
    before = stored(world.log)
    world.compact()
    after = stored(world.log)
    last = {key: offset for offset, _, key, _ in before}
    assert after == [one for one in before if one[2] is not None and last[one[2]] == one[0]]
    assert len(after) == 4 and world.log.log_end_offset == len(before)
    formats = {batch.magic for segment in world.log.segments for batch in segment.batches_from(0) if batch.record_count}
    assert formats == {{"mixed-0": 2, "v0-0": 0}.get(name, 1)}
    assert newest([(o, k, v) for o, _, k, v in after]) == newest([(o, k, v) for o, _, k, v in before if k is not None])


# dump-log


def test_dump_log_shows_the_records_of_old_formats() -> None:
    rows = list(dump.dump(OsFiles(), str(GOLDEN / "v0-0" / "00000000000000000020.log"), records=True))
    records = [row for row in rows if "key" in row]
    assert [row["magic"] for row in rows if "magic" in row] == [0, 0, 0, 0]
    assert [(row["offset"], row["timestamp_ms"], row["key"], row["value"]) for row in records] == expected("v0-0")[
        20:60
    ]
