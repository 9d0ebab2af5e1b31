"""Transactions as the log keeps them: where committed readers stop, what they skip, what outlives a restart."""

import random
from dataclasses import dataclass, field

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.log import Log
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import ControlType, EndTxnMarker, control_type, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import assemble_batch, batches, read_header
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.log_environments import DIRECTORY, close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock
from odradek.world.files import FileRange

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100)
INDEX = f"{DIRECTORY}/{0:020d}.txnindex"
PRODUCERS = range(1, 5)


def write(log: Log, value: bytes, producer: int, sequence: int, *, transactional: bool = True) -> int:
    batch = make_batch([value], producer_id=producer, sequence=sequence, transactional=transactional)
    return log.append_as_leader(batch, 0).first_offset


def end(log: Log, producer: int, *, commit: bool) -> None:
    marker = encode_end_txn_marker(EndTxnMarker(commit, 0), FIRST_WALL_CLOCK_MS, producer, 0)
    log.append_as_leader(marker, 0, origin=Origin.COORDINATOR)


def read_committed(log: Log, offset: int) -> list[bytes]:
    """As the Java client does it: fetch by fetch, leaving out what the answer says was aborted."""
    stable = log.last_stable_offset(log.log_end_offset)
    values: list[bytes] = []
    while offset < stable:
        found = log.read(offset, 300, stable, whole_first_batch=True)
        assert isinstance(found.records, FileRange)
        coming = sorted(log.aborted_within(offset, found, stable), key=lambda one: one.first_offset)
        skipped: set[int] = set()
        data = found.records.read()
        for at, header in batches(data, allow_partial_tail=True):
            while coming and coming[0].first_offset <= header.last_offset:
                skipped.add(coming.pop(0).producer_id)
            records = decode_records(data, at)
            offset = header.next_offset
            if header.is_control:
                if control_type(records.keys[0]) is ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                values += [value or b"" for value in records.values]
    return values


@dataclass
class Model:
    """Values in the order of their offsets, with the transaction they belong to; what became of transactions."""

    rows: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    open_: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Producer → (number of its transaction, first offset)."""
    aborted: set[int] = field(default_factory=set)

    def committed(self, offset: int, stable: int) -> list[bytes]:
        return [
            value for at, value, transaction in self.rows if offset <= at < stable and transaction not in self.aborted
        ]


def random_workload(log: Log, seed: int) -> Model:
    chance, model = random.Random(seed), Model()
    sequences = dict.fromkeys(PRODUCERS, 0)
    for step in range(60):
        producer = chance.choice(PRODUCERS)
        if producer in model.open_ and chance.random() < 0.5:
            commit = chance.random() < 0.5
            number, _ = model.open_.pop(producer)
            if not commit:
                model.aborted.add(number)
            end(log, producer, commit=commit)
            continue
        transactional = producer in model.open_ or chance.random() < 0.8
        value = f"{step}".encode()
        offset = write(log, value, producer, sequences[producer], transactional=transactional)
        sequences[producer] += 1
        if transactional:
            number, _ = model.open_.setdefault(producer, (step, offset))
            model.rows.append((offset, value, number))
        else:
            model.rows.append((offset, value, None))
    return model


def check(log: Log, model: Model) -> None:
    stable = log.last_stable_offset(log.log_end_offset)
    assert stable == min((first for _, first in model.open_.values()), default=log.log_end_offset)
    for offset in range(log.log_start_offset, log.log_end_offset, 7):
        assert read_committed(log, offset) == model.committed(offset, stable), offset


@pytest.mark.parametrize("seed", range(8))
def test_committed_readers_see_what_was_committed_and_nothing_else(seed: int) -> None:
    """From any offset, in whatever segment data and marker are; also after a clean stop, and after a kill that lost
    some of the last segments' indexes and left lies in others."""
    clock = ManualClock()
    files = SimulatedFiles(now_ms=clock.now_ms)
    log = open_test_log(make_environment(files, clock), CONFIG, clean=True)
    model = random_workload(log, seed)
    assert len(log.segments) > 3
    check(log, model)
    close_log(log)
    log = open_test_log(make_environment(files, clock), CONFIG, clean=True)
    check(log, model)
    log.flush()
    files.kill()
    indexes = [name for name in files.list_directory(DIRECTORY) if name.endswith(".txnindex")]
    files.set_content(f"{DIRECTORY}/{indexes[-1]}", files.read(f"{DIRECTORY}/{indexes[0]}") * 2)
    files.remove(f"{DIRECTORY}/{indexes[0]}")
    check(open_test_log(make_environment(files, clock), CONFIG, recovery_point=0), model)


