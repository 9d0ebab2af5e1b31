"""After an unclean stop: what is kept, what is cut, what is made anew. After a clean one: nothing is scanned."""

import logging
import zlib

import pytest

from odradek.broker.log.log import Log
from odradek.broker.log.segment import Segment
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    offset_for_timestamp,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import SimulatedFiles

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
BATCH = len(make_batch([b"x" * 50]))
PER_SEGMENT = 500 // BATCH
LAST_SEGMENT = f"{DIRECTORY}/{8:020d}"
FAR = 2**31 + 5


def write_ten(files: SimulatedFiles, *, close: bool = False) -> Log:
    """Segments of four: 0-3, 4-7, 8-9."""
    assert PER_SEGMENT == 4
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for number in range(10):
        log.append_as_leader(make_batch([b"x" * 50], timestamp_ms=1000 + number, producer_id=1, sequence=number), 0)
    if close:
        close_log(log)
    return log


def damage_tail(how: str, data: bytes) -> bytes:
    match how:
        case "missing bytes":
            return data[:-7]
        case "missing to the header":
            return data[: BATCH + 5]
        case "zeros after the end":
            return data + bytes(300)
        case "garbage after the end":
            return data + b"\x17" * 100
        case "a flipped bit":
            return data[:-1] + bytes([data[-1] ^ 4])
        case "an old batch again":
            return data + bytes(make_batch([b"x" * 50], base_offset=3))
    raise AssertionError(how)


