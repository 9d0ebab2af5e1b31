"""A disk that fails at any call takes its own log directory offline; one that is full refuses what needs room."""

import contextlib
import errno
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.directories.log_directory import LogDirectory
from odradek.broker.log.errors import NoRoom, StorageFailure
from odradek.broker.log.flush import Flush
from odradek.broker.log.local_log import FLUSH_AGAIN_MS
from odradek.broker.log.log import Log
from odradek.broker.log.log_environment import FULL_DISK_PAUSE_MS, FULL_DISK_TOLD_EVERY_MS, LogEnvironment, OpenSegments
from odradek.broker.log.log_manager import LogManager
from odradek.broker.log.offset_lookup import find_offset
from odradek.broker.log.recovery import parallel
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.log.transaction_index import AbortedTransaction, decode_aborted
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.background_work import InlineChildren
from odradek.testing.crashes.machine import TOPIC_IDS, Machine
from odradek.testing.crashes.run import run_fault_case
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import Fault, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock
from odradek.world.background import InlineBackground
from odradek.world.os_files import OsFiles


def test_leader_epochs_wait_for_room_and_hold_the_recovery_point_back() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    for _ in range(2):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    log.flush()
    files.fault = Fault(files.calls, 2, errno.ENOSPC, f"{DIRECTORY}/leader-epoch-checkpoint", "room")
    log.append_as_leader(make_batch([b"2"]), 5)
    log.flush()
    assert (log.epochs.latest, log.recovery_point, log.closed) == (5, 2, False)
    log.flush()
    assert (log.recovery_point, files.read(f"{DIRECTORY}/leader-epoch-checkpoint")) == (3, b"0\n2\n0 0\n5 2\n")


