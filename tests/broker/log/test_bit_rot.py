"""Any byte of any file flips while the broker is down or up: nothing is served as good that is not, and it is found.

The broker sends records as they are on the disk; their checksum goes with them, and whoever receives them checks it.
What no checksum covers (a batch's offset and epoch, indexes, epochs, transaction indexes) is held against the log where
it is used. A batch that begins at another offset of the same log is seen by who reads the one after it.
"""

import itertools
import random
from typing import Any

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.dump.checking import verify
from odradek.broker.log.errors import UnusableDirectory
from odradek.broker.log.log import Log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.log.transaction_index import AbortedTransaction, decode_aborted, encode_aborted
from odradek.broker.settings.topic_settings import LogConfig
from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import ClientError
from odradek.client.records import TopicPartition
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.testing.crashes.machine import TOPIC_IDS, Machine
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    offset_for_timestamp,
    offset_of_max_timestamp,
    open_test_log,
)
from odradek.testing.simulated_files import SimulatedFiles

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, retention_ms=-1)
T0 = TopicPartition("topic", 0)
SAMPLES = 40
"""Bytes of each kind of file that are flipped."""


def written(files: SimulatedFiles) -> Log:
    """Closed cleanly: several segments, epochs, codecs, a producer, an aborted transaction."""
    log = open_test_log(make_environment(files), CONFIG, clean=True)
    for number in range(24):
        values = [b"%040d" % (number * 10 + index) for index in range(1 + number % 3)]
        more: dict[str, Any] = {"producer_id": 4, "sequence": number // 3} if number % 3 == 0 else {}
        codec = 4 if number % 5 == 0 else 0
        log.append_as_leader(make_batch(values, timestamp_ms=1000 * number, codec=codec, **more), number // 7)
    log.append_as_leader(make_batch([b"aborted"], timestamp_ms=30_000, producer_id=9, transactional=True), 3)
    marker = encode_end_txn_marker(EndTxnMarker(False, 0), 30_000, 9, 0)
    log.append_as_leader(bytearray(marker), 3, origin=Origin.COORDINATOR)
    log.append_as_leader(make_batch([b"last"], timestamp_ms=31_000), 3)
    close_log(log)
    files.kill()
    return log


def reopen(files: SimulatedFiles, end: int) -> Log:
    return open_test_log(make_environment(files), CONFIG, recovery_point=end, clean=True)


def received(log: Log, offset: int) -> list[tuple[int, bytes | None]]:
    """Offsets and values that a consumer of ours takes from one answer. Raises what it or the broker refuses with."""
    records = log.read(offset, 400, log.log_end_offset, whole_first_batch=True).records
    data = records if isinstance(records, bytes) else records.read()
    chunk = Chunk(T0, memoryview(data), offset, 0, None, log.log_end_offset)
    found: list[tuple[int, bytes | None]] = []
    for _, columns in chunk.batches(check_crcs=True):
        found += zip(columns.offsets, columns.values, strict=True)
    return [one for one in found if one[0] >= offset]


def names(files: SimulatedFiles, suffix: str) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in files.list_directory(DIRECTORY) if name.endswith(suffix)]


def flips(suffix: str) -> list[tuple[str, int, int]]:
    """(path, byte, bits) of some of the bytes of the files with that suffix."""
    files = SimulatedFiles()
    written(files)
    every = [(path, byte) for path in names(files, suffix) for byte in range(files.size(path))]
    assert every, suffix
    source = random.Random(suffix)
    return [(path, byte, 1 << source.randrange(8)) for path, byte in source.sample(every, min(SAMPLES, len(every)))]


def truth() -> dict[int, tuple[int, bytes | None]]:
    """By offset: the first record at or after it."""
    files = SimulatedFiles()
    end = written(files).log_end_offset
    log = reopen(files, end)
    return {offset: received(log, offset)[0] for offset in range(end) if received(log, offset)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint"])
def test_what_is_derived_from_the_log_does_not_change_what_is_read(suffix: str) -> None:
    right = truth()
    for path, byte, bits in flips(suffix):
        files = SimulatedFiles()
        end = written(files).log_end_offset
        files.flip(path, byte, bits)
        log = reopen(files, end)
        assert (log.log_start_offset, log.log_end_offset) == (0, end), (path, byte, bits)
        for offset, first in right.items():
            assert received(log, offset)[0] == first, (path, byte, bits, offset)
        assert log.append_as_leader(make_batch([b"more"]), 3).first_offset == end


def test_a_rotten_time_index_does_not_hide_a_record() -> None:
    files = SimulatedFiles()
    end = written(files).log_end_offset
    log = reopen(files, end)
    times = [1000 * number + extra for number in range(24) for extra in (0, 1)]
    right = {time: offset_for_timestamp(log, time) for time in times}
    newest = offset_of_max_timestamp(log)
    for path, byte, bits in flips(".timeindex"):
        files = SimulatedFiles()
        written(files)
        files.flip(path, byte, bits)
        log = reopen(files, end)
        assert {time: offset_for_timestamp(log, time) for time in times} == right, (path, byte, bits)
        assert offset_of_max_timestamp(log) == newest, (path, byte, bits)


def test_a_rotten_time_index_does_not_make_a_segment_old() -> None:
    """Retention asks the log before it believes that a segment may go."""
    for byte, bits in itertools.product(range(8), (1, 16)):
        files = SimulatedFiles()
        end = written(files).log_end_offset
        path = names(files, ".timeindex")[0]
        files.flip(path, files.size(path) - 12 + byte, bits)
        log = reopen(files, end)
        now_ms = log.environment.clock.now_ms()
        log.configure(LogConfig(segment_bytes=700, retention_ms=now_ms - 500))
        assert delete_old_segments(log, end) == 0, (byte, bits)


def test_rotten_records_are_refused_by_the_broker_or_by_the_consumer() -> None:
    right = truth()
    refused = 0
    for path, byte, bits in flips(".log"):
        files = SimulatedFiles()
        end = written(files).log_end_offset
        files.flip(path, byte, bits)
        log = reopen(files, end)
        for offset, first in right.items():
            if offset >= log.log_end_offset:
                continue
            try:
                found = received(log, offset)
            except (KafkaError, ClientError, MalformedMessage) as error:
                refused += 1
                assert not isinstance(error, KafkaError) or error.code == ErrorCode.CORRUPT_MESSAGE
                continue
            assert not found or found[0] == first or is_other_offset(files, path, byte), (path, byte, bits, offset)
    assert refused > SAMPLES


def is_other_offset(files: SimulatedFiles, path: str, byte: int) -> bool:
    """Whether the byte belongs to a batch's own offset: what it says is known only by who reads its neighbours."""
    at, data = 0, files.read(path)
    while at <= byte:
        if at <= byte < at + 8:
            return True
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return False


def test_damage_before_the_recovery_point_does_not_keep_a_log_from_being_opened() -> None:
    """Also when its producers have to be learnt anew from there."""
    for path, byte, bits in flips(".log"):
        files = SimulatedFiles()
        end = written(files).log_end_offset
        for name in names(files, ".snapshot"):
            files.remove(name)
        files.flip(path, byte, bits)
        log = open_test_log(make_environment(files), CONFIG, recovery_point=end)
        assert 0 < log.log_end_offset <= end, (path, byte, bits)


def test_what_has_a_checksum_is_found_to_be_rotten() -> None:
    """At its batch; what is said of files without one is in test_dump_damage.py."""
    missed = []
    for path, byte, bits in flips(".log")[::2] + flips(".snapshot")[::3]:
        files = SimulatedFiles()
        written(files)
        files.flip(path, byte, bits)
        found = [damage for damage in verify(files, DIRECTORY) if damage.path == path and damage.position <= byte]
        if not found:
            missed.append((path, byte, bits))
    assert [one for one in missed if not is_leader_epoch(*one)] == []


def test_a_transaction_index_that_makes_no_sense_is_made_anew() -> None:
    """It has no checksum, and an offset that is too large hides aborted transactions: they were read as committed."""
    files = SimulatedFiles()
    end = written(files).log_end_offset
    right = reopen(files, end).aborted_transactions(0, end)
    (path,) = names(files, ".txnindex")[:1]
    assert right
    for byte, bit in itertools.product((*range(10, 16), *range(26, 32)), (0, 7)):  # first offset, last stable offset
        files = SimulatedFiles()
        written(files)
        files.flip(path, byte, 1 << bit)
        assert reopen(files, end).aborted_transactions(0, end) == right, (byte, bit)


def test_a_transaction_index_of_another_segment_or_of_zeros_is_made_anew() -> None:
    """Kafka's check of it: the marker lies in the segment. A file system may give back zeros for what it had no time to
    write."""
    files = SimulatedFiles()
    end = written(files).log_end_offset
    right = reopen(files, end).aborted_transactions(0, end)
    (path,) = names(files, ".txnindex")[:1]
    for content in (bytes(34), encode_aborted(AbortedTransaction(9, 0, 1, 2))):
        files = SimulatedFiles()
        written(files)
        files.set_content(path, content)
        assert reopen(files, end).aborted_transactions(0, end) == right


def test_a_transaction_index_as_kafkas_followers_write_it_is_taken_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """One append may hold a marker and, behind other records, the begin of a transaction: up to there all is stable."""
    files = SimulatedFiles()
    end = written(files).log_end_offset
    (path,) = names(files, ".txnindex")[:1]
    (aborted,) = decode_aborted(files.read(path))
    files.set_content(path, encode_aborted(aborted._replace(last_stable_offset=aborted.last_offset + 2)))
    assert aborted.last_offset + 2 == end
    log = reopen(files, end)
    assert log.aborted_transactions(0, end) == [aborted._replace(last_stable_offset=end)]
    assert "made anew" not in caplog.text


def test_a_truncation_that_meets_damage_says_so_and_leaves_the_log_as_it_was() -> None:
    """With CORRUPT_MESSAGE: the log alone is concerned, where StorageFailure takes all of its directory away."""
    files = SimulatedFiles()
    written(files)
    paths = names(files, ".log")
    assert len(paths) > 3
    for path in paths:
        files = SimulatedFiles()
        log = reopen(files, written(files).log_end_offset)
        end, segments = log.log_end_offset, list(log.segments)
        files.flip(path, 8, 1 << 6)
        with pytest.raises(KafkaError) as refused:
            log.truncate_to(int(path.rpartition("/")[2].partition(".")[0]) + 1)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (log.segments, log.log_end_offset, log.history_changes) == (segments, end, 0)
        assert log.append_as_leader(make_batch(), 3).first_offset == end


def test_damage_just_before_a_cut_is_found_before_anything_is_cut() -> None:
    """Where the index has an entry for the very batch that goes, what stays was read only when the rest had gone: the
    log ended where it had, without its last segments."""
    files = SimulatedFiles()
    log = reopen(files, written(files).log_end_offset)
    batches = [(segment.path(".log"), batch) for segment in log.segments for batch in segment.batches_from(0)]
    for (path, damaged), (_, cut) in itertools.pairwise(batches):
        files = SimulatedFiles()
        log = reopen(files, written(files).log_end_offset)
        before = list(log.segments), [segment.size_bytes for segment in log.segments], log.log_end_offset
        files.flip(path, damaged.position + 8, 1 << 6)
        try:
            log.truncate_to(cut.last_offset)
        except KafkaError:
            assert (list(log.segments), [segment.size_bytes for segment in log.segments], log.log_end_offset) == before
        else:
            assert log.log_end_offset == cut.base_offset


def is_leader_epoch(path: str, byte: int, bits: int) -> bool:
    """Tell whether a byte lies in a batch's leader epoch, which no checksum covers."""
    files = SimulatedFiles()
    written(files)
    at, data = 0, files.read(path)
    while path.endswith(".log") and at <= byte:
        if at + 12 <= byte < at + 16:
            return True
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return False


def test_a_follower_takes_nothing_that_a_checksum_shows_to_be_damaged() -> None:
    files = SimulatedFiles()
    end = written(files).log_end_offset
    segment = reopen(files, end).segments[1]
    good = segment.file.pread(segment.size_bytes, 0)
    heads = [batch.position for batch in segment.batches_from(0)]
    refused = 0
    for byte in range(16, len(good), 5):
        if any(at <= byte < at + 16 for at in heads):
            continue
        rotten = bytearray(good)
        rotten[byte] ^= 1
        follower = open_test_log(make_environment(), CONFIG, clean=True)
        follower.truncate_fully_and_start_at(segment.base_offset)
        with pytest.raises(KafkaError) as caught:
            follower.append_as_follower(bytes(rotten))
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert (follower.log_end_offset, follower.size_bytes) == (segment.base_offset, 0)
        refused += 1
    assert refused > 50


@pytest.mark.parametrize("name", ["partition.metadata", "recovery-point-offset-checkpoint", "meta.properties"])
def test_small_files_never_end_in_an_exception_that_nobody_expects(name: str) -> None:
    for seed in range(25):
        machine = Machine(seed)
        log = machine.start().get_or_create("events", 0, TOPIC_IDS["events"], is_new=True)
        log.append_as_leader(make_batch([b"x"]), 0)
        assert machine.logs is not None
        machine.logs.close()
        machine.background.drain()
        machine.stop(power_fails=False)
        path = f"/a/events-0/{name}" if name == "partition.metadata" else f"/a/{name}"
        machine.files.flip(path, machine.random.randrange(machine.files.size(path)), 1 << machine.random.randrange(8))
        try:
            machine.start()
        except UnusableDirectory as error:
            assert name == "meta.properties" and "/a" in str(error)
            continue
        opened = machine.log(("events", 0))
        assert (opened is None and machine.failed) or (opened is not None and opened.log_end_offset == 1)


@pytest.mark.parametrize("lost", ["half a batch", "a batch", "all"])
def test_a_log_that_lost_its_end_after_a_clean_shutdown_does_not_count_as_closed_cleanly(lost: str) -> None:
    """The broker first leaves the ISR of those that do not: others may have what is lost here."""
    files = SimulatedFiles()
    end = written(files).log_end_offset
    (*_, path) = names(files, ".log")
    size = files.size(path)
    cut = {"half a batch": size - 10, "a batch": size - len(make_batch([b"last"])), "all": 0}[lost]
    files.open(path).truncate(cut)
    log = reopen(files, end)
    assert log.log_end_offset < end
    assert log.clean_end_offset == -1


def test_a_lost_marker_of_an_aborted_transaction_leaves_no_entry_behind() -> None:
    """With it the index did not rise when the leader had sent the marker again: no committed data could be read."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    log.append_as_leader(make_batch([b"aborted"], producer_id=9, transactional=True), 0)
    marker = bytearray(encode_end_txn_marker(EndTxnMarker(False, 0), 0, 9, 0))
    log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)
    close_log(log)
    files.kill()
    (path,) = names(files, ".log")
    files.open(path).truncate(files.size(path) - len(marker))
    log = open_test_log(make_environment(files), recovery_point=2, clean=True)
    assert (log.log_end_offset, log.last_stable_offset(1), log.aborted_transactions(0, 1)) == (1, 0, [])
    log.append_as_follower(marker)
    log.segments[0].release()
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(9, 0, 1, 2)]


def test_a_recovered_transaction_index_names_what_was_aborted_before_the_log_start_offset_too() -> None:
    """Kafka's does. `dump-log --verify` called such a log damaged after a kill; Streams deletes what it has read."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    log.append_as_leader(make_batch([b"aborted"], producer_id=9, transactional=True), 0)
    log.append_as_leader(
        bytearray(encode_end_txn_marker(EndTxnMarker(False, 0), 0, 9, 0)), 0, origin=Origin.COORDINATOR
    )
    log.append_as_leader(make_batch([b"last"]), 0)
    close_log(log)
    files.kill()
    open_test_log(make_environment(files), recovery_point=0, log_start_offset=3, clean=False)
    (path,) = names(files, ".txnindex")
    assert decode_aborted(files.read(path)) == [AbortedTransaction(9, 0, 1, 2)]
    assert list(verify(files, DIRECTORY)) == []