def known_of(log: Log) -> dict[int, tuple[object, ...]]:
    """All that is remembered of each producer, but for the older of its last five batches."""
    return {
        one.producer_id: (
            one.epoch, one.coordinator_epoch, one.last_timestamp_ms, one.transaction_first_offset, one.batches[-1:]
        )
        for one in log.producers.producers.values()
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_the_state_is_the_same_live_and_rebuilt_from_batches_alone_or_with_any_snapshot(seed: int) -> None:
    clock = ManualClock()
    files = SimulatedFiles(now_ms=clock.now_ms)
    log = open_test_log(make_environment(files, clock), CONFIG, clean=True)
    random_workload(log, seed)
    chance = random.Random(seed)
    log.truncate_to(chance.randrange(log.log_end_offset // 2, log.log_end_offset))
    live, stable = known_of(log), log.last_stable_offset(log.log_end_offset)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    close_log(log)
    indexes = {name: files.read(f"{DIRECTORY}/{name}") for name in files.list_directory(DIRECTORY)}
    for kept in (lambda name: True, lambda name: chance.random() < 0.5, lambda name: False):
        anew = SimulatedFiles(now_ms=clock.now_ms)
        for name, content in indexes.items():
            if name.endswith(".log") or (not name.endswith(".txnindex") and kept(name)):
                anew.set_content(f"{DIRECTORY}/{name}", content)
        log = open_test_log(make_environment(anew, clock), CONFIG, recovery_point=0)
        assert known_of(log) == live
        assert log.last_stable_offset(log.log_end_offset) == stable
        assert log.aborted_transactions(0, log.log_end_offset) == aborted


def test_the_transaction_index_is_searched_across_segments_and_no_further_than_needed() -> None:
    log = open_test_log(make_environment(), CONFIG, clean=True)
    for sequence in range(6):
        write(log, b"%d" % sequence, 1, sequence)
        write(log, b"%d" % sequence, 2, sequence, transactional=False)
        end(log, 1, commit=False)
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    assert [one[1:] for one in log.aborted_transactions(1, 18)] == [(3 * n, 3 * n + 2, 3 * n + 3) for n in range(6)]
    assert [one.first_offset for one in log.aborted_transactions(3, 18)] == [3, 6, 9, 12, 15]
    assert [one.first_offset for one in log.aborted_transactions(2, 6)] == [0, 3]
    found = log.read(1, 100, 18, whole_first_batch=True)
    assert len(log.aborted_within(1, found, 18)) < 6  # what lies beyond the fetched bytes is not the reader's business


def test_a_reader_hears_of_no_transaction_that_begins_behind_what_it_reads() -> None:
    log = open_test_log(make_environment(), clean=True)
    for producer in (1, 2):
        write(log, b"aborted", producer, 0)
    for producer in (2, 1):
        end(log, producer, commit=False)
    assert [one[:3] for one in log.aborted_transactions(0, 1)] == [(1, 0, 3)]
    assert [one[:3] for one in log.aborted_transactions(0, 2)] == [(2, 1, 2), (1, 0, 3)]


def test_a_transaction_without_an_end_holds_readers_back_for_ever_restarts_or_not() -> None:
    clock = ManualClock()
    files = SimulatedFiles(now_ms=clock.now_ms)
    log = open_test_log(make_environment(files, clock), CONFIG, clean=True)
    write(log, b"before", 2, 0, transactional=False)
    write(log, b"hanging", 1, 0)
    for sequence in range(1, 12):
        write(log, b"after", 2, sequence, transactional=False)
    for stop in ("clean", "clean", "killed"):
        if stop == "clean":
            close_log(log)
            clock.advance(2 * log.environment.producer_expiration_ms)  # an open transaction never expires
            log = open_test_log(make_environment(files, clock), CONFIG, clean=True)
        else:
            log.flush()
            files.kill()
            log = open_test_log(make_environment(files, clock), CONFIG, recovery_point=13)
        assert log.producers.producers[1].transaction_first_offset == 1
        assert log.last_stable_offset(13) == 1
        log.producers.expire(log.environment.clock.now_ms(), log.environment.producer_expiration_ms)
    end(log, 1, commit=False)
    assert log.last_stable_offset(13) == 1  # the marker is not replicated yet
    assert log.last_stable_offset(14) == 14
    assert log.aborted_transactions(0, 14) == [(1, 1, 13, 14)]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_transactions_that_ended_are_forgotten_even_when_nobody_reads(role: str) -> None:
    """A follower has no readers, and a topic may be written to for days before it is read."""
    log = open_test_log(make_environment(), clean=True)
    partition = Partition("topic", 0, 1, log)
    leader = log
    if role == "follower":
        leader = open_test_log(make_environment(), clean=True)
        partition.follow(PartitionView(2, 0, (1, 2), 0, (1, 2)))
    else:
        partition.lead(PartitionView(1, 0, (1,), 0, (1,)), 0.0)
    for sequence in range(20):
        sent = log.log_end_offset
        write(leader, b"a", 1, sequence)
        end(leader, 1, commit=bool(sequence % 2))
        if role == "follower":
            data = memoryview(bytearray(leader.active.file.pread(1 << 20, leader.active.locate(sent))))
            partition.append_as_follower(data, sent + 1, 0)
        else:
            partition.advance_high_watermark()
    assert len(log.producers._unreplicated) == (1 if role == "follower" else 0)
    assert log.last_stable_offset(partition.high_watermark) == partition.high_watermark - (role == "follower")


def test_deleted_records_do_not_hold_back_anybody() -> None:
    log = open_test_log(make_environment(), clean=True)
    for sequence in range(3):
        write(log, b"hanging", 1, sequence)
    assert log.last_stable_offset(3) == 0
    log.advance_log_start_offset(2)
    assert log.last_stable_offset(3) == 2


@pytest.mark.parametrize("kept", range(8))
def test_truncation_takes_markers_back(kept: int) -> None:
    log = open_test_log(make_environment(), CONFIG, clean=True)
    write(log, b"a", 1, 0)
    write(log, b"b", 2, 0)
    end(log, 1, commit=False)
    write(log, b"c", 1, 1)
    end(log, 2, commit=True)
    write(log, b"d", 2, 1)
    end(log, 1, commit=False)
    assert [one[1:3] for one in log.aborted_transactions(0, 7)] == [(0, 2), (3, 6)]
    log.truncate_to(kept)
    assert log.last_stable_offset(kept) == {1: 0, 2: 0, 3: 1, 4: 1, 5: 3, 6: 3, 7: 5}.get(kept, 0)
    assert [one[1:3] for one in log.aborted_transactions(0, 7)] == [(0, 2), (3, 6)][: (kept > 2) + (kept > 6)]


def test_a_marker_that_a_crash_took_is_not_in_the_index_either() -> None:
    """The index may reach the disk before the log does: then it speaks of a marker that never was."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    write(log, b"a", 1, 0)
    log.flush()
    size = log.active.size_bytes
    end(log, 1, commit=False)
    index = files.read(INDEX)
    files.kill()
    path = f"{DIRECTORY}/{0:020d}.log"
    files.set_content(path, files.read(path)[:size])
    files.set_content(INDEX, index)
    log = open_test_log(make_environment(files), recovery_point=1)
    assert log.aborted_transactions(0, 2) == []
    end(log, 1, commit=True)
    assert log.aborted_transactions(0, 2) == []
    assert read_committed(log, 0) == [b"a"]


@pytest.mark.parametrize("damage", ["torn", "version", "order"])
def test_a_damaged_index_is_never_believed(damage: str) -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    for sequence in range(2):
        write(log, b"a", 1, sequence)
        end(log, 1, commit=False)
    close_log(log)
    good = files.read(INDEX)
    bad = {"torn": good[:-3], "version": b"\x00\x07" + good[2:], "order": good[34:] + good[:34]}[damage]
    files.set_content(INDEX, bad)
    log = open_test_log(make_environment(files), clean=True)
    assert files.read(INDEX) == good
    files.set_content(INDEX, bad)
    log.active.transactions.release()
    with pytest.raises(KafkaError) as refused:
        log.aborted_transactions(0, 4)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_index_that_was_made_anew_outlives_a_power_failure() -> None:
    """Else a reader of an old segment would be given aborted records, and nothing would look damaged."""
    for seed in range(6):
        files = SimulatedFiles(seed)
        log = open_test_log(make_environment(files), CONFIG, clean=True)
        for sequence in range(9):
            write(log, b"a", 1, sequence)
            end(log, 1, commit=False)
        close_log(log)
        good = files.read(INDEX)
        files.set_content(INDEX, good[:-1])
        open_test_log(make_environment(files), CONFIG, recovery_point=18, clean=True)
        files.crash()
        log = open_test_log(make_environment(files), CONFIG, recovery_point=18)
        assert [one.first_offset for one in log.aborted_transactions(0, 18)] == list(range(0, 18, 2))
        assert files.read(INDEX) == good


def test_plain_records_are_refused_while_a_transaction_is_open() -> None:
    log = open_test_log(make_environment(), clean=True)
    write(log, b"a", 1, 0)
    with pytest.raises(KafkaError) as refused:
        write(log, b"b", 1, 1, transactional=False)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    end(log, 1, commit=True)
    assert write(log, b"b", 1, 1, transactional=False) == 2


@pytest.mark.parametrize("damaged", ["key", "value", "count"])
def test_a_marker_that_makes_no_sense_is_not_written(damaged: str) -> None:
    """A follower stays where it is: what it has in the log, it knows of its producers too."""
    log = open_test_log(make_environment())
    good = make_batch([b"x"], producer_id=1, sequence=0, epoch=0, transactional=True)
    key, value = (b"", bytes(6)) if damaged == "key" else (bytes(4), b"")
    marker = encode_batch(
        1, [0], [key], [value], producer_id=1, producer_epoch=0, transactional=True, control=True,
        partition_leader_epoch=0,
    )  # fmt: skip
    if damaged == "count":
        marker = assemble_batch(read_header(marker)._replace(record_count=-1))
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(bytes(good) + bytes(marker))
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert (log.log_end_offset, log.active.size_bytes, log.producers.producers) == (0, 0, {})
    log.append_as_follower(good)
    assert (log.log_end_offset, log.producers.map_end_offset, log.closed) == (1, 1, False)