@pytest.mark.parametrize("room_bytes", [0, 10])
def test_aborted_transactions_wait_for_room_and_hold_the_recovery_point_back(room_bytes: int) -> None:
    """The marker is in the log by then; of the entry the disk may have taken the beginning."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    index = f"{DIRECTORY}/{0:020d}.txnindex"
    marker = encode_end_txn_marker(EndTxnMarker(False, 0), 0, 1, 0)
    for producer_id in (1, 2):
        log.append_as_leader(make_batch([b"x"], producer_id=producer_id, transactional=True), 0)
    log.flush()
    files.capacity_bytes = files._used_bytes() + len(marker) + room_bytes
    log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)
    log.flush()
    assert (log.log_end_offset, log.recovery_point, log.closed) == (3, 2, False)
    aborted = [AbortedTransaction(1, 0, 2, 1)]
    assert log.aborted_transactions(0, 3) == aborted, "readers are told"
    files.capacity_bytes = None
    log.append_as_leader(encode_end_txn_marker(EndTxnMarker(False, 0), 0, 2, 0), 0, origin=Origin.COORDINATOR)
    log.flush()
    assert log.recovery_point == 4
    assert decode_aborted(files.read(index)) == [*aborted, AbortedTransaction(2, 1, 3, 4)]


def _log_with_an_aborted_transaction_put_off(files: SimulatedFiles, environment: LogEnvironment) -> Log:
    log = open_test_log(environment, LogConfig(segment_bytes=300), clean=True)
    log.append_as_leader(make_batch([b"x"], producer_id=1, transactional=True), 0)
    files.fault = Fault(files.calls, 1000, errno.ENOSPC, f"{DIRECTORY}/{0:020d}.txnindex", "room")
    log.append_as_leader(encode_end_txn_marker(EndTxnMarker(False, 0), 0, 1, 0), 0, origin=Origin.COORDINATOR)
    assert not files.exists(f"{DIRECTORY}/{0:020d}.txnindex") or not files.size(f"{DIRECTORY}/{0:020d}.txnindex")
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    return log


def test_aborted_transactions_that_wait_outlive_the_cache_of_open_segments() -> None:
    """They went with the other indexes of a segment that nobody read any more: readers of committed data got theirs."""
    files = SimulatedFiles()
    environment = make_environment(files)
    environment.open_segments = OpenSegments(limit=1)
    log = _log_with_an_aborted_transaction_put_off(files, environment)
    for _ in range(6):
        log.append_as_leader(make_batch([b"y" * 100]), 0)
    files.fault = None
    for offset in (2, 3, 4):
        log.read(offset, 10, log.log_end_offset, whole_first_batch=True)
    log.flush()
    assert log.recovery_point == log.log_end_offset
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]


def test_aborted_transactions_that_wait_move_with_their_log() -> None:
    files = SimulatedFiles()
    log = _log_with_an_aborted_transaction_put_off(files, make_environment(files))
    moved = f"{DIRECTORY}-moved"
    files.rename(DIRECTORY, moved)
    log.moved_to(moved)
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    log.flush()
    assert decode_aborted(files.read(f"{moved}/{0:020d}.txnindex")) == [AbortedTransaction(1, 0, 1, 2)]


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EMFILE])
def test_a_log_whose_aborted_transactions_found_no_room_is_not_closed_cleanly(cause: int) -> None:
    """A start after the mark of a clean shutdown believes the index: readers of committed data got the aborted ones."""
    clock, files = ManualClock(), SimulatedFiles()

    def start() -> LogManager:
        logs = LogManager(files, clock, InlineBackground(), random.Random(5), ["/a"], lambda topic: LogConfig())
        logs.open(DirectoryOwner(1, "cluster-a"), lambda: None)
        return logs

    logs = start()
    log = logs.get_or_create("t", 0, is_new=True)
    log.append_as_leader(make_batch([b"x"], producer_id=1, transactional=True), 0)
    files.fault = Fault(files.calls, 1000, cause, f"{log.directory}/{0:020d}.txnindex", "room")
    log.append_as_leader(encode_end_txn_marker(EndTxnMarker(False, 0), 0, 1, 0), 0, origin=Origin.COORDINATOR)
    logs.close()
    files.fault = None
    again = start().get("t", 0)
    assert again is not None and again.clean_end_offset == -1
    assert again.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_snapshot_that_finds_no_room_is_left_out() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    log.append_as_leader(make_batch([b"x"], producer_id=1), 0)
    files.fault = Fault(files.calls, 1, errno.ENOSPC, f"{DIRECTORY}/{1:020d}.snapshot", "room")
    log.roll()
    assert not files.exists(f"{DIRECTORY}/{1:020d}.snapshot")
    close_log(log)
    assert 1 in open_test_log(make_environment(files), recovery_point=1, clean=True).producers.producers


@pytest.mark.parametrize("by_children", [False, True])
@pytest.mark.parametrize("epochs_lost", [False, True])
def test_a_broker_that_was_killed_on_a_full_disk_starts_on_it(
    epochs_lost: bool, by_children: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory went offline, as there was no room for the indexes: nothing could be read, nor room be made by
    retention."""
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    clock = ManualClock()
    files = SimulatedFiles(1, clock.now_ms)
    config = LogConfig(segment_bytes=500, index_interval_bytes=0, retention_bytes=500)

    def start() -> LogManager:
        logs = LogManager(
            files, clock, InlineBackground(), random.Random(5), ["/a"], lambda topic: config,
            children=InlineChildren(files, clock) if by_children else None,
        )  # fmt: skip
        logs.open(DirectoryOwner(1, "cluster-a"), lambda: None, recovery_processes=2)
        clock.advance(1)
        return logs

    logs = start()
    log = logs.get_or_create("t", 0, is_new=True)
    for number in range(7):
        log.append_as_leader(make_batch([b"x" * 100], producer_id=1, sequence=number), number // 3)
    files.kill()
    if epochs_lost:
        files.remove("/a/t-0/leader-epoch-checkpoint")
    files.capacity_bytes = sum(files.size(path) for path in files.paths())
    logs = start()
    again = logs.get("t", 0)
    assert again is not None
    assert [columns.offsets for columns in read_batches(again)] == [[number] for number in range(7)]
    assert again.epochs.entries() == [(0, 0), (1, 3), (2, 6)]
    with pytest.raises(KafkaError):
        again.append_as_leader(make_batch([b"x" * 100]), 2)
    assert delete_old_segments(again, 7) == 2
    clock.advance(config.file_delete_delay_ms + FULL_DISK_PAUSE_MS)
    assert again.append_as_leader(make_batch([b"x" * 100]), 2).first_offset == 7
    logs.close()
    files.kill()
    closed = start().get("t", 0)
    assert closed is not None and (closed.clean_end_offset, closed.epochs.entries()) == (8, again.epochs.entries())


def test_an_old_segment_whose_index_is_lost_is_read_on_a_full_disk() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), LogConfig(segment_bytes=400), clean=True)
    for _ in range(6):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    assert len(log.segments) > 1
    log.segments[0].release()
    files.remove(log.segments[0].path(".index"))
    files.fault = Fault(files.calls, 100, errno.ENOSPC, what="room")
    assert [columns.offsets for columns in read_batches(log)] == [[number] for number in range(6)]


