"""Idempotent producers and the log: duplicates across restarts, leaders and the wrap of sequences; snapshots kept."""

import pytest

from odradek.broker.log.batches import Appended
from odradek.broker.log.log import Log
from odradek.broker.log.producer_sequences import LARGEST_SEQUENCE, sequence_after
from odradek.broker.log.recovery.log_opening import open_log
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.log_environments import DIRECTORY, close_log, make_batch, make_environment, open_test_log
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import FIRST_WALL_CLOCK_MS, ManualClock

PRODUCER = 7
ROLLING = LogConfig(segment_bytes=230)
"""Segments of three batches of one short record."""
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
IN_FLIGHT = 5


def time_of(sequence: int) -> int:
    """So that a batch that is sent again is the same."""
    return FIRST_WALL_CLOCK_MS + sequence % 256


def append(log: Log, sequence: int, count: int = 1, *, epoch: int = 0, leader_epoch: int = 0) -> Appended:
    batch = make_batch(
        [b"value"] * count,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        sequence=sequence,
        timestamp_ms=time_of(sequence),
    )
    return log.append_as_leader(batch, leader_epoch)


def refusal(log: Log, sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(log, sequence, count, epoch=epoch)
    return refused.value.code


def check_repeated(log: Log, first: list[Appended], sequences: list[int], counts: list[int]) -> None:
    """Each is answered as the first time, with the largest timestamp in place of the append time, as in Kafka."""
    end = log.log_end_offset
    for appended, sequence, count in zip(first, sequences, counts, strict=True):
        again = append(log, sequence, count)
        assert again.duplicate
        assert again[:2] == appended[:2]
        assert again.log_append_time_ms == time_of(sequence) + count - 1
    assert log.log_end_offset == end


def restarted(log: Log, how: str, files: SimulatedFiles) -> Log:
    if how == "clean":
        close_log(log)
        return open_test_log(make_environment(files), ROLLING, clean=True)
    log.flush()
    files.kill()
    return open_test_log(make_environment(files), ROLLING, recovery_point=log.recovery_point)


@pytest.mark.parametrize("how", ["no restart", "clean", "killed"])
@pytest.mark.parametrize("first_sequence", [0, LARGEST_SEQUENCE - 6])
@pytest.mark.parametrize("batches", range(6, 10))
def test_each_of_the_last_five_batches_is_known_again(how: str, first_sequence: int, batches: int) -> None:
    """Wherever in a segment the log ends; also across the wrap, which one batch spans."""
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    counts = [2 if number % 3 else 1 for number in range(batches)]
    sequences = [sequence_after(first_sequence, sum(counts[:number])) for number in range(batches)]
    done = [append(log, sequence, count) for sequence, count in zip(sequences, counts, strict=True)]
    if how != "no restart":
        log = restarted(log, how, files)
    check_repeated(log, done[-IN_FLIGHT:], sequences[-IN_FLIGHT:], counts[-IN_FLIGHT:])
    sixth = batches - IN_FLIGHT - 1
    assert refusal(log, sequences[sixth], counts[sixth]) is OUT_OF_ORDER  # Kafka 3.9 too has no other word for it
    following = sequence_after(first_sequence, sum(counts))
    assert refusal(log, sequence_after(following, 1)) is OUT_OF_ORDER
    assert not append(log, following).duplicate


def test_a_batch_across_the_wrap_is_repeated_as_a_whole_or_not_at_all() -> None:
    log = open_test_log(make_environment(), clean=True)
    first = append(log, LARGEST_SEQUENCE - 1, 4)
    assert append(log, LARGEST_SEQUENCE - 1, 4)[:2] == first[:2]
    assert [refusal(log, sequence) for sequence in (LARGEST_SEQUENCE, 0, 1, 3)] == [OUT_OF_ORDER] * 4
    assert append(log, 2).first_offset == 4


@pytest.mark.parametrize("kept", range(1, 8))
def test_a_new_leader_knows_what_it_has_and_takes_what_it_lost(kept: int) -> None:
    """A follower that was cut back to offset `kept` becomes the leader; the producer repeats its last five batches."""
    leader = open_test_log(make_environment(), ROLLING, clean=True)
    follower = open_test_log(make_environment(), ROLLING, clean=True)
    for sequence in range(7):
        append(leader, sequence)
    for segment in leader.segments:
        follower.append_as_follower(memoryview(bytearray(segment.file.pread(segment.size_bytes, 0))))
    follower.truncate_to(kept)
    repeated = [append(follower, sequence, leader_epoch=1) for sequence in range(min(2, kept), 7)]
    assert [one.first_offset for one in repeated] == list(range(min(2, kept), 7))
    assert sum(one.duplicate for one in repeated) == max(0, kept - 2)
    assert follower.log_end_offset == 7


def test_a_gap_in_flight_is_refused_until_it_is_filled() -> None:
    log = open_test_log(make_environment(), clean=True)
    append(log, 0)
    assert [refusal(log, sequence) for sequence in (2, 3, 4)] == [OUT_OF_ORDER] * 3
    assert [append(log, sequence).first_offset for sequence in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_a_newer_epoch_fences_the_older_and_begins_at_zero() -> None:
    log = open_test_log(make_environment(), clean=True)
    append(log, 0, epoch=4)
    assert refusal(log, 1, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, 1, epoch=5) is OUT_OF_ORDER
    append(log, 0, epoch=5)
    assert refusal(log, 0, epoch=4) is ErrorCode.INVALID_PRODUCER_EPOCH  # not even a duplicate counts then
    assert append(log, 0, epoch=5).duplicate


@pytest.mark.parametrize("forgotten", ["expired", "expired meanwhile"])
def test_a_producer_that_nobody_remembers_may_go_on_anywhere(forgotten: str) -> None:
    """Since Kafka 2.5 there is no UNKNOWN_PRODUCER_ID: what it wrote may have been deleted, which is not its fault."""
    clock = ManualClock()
    files = SimulatedFiles(now_ms=clock.now_ms)
    log = open_test_log(make_environment(files, clock), clean=True)
    for sequence in range(3):
        batch = make_batch(producer_id=PRODUCER, sequence=sequence, timestamp_ms=clock.now_ms())
        log.append_as_leader(batch, 0)
    if forgotten == "expired":
        clock.advance(log.environment.producer_expiration_ms - 1)
        log.producers.expire(log.environment.clock.now_ms(), log.environment.producer_expiration_ms)
        assert refusal(log, 9) is OUT_OF_ORDER
        clock.advance(1)
        log.producers.expire(log.environment.clock.now_ms(), log.environment.producer_expiration_ms)
    else:
        close_log(log)
        clock.advance(log.environment.producer_expiration_ms)
        log = open_test_log(make_environment(files, clock), clean=True)
    assert append(log, 9).first_offset == 3
    assert refusal(log, 9, 2) is OUT_OF_ORDER


@pytest.mark.parametrize("deleted_until", [3, 4, 5])
@pytest.mark.parametrize("then", ["clean", "killed", "truncated"])
def test_a_batch_is_not_written_twice_although_its_records_are_deleted(then: str, deleted_until: int) -> None:
    """The first segment goes as a whole; of the second, records are hidden. Kafka drops the snapshot at the log start,
    and writes the repeated batch again."""
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(deleted_until):
        append(log, sequence)
    log.advance_log_start_offset(deleted_until)
    delete_old_segments(log, deleted_until)
    assert log.log_start_offset == log.log_end_offset == deleted_until and len(log.segments) == 1
    if then == "truncated":
        append(log, deleted_until)
        log.truncate_to(deleted_until)
    else:
        if then == "clean":
            close_log(log)
        else:
            log.flush()
            files.kill()
        log = open_log(
            make_environment(files), DIRECTORY, "topic", 0, ROLLING,
            recovery_point=deleted_until, log_start_offset=deleted_until, clean=then == "clean",
        )  # fmt: skip
    assert append(log, deleted_until - 1).duplicate
    assert refusal(log, deleted_until + 1) is OUT_OF_ORDER
    assert append(log, deleted_until).first_offset == deleted_until


def test_a_log_whose_first_batch_is_damaged_can_be_cut_back_to_its_start() -> None:
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(5):
        append(log, sequence)
    files.flip(log.segments[0].path(".log"), 16)  # the format's number
    assert log.truncate_to(0) and (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert append(log, 0).first_offset == 0


def test_the_last_five_batches_are_known_again_in_a_log_that_looks_old() -> None:
    """The clock leaps when a suspended machine goes on; the producer has been suspended, too, and repeats."""
    clock = ManualClock()
    files = SimulatedFiles(now_ms=clock.now_ms)
    log = open_test_log(make_environment(files, clock), clean=True)
    for sequence in range(8):
        append(log, sequence)
    close_log(log)
    clock.advance(5 * 60 * 60 * 1000)
    log = open_test_log(make_environment(files, clock), clean=True)
    assert [append(log, sequence).duplicate for sequence in range(3, 9)] == [True] * 5 + [False]


def snapshots(files: SimulatedFiles) -> list[int]:
    return [int(name.partition(".")[0]) for name in sorted(files.list_directory(DIRECTORY)) if "snapshot" in name]


def test_snapshots_are_those_of_segments_and_of_the_last_clean_stop() -> None:
    """Until 2.8 Kafka kept the latest two; since then one at the start of each segment (KAFKA-5393)."""
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(8):
        append(log, sequence)
    assert snapshots(files) == [3, 6]
    close_log(log)
    assert snapshots(files) == [3, 6, 8]
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    assert snapshots(files) == [3, 6, 8]
    append(log, 8)
    append(log, 9)
    close_log(log)
    open_test_log(make_environment(files), ROLLING, clean=True)
    assert snapshots(files) == [3, 6, 9, 10]


def test_snapshots_go_with_their_segments() -> None:
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(11):
        append(log, sequence)
    assert snapshots(files) == [3, 6, 9]
    log.advance_log_start_offset(7)
    assert delete_old_segments(log, 11) == 2
    assert snapshots(files) == [6, 9]
    assert append(log, 6).duplicate, "the state itself forgets nothing"


def test_of_compacted_segments_only_the_snapshot_of_the_first_stays() -> None:
    """A segment that took the place of several begins where the first of them began (LocalLog.replaceSegments)."""
    config = LogConfig(segment_bytes=230, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    world = CompactedLog(config)
    for sequence in range(11):
        world.put((b"key", b"%d" % sequence), producer_id=PRODUCER, sequence=sequence)
    assert snapshots(world.files) == [3, 6, 9]
    world.compact()  # leaves them small
    assert snapshots(world.files) == [3, 6, 9]
    for sequence in range(11, 14):
        world.put((b"key", b"%d" % sequence), producer_id=PRODUCER, sequence=sequence)
    world.compact()  # now some fit together
    left = [segment.base_offset for segment in world.log.segments]
    assert len(left) < 5
    assert snapshots(world.files) == left[1:]
    world.reopen()
    assert world.log.producers.producers[PRODUCER].last_sequence == 13


def test_after_a_kill_snapshots_of_what_is_recovered_are_made_anew() -> None:
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(8):
        append(log, sequence)
    log.flush()
    files.kill()
    lie = files.read(f"{DIRECTORY}/{3:020d}.snapshot")
    files.set_content(f"{DIRECTORY}/{6:020d}.snapshot", lie)
    log = open_test_log(make_environment(files), ROLLING, recovery_point=4)
    assert snapshots(files) == [3, 6, 8]
    assert log.producers.producers[PRODUCER].last_sequence == 7
    assert files.read(f"{DIRECTORY}/{6:020d}.snapshot") != lie


def test_truncation_leaves_a_snapshot_where_the_log_ends_and_none_after_it() -> None:
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(8):
        append(log, sequence)
    log.truncate_to(5)
    assert snapshots(files) == [3, 5]
    assert append(log, 4).duplicate
    assert refusal(log, 6) is OUT_OF_ORDER
    assert append(log, 5).first_offset == 5


@pytest.mark.parametrize("cut_bytes", [1, 5, 9, 30])
def test_a_torn_snapshot_is_replaced_by_the_one_before_and_the_batches_since(cut_bytes: int) -> None:
    files = SimulatedFiles(now_ms=ManualClock().now_ms)
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    for sequence in range(8):
        append(log, sequence)
    close_log(log)
    path = f"{DIRECTORY}/{8:020d}.snapshot"
    files.set_content(path, files.read(path)[:-cut_bytes])
    log = open_test_log(make_environment(files), ROLLING, clean=True)
    assert [append(log, sequence).duplicate for sequence in range(3, 8)] == [True] * 5


def test_a_log_that_was_truncated_has_verified_nothing() -> None:
    log = open_test_log(make_environment(), clean=True)
    log.append_as_leader(make_batch(), 0)
    guard = log.begin_verification(7, 0, 0)
    assert guard is not None and log.is_verified(7, guard)
    log.truncate_to(0)
    assert not log.is_verified(7, guard)


def test_a_log_that_is_gone_has_verified_nothing() -> None:
    log = open_test_log(make_environment(), clean=True)
    guard = log.begin_verification(7, 0, 0)
    assert guard is not None
    log.abandon()
    assert not log.is_verified(7, guard)


@pytest.mark.parametrize("others", [0, 1])
def test_large_batches_are_known_again_after_a_clean_restart(others: int) -> None:
    """Five of the largest that librdkafka makes are five megabytes; another producer's may lie between them."""
    files, value = SimulatedFiles(now_ms=ManualClock().now_ms), bytes(1_000_000)
    log = open_test_log(make_environment(files), LogConfig(), clean=True)
    batches = []
    for sequence in range(IN_FLIGHT + 1):
        for producer in range(PRODUCER, PRODUCER + 1 + others):
            batches.append(
                bytes(make_batch([value], producer_id=producer, sequence=sequence, timestamp_ms=time_of(sequence)))
            )
            log.append_as_leader(bytearray(batches[-1]), 0)
    close_log(log)
    log = open_test_log(make_environment(files), LogConfig(), clean=True)
    end = log.log_end_offset
    for batch in batches[-IN_FLIGHT * (1 + others) :]:
        assert log.append_as_leader(bytearray(batch), 0).duplicate
    assert log.log_end_offset == end