@pytest.mark.parametrize(
    ("how", "end", "cut"),
    [
        ("missing bytes", 9, BATCH - 7),
        ("missing to the header", 9, 5),
        ("zeros after the end", 10, 300),
        ("garbage after the end", 10, 100),
        ("a flipped bit", 9, BATCH),
        ("an old batch again", 10, BATCH),
    ],
)
def test_the_log_is_cut_at_the_last_valid_byte(how: str, end: int, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    write_ten(files)
    files.kill()
    files.set_content(LAST_SEGMENT + ".log", damage_tail(how, files.read(LAST_SEGMENT + ".log")))
    with caplog.at_level(logging.WARNING):
        log = open_test_log(make_environment(files), CONFIG, recovery_point=8)
    assert log.log_end_offset == end
    assert f"cut {cut} bytes" in caplog.text
    assert f"the last valid offset is {end - 1}" in caplog.text
    assert files.size(LAST_SEGMENT + ".log") == (end - 8) * BATCH
    assert log.append_as_leader(make_batch([b"x" * 50], producer_id=1, sequence=end), 0).first_offset == end
    assert [columns.offsets[0] for columns in read_batches(log)] == list(range(end + 1))


def test_damage_in_the_middle_drops_all_later_segments(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    write_ten(files)
    files.kill()
    path = f"{DIRECTORY}/{4:020d}.log"
    data = bytearray(files.read(path))
    data[BATCH + 30] ^= 1
    files.set_content(path, bytes(data))
    log = open_test_log(make_environment(files), CONFIG, recovery_point=2)
    assert (log.log_end_offset, [segment.base_offset for segment in log.segments]) == (5, [0, 4])
    assert "dropped 1 later segments" in caplog.text
    assert not files.exists(LAST_SEGMENT + ".index")


@pytest.mark.parametrize(("last", "kept"), [(FAR + 9, 4), (FAR + 2**31 + 9, 3)])
def test_a_segment_that_an_old_kafka_compacted_over_too_many_offsets_is_kept(last: int, kept: int) -> None:
    """Its later batches, and all segments behind it, were cut off as damage when the recovery points were lost. Only
    the last segment, which is never compacted, has no such offsets."""
    files = SimulatedFiles()
    offsets = [[0, FAR], [FAR + 7, last]]
    for segment in offsets:
        content = b"".join(make_batch([b"x"], base_offset=offset) for offset in segment)
        files.set_content(f"{DIRECTORY}/{segment[0]:020d}.log", content)
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = open_test_log(make_environment(files), compacted, recovery_point=0)
    assert [columns.offsets[0] for columns in read_batches(log)] == [0, FAR, FAR + 7, last][:kept]


def test_a_log_that_damage_has_cut_before_its_start_begins_anew_there() -> None:
    files = SimulatedFiles()
    write_ten(files)
    files.kill()
    files.set_content(f"{DIRECTORY}/{4:020d}.log", b"\x17" * 100)
    close_log(open_test_log(make_environment(files), CONFIG, log_start_offset=9))
    log = open_test_log(make_environment(files), CONFIG, log_start_offset=9, clean=True)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries()) == (9, 9, [])
    stems = {name.partition(".")[0] for name in files.list_directory(DIRECTORY)}
    assert stems == {f"{9:020d}", "leader-epoch-checkpoint"}
    assert log.append_as_leader(make_batch([b"x"]), 1).first_offset == 9


def test_what_lies_before_the_recovery_point_is_not_read_again() -> None:
    files = SimulatedFiles()
    write_ten(files)
    files.kill()
    path = f"{DIRECTORY}/{0:020d}.log"
    files.set_content(path, bytes(BATCH * 4))
    log = open_test_log(make_environment(files), CONFIG, recovery_point=4)
    assert log.log_end_offset == 10


def index_damage(how: str, data: bytes) -> bytes | None:
    match how:
        case "missing":
            return None
        case "not a multiple":
            return data[:-3]
        case "too long":
            return data + bytes(8)
        case "does not rise":
            return data[-8:] + data[:-8]
        case "preallocated":
            return data + bytes(800)
        case "older":
            return data[:8]
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["missing", "not a multiple", "too long", "does not rise", "preallocated", "older"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_offset_index_is_made_anew(how: str, clean: bool) -> None:
    files = SimulatedFiles()
    log = write_ten(files, close=True)
    path = f"{DIRECTORY}/{0:020d}.index"
    before = files.read(path)
    assert len(before) == 8 * 3
    after = index_damage(how, before)
    if after is None:
        files.remove(path)
    else:
        files.set_content(path, after)
    files.kill()
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=clean)
    for offset in range(10):
        assert read_batches(log, offset)[0].offsets == [offset]
    if how != "older":
        assert files.read(path) == before


def test_indexes_golden_bytes() -> None:
    """Written by hand; Kafka's own indexes are in test_byte_for_byte.py."""
    files = SimulatedFiles()
    write_ten(files, close=True)
    assert BATCH == 0x76
    assert files.read(f"{DIRECTORY}/{4:020d}.index").hex() == (
        "00000001" "00000076" "00000002" "000000ec" "00000003" "00000162"  # relative offset, position
    )  # fmt: skip
    assert files.read(f"{DIRECTORY}/{4:020d}.timeindex").hex() == (
        "00000000000003ed" "00000001" "00000000000003ee" "00000002" "00000000000003ef" "00000003"
    )  # fmt: skip


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("how", ["torn", "rotten", "empty"])
def test_a_damaged_snapshot_is_dropped_and_the_state_rebuilt(how: str, clean: bool) -> None:
    files = SimulatedFiles()
    write_ten(files, close=True)
    files.kill()
    path = f"{DIRECTORY}/{10:020d}.snapshot"
    data = files.read(path)
    files.set_content(path, {"torn": data[:-5], "rotten": data[:20] + b"\0\0\0\3" + data[24:], "empty": b""}[how])
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=clean)
    assert log.append_as_leader(make_batch([b"x" * 50], producer_id=1, sequence=9), 0).duplicate


@pytest.mark.parametrize(
    "data",
    [
        *(None, b"\0\0\0", b"0\n7\n"),
        *(b"0\n1\n0 -3\n", b"0\n1\n-1 0\n", b"0\n2\n0 0\n2147483648 3\n", b"0\n2\n0 0\n3 9999999999999999999\n"),
        *(b"0\n4\n0 0\n1 3\n2 2\n3 9\n", b"0\n4\n0 0\n3 3\n2 6\n3 9\n", b"0\n4\n0 0\n1 3\n1 6\n3 9\n"),
    ],
)
def test_lost_epochs_are_read_from_the_batches(data: bytes | None) -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for number in range(10):
        log.append_as_leader(make_batch([b"x" * 50]), number // 3)
    log.flush()
    files.kill()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    if data is None:
        files.remove(path)
    else:
        files.set_content(path, data)
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10)
    assert log.epochs.entries() == [(0, 0), (1, 3), (2, 6), (3, 9)]
    assert files.read(path) == b"0\n4\n0 0\n1 3\n2 6\n3 9\n"