@pytest.mark.parametrize("preallocate", [False, True])
def test_nothing_is_left_of_a_segment_that_a_full_disk_has_no_room_for(preallocate: bool) -> None:
    """Records go on in the segment before. A start that found an empty one behind them would take it for the end."""
    config = LogConfig(preallocate=preallocate)
    refused = 0
    for number in range(20):
        files = SimulatedFiles()
        log = open_test_log(make_environment(files), config, clean=True)
        log.append_as_leader(make_batch([b"x"]), 0)
        files.fault = Fault(files.calls + number, 1, errno.ENOSPC, f"{DIRECTORY}/{1:020d}.", "room")
        with contextlib.suppress(OSError):
            log.roll()
        if len(log.segments) == 1:
            refused += 1
            names = {name for name in files.list_directory(DIRECTORY) if name.startswith(f"{1:020d}")}
            assert names <= {f"{1:020d}.snapshot"}
    assert refused > 2


def test_retention_on_a_full_disk_keeps_the_last_segment() -> None:
    files = SimulatedFiles()
    config = LogConfig(segment_bytes=400, retention_bytes=0)
    log = open_test_log(make_environment(files), config, clean=True)
    for _ in range(3):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    files.fault = Fault(files.calls, 1000, errno.ENOSPC, what="room")
    assert (delete_old_segments(log, 3), log.closed, log.log_start_offset) == (0, False, 0)
    files.fault = None
    assert delete_old_segments(log, 3) == 1


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_an_old_segment_for_whose_other_name_there_is_no_room_goes_at_once(suffix: str) -> None:
    """rename(2) may find no room in a directory. The log forgot its old segments, one after the other, and their files
    stayed until the next start: a full disk was never less full."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), LogConfig(segment_bytes=300, retention_bytes=200), clean=True)
    for _ in range(6):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    files.fault = Fault(files.calls, 1, errno.ENOSPC, f"{DIRECTORY}/{0:020d}{suffix}", "changes")
    assert delete_old_segments(log, 6) and log.segments[0].base_offset
    assert not files.fault.times and not files.exists(f"{DIRECTORY}/{0:020d}{suffix}")
    live = {f"{segment.base_offset:020d}" for segment in log.segments}
    names = [name for name in files.list_directory(DIRECTORY) if name[:20].isdigit() and ".deleted" not in name]
    assert names and {name[:20] for name in names} <= live


def test_a_full_disk_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looked into the broker's log found nothing, while its producers were refused."""
    files, clock = SimulatedFiles(), ManualClock()
    log = open_test_log(make_environment(files, clock), clean=True)
    log.append_as_leader(make_batch([b"1"]), 0)
    files.fault = Fault(files.calls, 1000, errno.ENOSPC, what="room")
    for told in (1, 1, 2):
        with pytest.raises(KafkaError) as refused:
            log.append_as_leader(make_batch([b"2"]), 0)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert caplog.text.count("the disk is full, records are refused until there is space") == told
        clock.advance(FULL_DISK_TOLD_EVERY_MS / 2)
    files.fault = None
    log.append_as_leader(make_batch([b"2"]), 0)
    assert log.log_end_offset == 2


