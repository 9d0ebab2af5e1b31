"""A disk that fails at any call takes its own log directory offline; one that is full refuses what needs room."""

import errno

import pytest

from odradek.broker.log.log import Origin
from odradek.broker.log.log_environment import FULL_DISK_TOLD_EVERY_MS
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.log.transaction_index import AbortedTransaction, decode_aborted
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.crashes.machine import TOPIC_IDS, Machine
from odradek.testing.crashes.run import run_fault_case
from odradek.testing.log_environments import DIRECTORY, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import Fault, SimulatedFiles
from odradek.testing.virtual_clock import ManualClock


def test_leader_epochs_wait_for_room_and_hold_the_recovery_point_back() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    for _ in range(2):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    log.flush()
    files.fault = Fault(files.calls, 2, errno.ENOSPC, f"{DIRECTORY}/leader-epoch-checkpoint", "room")
    log.append_as_leader(make_batch([b"2"]), 5)
    log.flush()
    assert (log.latest_epoch, log.recovery_point, log.closed) == (5, 2, False)
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


def test_a_snapshot_that_finds_no_room_is_left_out() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    log.append_as_leader(make_batch([b"x"], producer_id=1), 0)
    files.fault = Fault(files.calls, 1, errno.ENOSPC, f"{DIRECTORY}/{1:020d}.snapshot", "room")
    log.roll()
    assert not files.exists(f"{DIRECTORY}/{1:020d}.snapshot")
    log.close()
    assert 1 in open_test_log(make_environment(files), recovery_point=1, clean=True).producers.producers


def test_retention_on_a_full_disk_keeps_the_last_segment() -> None:
    files = SimulatedFiles()
    config = LogConfig(segment_bytes=400, retention_bytes=0)
    log = open_test_log(make_environment(files), config, clean=True)
    for _ in range(3):
        log.append_as_leader(make_batch([b"x" * 60]), 0)
    files.fault = Fault(files.calls, 1, errno.ENOSPC, what="room")
    assert (delete_old_segments(log, 3), log.closed, log.log_start_offset) == (0, False, 0)
    assert delete_old_segments(log, 3) == 1


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
        assert caplog.text.count("the disk is full, records are refused until it has room") == told
        clock.advance(FULL_DISK_TOLD_EVERY_MS / 2)
    files.fault = None
    log.append_as_leader(make_batch([b"2"]), 0)
    assert log.log_end_offset == 2


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