@pytest.mark.parametrize(
    ("checkpoint", "epochs"),
    [(0, [(0, 0), (1, 3), (2, 6), (3, 9)]), (4, [(1, 4), (2, 6), (3, 9)]), (7, [(2, 7), (3, 9)])],
)
def test_epochs_before_a_log_start_that_was_forgotten(checkpoint: int, epochs: list[tuple[int, int]]) -> None:
    """DeleteRecords moved the log start to 7, and the broker stopped before its checkpoint: what was hidden is back.

    Then a leader's history cuts the log at 7, and the rest must not be without an epoch.
    """
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for number in range(10):
        log.append_as_leader(make_batch([b"x" * 50]), number // 3)
    log.advance_log_start_offset(7)
    log.flush()
    files.kill()
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, log_start_offset=checkpoint)
    assert log.epochs.entries() == epochs
    if checkpoint < 7:
        log.truncate_to(7)
        assert log.epochs.entries() == epochs[:-1]
    log.flush()
    files.kill()
    log = open_test_log(make_environment(files), CONFIG, recovery_point=7, log_start_offset=checkpoint)
    assert log.epochs.entries() == (epochs if checkpoint == 7 else epochs[:-1])


@pytest.mark.parametrize("clean", [False, True])
def test_an_epoch_without_records_is_forgotten(clean: bool) -> None:
    """Kafka writes an epoch when it begins; another broker may lead before anything was written in it."""
    files = SimulatedFiles()
    write_ten(files, close=True)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    files.set_content(path, b"0\n2\n0 0\n5 10\n")
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=clean)
    assert (log.epochs.entries(), files.read(path)) == ([(0, 0)], b"0\n1\n0 0\n")