def test_a_full_disk_is_not_tried_for_each_append() -> None:
    """Each attempt is cut off again, and synced: followers of many partitions left the loop no time for anything."""
    files, clock = SimulatedFiles(), ManualClock()
    log = open_test_log(make_environment(files, clock), clean=True)
    log.append_as_leader(make_batch([b"1"]), 0)
    files.fault = Fault(files.calls, 1000, errno.ENOSPC, what="room")
    for _ in range(3):
        clock.advance(FULL_DISK_PAUSE_MS)
        before = files.calls
        for number in range(100):
            with pytest.raises(KafkaError, match="No space left"):
                log.append_as_leader(make_batch([b"2"]), 0)
            assert number or (tried := files.calls) > before
        assert files.calls == tried
    files.fault = None
    clock.advance(FULL_DISK_PAUSE_MS)
    log.append_as_leader(make_batch([b"2"]), 0)
    assert log.log_end_offset == 2


@contextlib.contextmanager
def _without_descriptors(files: SimulatedFiles) -> Iterator[None]:
    files.fault = Fault(0, 1, errno.EMFILE, what="descriptors")
    yield
    files.fault = None


def test_without_descriptors_nothing_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Clients had taken them all, and every directory went offline, one after the other, until the broker ended."""
    files, clock = SimulatedFiles(), ManualClock()
    environment = make_environment(files, clock)
    given_up: list[OSError] = []
    environment.failed = lambda path, cause: given_up.append(cause)
    log = open_test_log(environment, LogConfig(segment_bytes=200), clean=True)
    for _ in range(6):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    assert len(log.segments) > 2
    for segment in log.segments[:-1]:
        segment.release()
    log.active.close_file()
    flushed = log.recovery_point
    refused: list[KafkaError] = []
    with _without_descriptors(files):
        for call in (
            lambda: log.append_as_leader(make_batch([b"y" * 60]), 0),
            lambda: log.read(0, 1000, log.log_end_offset, whole_first_batch=True),
            lambda: list(find_offset(log, 5)),
            lambda: log.truncate_to(1),
            log.flush,
            log.flush_in_background,
        ):
            try:
                call()
            except KafkaError as error:
                refused.append(error)
    assert {one.code for one in refused} == {ErrorCode.KAFKA_STORAGE_ERROR} and len(refused) == 5
    assert not given_up and log.recovery_point == flushed < 6
    assert caplog.text.count("no file can be opened, records are refused until there is space") == 1
    log.append_as_leader(make_batch([b"y" * 60]), 0)
    assert log.read(0, 1000, 7, whole_first_batch=True).records and log.log_end_offset == 7
    clock.advance(FLUSH_AGAIN_MS)
    assert log.recovery_point >= 6, "the flush is made up for"


@pytest.mark.parametrize(
    "cut",
    [
        lambda log: log.truncate_to(5),
        lambda log: log.truncate_to(2),
        lambda log: log.truncate_to(0),
        lambda log: log.truncate_fully_and_start_at(100),
    ],
)
def test_a_truncation_that_would_find_no_descriptor_halfway_is_not_begun(cut: Callable[[Log], object]) -> None:
    """What it looks at first is open already, or in memory: it gave up the directory when it came to what is not."""
    files = SimulatedFiles()
    environment = make_environment(files)
    given_up: list[OSError] = []
    environment.failed = lambda path, cause: given_up.append(cause)
    log = open_test_log(environment, LogConfig(segment_bytes=200), clean=True)
    for _ in range(6):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    assert not log.aborted_transactions(0, 6)
    before = files.list_directory(DIRECTORY)
    with _without_descriptors(files), pytest.raises(StorageFailure):
        cut(log)
    assert not given_up and log.log_end_offset == 6 and files.list_directory(DIRECTORY) == before
    cut(log)
    assert log.log_end_offset != 6


def test_a_flush_without_descriptors_is_tried_again_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that asked had its own chain of attempts, of which there were more with every look at `flush.ms`."""
    files, clock = SimulatedFiles(), ManualClock()
    log = open_test_log(make_environment(files, clock), clean=True)
    log.append_as_leader(make_batch([b"x"]), 0)
    done: list[int] = []
    with _without_descriptors(files):
        for number in range(5):
            log.flush_in_background(lambda number=number: done.append(number))  # type: ignore[misc]
            clock.advance(FLUSH_AGAIN_MS)
        attempts: list[object] = []
        monkeypatch.setattr(Flush, "sync", lambda flush, sync=Flush.sync: (attempts.append(flush), sync(flush)))
        clock.advance(FLUSH_AGAIN_MS)
        assert (len(attempts), done) == (1, [])
    clock.advance(FLUSH_AGAIN_MS)
    assert (log.recovery_point, done) == (1, [0, 1, 2, 3, 4])


