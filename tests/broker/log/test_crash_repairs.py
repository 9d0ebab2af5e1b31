"""Logs after a crash: what recovery drops or keeps, and what must not come back. bench/crash.py found all of it."""

from dataclasses import replace

import pytest

from odradek.broker.log.compaction.cleanable_offsets import log_to_clean
from odradek.broker.log.leader_epochs import LeaderEpochs
from odradek.broker.log.log import Log
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records import encode_batch
from odradek.testing.compacted_log import CompactedLog
from odradek.testing.crashes.history import History
from odradek.testing.crashes.machine import TOPIC_IDS, Machine
from odradek.testing.log_environments import (
    DIRECTORY,
    close_log,
    make_batch,
    make_environment,
    open_test_log,
    read_batches,
)
from odradek.testing.simulated_files import MachineStopped, SimulatedFiles
from tests.broker.log.crashing_log import SEEDS, batch, write

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)

BATCH_BYTES = len(make_batch([b"x" * 60]))


def values(log: Log) -> list[int]:
    return [int(columns.values[0] or b"") for columns in read_batches(log)]


def path(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def test_indexes_are_synced_also_when_the_data_was_before_the_segment_was_full() -> None:
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        log = open_test_log(make_environment(files), SMALL, clean=True)
        write(log, 3)
        log.flush()
        log.roll()
        index, times = files.read(path(0, ".index")), files.read(path(0, ".timeindex"))
        files.crash()
        assert (files.read(path(0, ".index")), files.read(path(0, ".timeindex"))) == (index, times)


def test_what_recovery_cuts_off_does_not_come_back() -> None:
    """A batch after the damage is whole; it would continue what is written in the place of the damaged one."""
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        log = open_test_log(make_environment(files), clean=True)
        write(log, 4)
        log.flush()
        files.crash()
        files.flip(path(0), BATCH_BYTES + 70)
        log = open_test_log(make_environment(files))
        assert log.log_end_offset == 1
        log.append_as_leader(batch(77), 1)
        files.crash()
        assert values(open_test_log(make_environment(files))) in ([0], [0, 77])


def test_segments_that_recovery_drops_do_not_come_back() -> None:
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        config = LogConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"}))  # there a gap tells nothing
        log = open_test_log(make_environment(files), config, clean=True)
        for number in range(8):
            log.append_as_follower(batch(number, base_offset=number, epoch=0))
        log.flush()
        files.crash()
        files.flip(path(3), 70)
        log = open_test_log(make_environment(files), config)
        assert (log.log_end_offset, len(log.segments)) == (3, 2)
        files.crash()
        assert values(open_test_log(make_environment(files), config)) == [0, 1, 2]


def test_a_segment_whose_end_is_lost_ends_the_log() -> None:
    """The next segment was on the disk already, and nothing in either of them is damaged."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), SMALL, clean=True)
    write(log, 8)
    files.kill()
    files.set_content(path(3), files.read(path(3))[: -2 * BATCH_BYTES])
    log = open_test_log(make_environment(files), SMALL)
    assert (values(log), log.log_end_offset) == ([0, 1, 2, 3], 4)


def test_a_follower_of_a_compacted_leader_has_no_gap_between_segments() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), SMALL, clean=True)
    for number in range(8):
        log.append_as_follower(batch(number, base_offset=10 * number, epoch=1))
    assert [segment.base_offset for segment in log.segments] == [0, 21, 51]
    files.kill()
    assert values(open_test_log(make_environment(files), SMALL)) == list(range(8))


def test_a_part_of_a_refused_write_is_cut_off_on_the_disk() -> None:
    """Or a whole batch of it could stand behind what is written in the place of the one before."""
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), clean=True)
    write(log, 1)
    log.flush()
    syncs = files.syncs
    files.capacity_bytes = sum(files.size(f"{DIRECTORY}/{name}") for name in files.list_directory(DIRECTORY))
    files.capacity_bytes += 2 * BATCH_BYTES
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(b"".join(bytes(batch(one, base_offset=one, epoch=0)) for one in range(1, 4)))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (files.size(path(0)), files.syncs) == (BATCH_BYTES, syncs + 1)


def test_an_empty_epoch_checkpoint_is_a_lost_one() -> None:
    for content in (b"", b"0\n"):
        files = SimulatedFiles()
        log = open_test_log(make_environment(files), SMALL, clean=True)
        write(log, 8)
        log.flush()
        files.kill()
        files.set_content(f"{DIRECTORY}/leader-epoch-checkpoint", content)
        assert open_test_log(make_environment(files), SMALL, recovery_point=8, clean=True).epochs.entries() == [(0, 0)]


def test_epochs_of_an_older_checkpoint_give_way_to_those_of_the_batches() -> None:
    """A follower was cut off and went on with batches of an older epoch than those that it had to drop."""
    epochs = LeaderEpochs([(1, 0), (2, 2), (5, 8)])
    for epoch, offset in ((1, 0), (1, 3), (1, 6), (6, 9), (-1, 11), (6, 12)):
        epochs.learn(epoch, offset)
    assert epochs.entries() == [(1, 0), (6, 9)]


def test_epochs_that_a_start_corrects_are_synced_with_the_next_clean_stop() -> None:
    for seed in SEEDS:
        files = SimulatedFiles(seed)
        log = open_test_log(make_environment(files), clean=True)
        write(log, 3)
        log.assign_epoch(7, 3)
        close_log(log)
        files.kill()
        log = open_test_log(make_environment(files), recovery_point=3, clean=True)
        assert log.epochs.entries() == [(0, 0)]
        close_log(log)
        files.crash()
        assert files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_durable_value_does_not_give_way_to_one_that_is_not() -> None:
    world = CompactedLog()
    world.put((b"k", b"old"))
    world.roll()
    world.log.flush()
    world.put((b"k", b"new"))
    world.log.roll()
    world.log.recovery_point = 1  # the flush of the roll is still under way
    found = log_to_clean(world.log, world.log.log_end_offset, world.clock.now_ms())
    assert found is not None and found.first_uncleanable_offset == 1


def test_after_a_start_nothing_is_compacted_by_a_marker_that_may_be_cut_off() -> None:
    world = CompactedLog()
    world.put((b"k", b"1"), producer_id=3, transactional=True)
    world.roll()
    world.end_transaction(3, committed=False)
    close_log(world.log)
    world.reopen(clean=True)
    assert log_to_clean(world.log, 1, world.clock.now_ms()) is None
    found = log_to_clean(world.log, 2, world.clock.now_ms())
    assert found is not None and found.first_uncleanable_offset == 1


def test_what_was_aborted_stays_until_its_marker_is_on_the_disk() -> None:
    """Else a power failure takes the marker, and the records of an open transaction are gone."""
    world = CompactedLog()
    world.put((b"k", b"1"))
    world.put((b"k", b"2"), producer_id=3, transactional=True)
    world.roll()
    world.log.flush()
    world.end_transaction(3, committed=False)
    ends = []
    for _ in range(2):
        found = log_to_clean(world.log, world.log.log_end_offset, world.clock.now_ms())
        assert found is not None
        ends.append(found.first_uncleanable_offset)
        world.log.flush()
    assert ends == [0, 2]


def test_compaction_keeps_the_last_batch_of_a_producer_that_is_replicated() -> None:
    """The one after it may be cut off; its producer would not be known any more."""
    world = CompactedLog()
    world.put((b"k", b"1"), producer_id=3)
    world.put((b"k", b"2"))
    world.roll()
    world.put((b"k", b"3"), producer_id=3, sequence=1)
    world.log.flush()
    world.high_watermark = 2
    world.compact()
    assert world.headers()[0] == (0, 0, 0), "without its record, which is superseded"


def test_a_stop_in_a_swap_does_not_lose_what_was_aborted() -> None:
    for step in range(60):
        files = SimulatedFiles(seed=step)
        world = CompactedLog(files=files)
        world.put((b"k", b"1"))
        world.put((b"a", b"aborted"), producer_id=3, transactional=True)
        world.end_transaction(3, committed=False)
        world.roll()
        world.log.flush()
        files.stop_at = files.changes + 1 + step
        try:
            world.compact()
        except MachineStopped:
            (files.crash if step % 2 else files.kill)()
            world.reopen()
        there = [key for _, key, _ in world.entries()]
        assert b"a" not in there or [one.producer_id for one in world.log.aborted_transactions(0, 3)] == [3], step
        if files.stop_at is not None:
            assert step > 15
            return
    raise AssertionError("a compaction that does not end")


def test_a_damaged_swap_file_does_not_keep_the_log_from_being_opened() -> None:
    files = SimulatedFiles()
    log = open_test_log(make_environment(files), SMALL, clean=True)
    write(log, 8)
    log.flush()
    files.kill()
    files.set_content(path(0, ".log.swap"), files.read(path(0))[:-9])
    assert open_test_log(make_environment(files), SMALL, recovery_point=8).log_end_offset == 8


def stop_in_compaction(step: int, power_fails: bool) -> tuple[Machine, bool]:
    """Before or within its nth change of the disk, and start again without `compact`; whether there was that one."""
    machine = Machine(step)
    machine.configs["table"] = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    log = machine.start().get_or_create("table", 0, TOPIC_IDS["table"], is_new=True)
    history = machine.histories["table", 0] = History("table", True)
    machine.clock.advance(0)
    machine.background.drain()  # the checkpoints say that it is empty
    for key in b"aabbcdddcbbzz":
        log.append_as_leader(encode_batch(0, [1], [bytes([key])], [b"%060d" % key]), 0)
    log.flush()
    history.high_watermark = log.log_end_offset
    machine.background.drain()
    machine.files.stop_at = machine.files.changes + 1 + step
    stopped = True
    try:
        for passed_ms in (25, 0, 0, 0):
            machine.clock.advance(passed_ms)
            machine.background.drain()
        stopped = log.cleaned_to == 0
    except MachineStopped:
        pass
    machine.files.stop_at = None
    machine.stop(power_fails)
    machine.configs["table"] = replace(SMALL, retention_ms=-1)
    machine.start()
    return machine, stopped


@pytest.mark.parametrize("power_fails", [False, True])
def test_what_is_behind_a_gap_that_compaction_made_stays_when_the_topic_is_not_compacted_any_more(
    power_fails: bool,
) -> None:
    for step in range(1000):
        machine, stopped = stop_in_compaction(step, power_fails)
        log = machine.log(("table", 0))
        assert log is not None and log.log_end_offset == 13
        assert {columns.keys[0]: columns.offsets[0] for columns in read_batches(log)} == {
            b"a": 1, b"c": 8, b"d": 7, b"b": 10, b"z": 12,
        }  # fmt: skip
        if not stopped:
            assert step > 20 and len(log.segments) > 1
            return
    raise AssertionError("a compaction that does not end")