@pytest.mark.parametrize("has_older_epoch", [False, True])
def test_epochs_before_messages_that_have_none_are_not_sought(has_older_epoch: bool) -> None:
    files = SimulatedFiles()
    files.make_directory(DIRECTORY)
    first = bytes(make_batch([b"x"])) if has_older_epoch else old_message(0, 1, 5000)
    data = first + old_message(1, 1, 5000) + bytes(make_batch([b"x"], base_offset=2, epoch=4))
    files.set_content(f"{DIRECTORY}/{0:020d}.log", data)
    files.set_content(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n4 2\n")
    log = open_test_log(make_environment(files), CONFIG, recovery_point=3, clean=True)
    assert log.epochs.entries() == [(4, 2)]


def test_of_two_epochs_that_begin_at_one_offset_the_later_one_is_kept() -> None:
    """Kafka 0.11 to 2.0 wrote them. Nothing is read from the batches, which would say another thing here."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for _ in range(10):
        log.append_as_leader(make_batch([b"x" * 50]), 3)
    log.flush()
    files.kill()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    files.set_content(path, b"0\n4\n0 0\n1 3\n2 3\n3 8\n")
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=True)
    assert log.epochs.entries() == [(0, 0), (2, 3), (3, 8)]
    assert files.read(path) == b"0\n3\n0 0\n2 3\n3 8\n"


def test_interrupted_changes_are_finished() -> None:
    files = SimulatedFiles()
    write_ten(files, close=True)
    compacted = bytes(make_batch([b"kept"], base_offset=1)) + bytes(make_batch([b"kept"], base_offset=6))
    files.set_content(f"{DIRECTORY}/{0:020d}.log.swap", compacted)
    for suffix in (".log.cleaned", ".index.cleaned", ".log.deleted"):
        files.set_content(f"{DIRECTORY}/{4:020d}{suffix}", b"rest")
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=True)
    assert [columns.offsets[0] for columns in read_batches(log)] == [1, 6, 8, 9]
    assert not [name for name in files.list_directory(DIRECTORY) if name.endswith(("swap", "cleaned", "deleted"))]


@pytest.mark.parametrize("left", [".index", ".timeindex", ".txnindex"])
def test_a_swap_that_kafka_had_not_begun_is_taken_back(left: str) -> None:
    """Kafka renames the log first: what is still `.cleaned` belongs to it, and the old segments are all there."""
    files = SimulatedFiles()
    write_ten(files, close=True)
    files.set_content(f"{DIRECTORY}/{0:020d}.log.swap", bytes(make_batch([b"kept"], base_offset=6)))
    files.set_content(f"{DIRECTORY}/{0:020d}{left}.cleaned", b"")
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=True)
    assert [columns.offsets[0] for columns in read_batches(log)] == list(range(10))
    assert not [name for name in files.list_directory(DIRECTORY) if name.endswith(("swap", "cleaned"))]


def test_a_clean_start_reads_little() -> None:
    files = SimulatedFiles()
    write_ten(files, close=True)
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=True)
    assert log.recovery_point == 10
    assert all(segment._offset_index is None for segment in log.segments[:-1])


def test_old_formats_are_read() -> None:
    """Magic 0 and 1, as an older Kafka left them: the checksum, the offsets and the times are understood."""
    files = SimulatedFiles()
    files.make_directory(DIRECTORY)
    messages = old_message(0, 0, None) + old_message(1, 1, 5000) + old_message(2, 1, 6000)
    files.set_content(f"{DIRECTORY}/{0:020d}.log", messages)
    log = open_test_log(make_environment(files), CONFIG)
    assert (log.log_end_offset, log.epochs.latest) == (3, -1)
    assert len(log.read(1, 1000, 3, whole_first_batch=True).records) == 2 * 39
    assert offset_for_timestamp(log, 5500) == (6000, 2, -1)


def old_message(offset: int, magic: int, timestamp: int | None) -> bytes:
    body = bytes([magic, 0]) + (b"" if timestamp is None else timestamp.to_bytes(8, "big"))
    body += b"\xff\xff\xff\xff" + b"\0\0\0\5value"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("emptied", [False, True])
def test_a_log_that_never_held_a_record_is_not_synced(emptied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start synced 10,000 empty files. One that was emptied is synced: what was cut off could come back."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), CONFIG)
    log.assign_epoch(3, 0)
    if emptied:
        log.append_as_leader(make_batch([b"x"]), 3)
        log.truncate_to(0)
    log.abandon()
    files.write_atomically(f"{DIRECTORY}/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    synced = []
    monkeypatch.setattr(Segment, "sync", lambda segment: synced.append(segment.base_offset))
    opened = open_test_log(make_environment(files), CONFIG)
    assert (opened.log_end_offset, opened.recovery_point, opened.clean_end_offset) == (0, 0, -1)
    assert synced == ([0] if emptied else [])


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_last_batch_of_an_earlier_offset_does_not_take_the_log_back(offset: int) -> None:
    """A bit of its offset had turned over, which no checksum covers: after a clean stop the log ended before records
    that it has, and gave their offsets away once more."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    for _ in range(5):
        log.append_as_leader(make_batch([b"x" * 50], timestamp_ms=1000), 0)
    close_log(log)
    files.kill()
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(files.read(path))
    data[4 * BATCH : 4 * BATCH + 8] = offset.to_bytes(8, "big")
    files.set_content(path, bytes(data))
    log = open_test_log(make_environment(files), recovery_point=5, clean=True)
    assert (log.log_end_offset, log.clean_end_offset) == (4, -1)
    log.append_as_leader(make_batch([b"y"]), 0)
    assert [columns.offsets[0] for columns in read_batches(log)] == list(range(5))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "name", ["1.log", "notes.index", "old.log.swap", "\u00b2.snapshot", "7.snapshot", "\u00b2.log"]
)
def test_a_file_that_is_none_of_a_log_is_left_alone(name: str, clean: bool) -> None:
    """One that had a number in its name took its log directory offline, or ended the start of the broker."""
    files = SimulatedFiles()
    write_ten(files, close=True)
    files.set_content(f"{DIRECTORY}/{name}", b"somebody's")
    files.kill()
    log = open_test_log(make_environment(files), CONFIG, recovery_point=10, clean=clean)
    assert [columns.offsets[0] for columns in read_batches(log)] == list(range(10))
    assert files.read(f"{DIRECTORY}/{name}") == b"somebody's"