def test_the_first_abort_marker_finds_no_descriptor() -> None:
    files = SimulatedFiles()
    environment = make_environment(files)
    given_up: list[OSError] = []
    environment.failed = lambda path, cause: given_up.append(cause)
    log = open_test_log(environment, clean=True)
    log.append_as_leader(make_batch([b"x"], producer_id=1, transactional=True), 0)
    marker = encode_end_txn_marker(EndTxnMarker(False, 0), 0, 1, 0)
    with _without_descriptors(files):
        log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)
    assert not given_up and log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    log.flush()
    assert log.recovery_point == 2
    assert decode_aborted(files.read(f"{DIRECTORY}/{0:020d}.txnindex")) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_log_that_finds_no_descriptor_is_refused_and_made_later() -> None:
    """A directory that another log was removed from is synced first."""
    machine = Machine(1)
    logs = machine.start()
    logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    logs.delete("events", 0)
    with _without_descriptors(machine.files), pytest.raises(NoRoom):
        logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    assert not machine.failed
    assert logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True).log_end_offset == 0


def test_a_start_passes_over_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "topic-0").symlink_to(tmp_path / "nowhere")
    environment = LogEnvironment(OsFiles(), ManualClock(), InlineBackground(), random.Random(1))
    assert not LogDirectory(environment, str(tmp_path)).load(lambda topic: LogConfig()).logs


@pytest.mark.parametrize("seed", range(12))
def test_one_disk_fails_at_any_call_and_the_other_goes_on(seed: int) -> None:
    report = run_fault_case(seed)
    assert report.violation is None, report.text()


def test_a_write_that_fails_and_cannot_be_cut_off_takes_the_directory_offline() -> None:
    machine = Machine(1)
    log = machine.start().get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    log.append_as_leader(make_batch([b"1"]), 0)
    machine.files.fault = Fault(machine.files.calls + 1, 1000, under="/a/events-0", what="changes")
    try:
        log.append_as_leader(make_batch([b"2"]), 0)
    except KafkaError as error:
        assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(machine.failed) == 1 and log.closed


def test_a_deletion_that_fails_takes_the_directory_offline() -> None:
    """The log is gone from memory; what stays on the disk must not be opened as the log of a new topic."""
    machine = Machine(1)
    logs = machine.start()
    logs.get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
    machine.files.fault = Fault(machine.files.calls, 1, errno.ENOSPC, "/a/events-0", "changes")
    with pytest.raises(KafkaError) as caught:
        logs.delete("events", 0)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(machine.failed) == 1 and [one.path for one in logs.online()] == ["/b"]
