"""Taking the place of the old segments: a stop between any two steps, a log that changes meanwhile, slow readers."""

import errno
import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from odradek.broker.log.compaction import job
from odradek.broker.log.compaction.job import SYNC_AGAIN_MS
from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.retention import delete_old_segments
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.testing.background_work import InlineChildren
from odradek.testing.compacted_log import COMPACT, SMALL, CompactedLog, newest
from odradek.testing.log_environments import DIRECTORY
from odradek.testing.simulated_files import Fault, MachineStopped, SimulatedFiles
from odradek.world.children import Child

LARGE = LogConfig(segment_bytes=2000, index_interval_bytes=100, cleanup_policy=COMPACT, min_cleanable_dirty_ratio=0.0)


def write(world: CompactedLog, seed: int = 1) -> None:
    """Many small segments, of which compaction makes a few; some become empty, and there are aborted transactions."""
    random_keys = random.Random(seed)
    small, world.log.config = world.log.config, SMALL
    known = world.log.producers.producers.get(3)
    sequence = known.last_sequence + 1 if known else 0
    for number in range(60):
        world.put((b"k%d" % random_keys.randrange(12), b"v%d" % number), (b"same", b"%d" % number))
        if number % 20 == 7:
            world.put((b"k1", b"aborted"), producer_id=3, sequence=sequence, transactional=True)
            sequence += 1
            world.end_transaction(3, committed=False)
        world.clock.advance(1)
    world.roll()
    world.log.flush()
    world.log.config = small


def states() -> list[list[bytes]]:
    """What the log holds before the compaction, and after each group that was swapped in."""
    world = CompactedLog(LARGE)
    write(world)
    found = [world.batches()]
    world.compaction.look()
    while not world.rounds:
        _one_turn(world)
        if world.batches() != found[-1]:
            found.append(world.batches())
    return found


def _one_turn(world: CompactedLog) -> None:
    """What is due first."""
    _, _, timer = heapq.heappop(world.clock._timers)
    callback, timer.callback = timer.callback, None
    if callback is not None:
        callback()


@pytest.mark.parametrize("how", ["kill", "crash"])
def test_a_stop_between_any_two_steps_leaves_old_or_new_segments(how: str) -> None:
    possible = states()
    assert len(possible) >= 3, "several groups"
    seen = set()
    step = 0
    finished = False
    while not finished:
        files = SimulatedFiles(seed=step)
        world = CompactedLog(LARGE, files=files)
        write(world)
        files.stop_at = files.changes + 1 + step
        try:
            world.compact()
            finished = True
        except MachineStopped:
            pass
        files.stop_at = None
        (files.kill if how == "kill" else files.crash)()
        world.reopen()
        recovered = world.batches()
        assert recovered in possible, f"step {step}"
        seen.add(possible.index(recovered))
        names = files.list_directory(DIRECTORY)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        bases = [segment.base_offset for segment in world.log.segments]
        assert [int(name[:20]) for name in names if name.endswith(".log")] == bases
        assert world.read(0) == world.entries()
        step += 1
    assert seen == set(range(len(possible)))
    assert step > 50


def test_a_start_completes_a_swap_and_the_rest_is_compacted_again() -> None:
    files = SimulatedFiles()
    world = CompactedLog(LARGE, files=files)
    write(world)
    before = newest(world.entries())
    files.stop_at = files.changes + 21
    with pytest.raises(MachineStopped):
        world.compact()
    files.kill()
    world.reopen()
    world.compact()
    keys = [key for _, key, _ in world.entries()]
    assert len(keys) == len(set(keys))
    assert newest(world.entries()) == before


def change_after(world: CompactedLog, turns: int, change: Callable[[], object]) -> None:
    """Begin to compact; after so many turns of the loop something else happens."""
    world.compaction.look()
    for _ in range(turns):
        _one_turn(world)
    change()
    world.clock.advance(0)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_truncation_ends_the_compaction(turns: int) -> None:
    world = CompactedLog(LARGE)
    write(world)
    end = world.log.log_end_offset
    change_after(world, turns, lambda: world.log.truncate_to(end - 4))
    assert world.rounds == []
    assert world.log.log_end_offset <= end - 3
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
    world.put((b"k1", b"after"))
    world.roll()
    world.compact()
    assert world.rounds == [world.log.log_end_offset]
    assert newest(world.entries())[b"k1"] == b"after"


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_nothing_more_is_compacted_once_the_topic_is_not_to_be(turns: int) -> None:
    """Whoever takes `compact` from cleanup.policy wants to keep what is still there."""
    world = CompactedLog(LARGE)
    write(world)
    left: list[list[bytes]] = []

    def change() -> None:
        world.log.configure(replace(LARGE, cleanup_policy=frozenset({"delete"})))
        left.append(world.batches())

    change_after(world, turns, change)
    assert left == [world.batches()]
    assert world.rounds == []
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_a_truncation_makes_dirty_what_comes_after_it() -> None:
    world = CompactedLog(LARGE)
    write(world)
    world.compact()
    assert world.log.cleaned_to == world.log.log_end_offset
    cut = world.log.log_end_offset - 4
    world.log.truncate_to(cut)
    assert world.log.cleaned_to == world.log.log_end_offset <= cut
    for _ in range(4):
        world.put((b"k1", b"again"))
    world.roll()
    world.compact()
    keys = [key for _, key, _ in world.entries()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_deletion_of_the_log_ends_the_compaction(turns: int) -> None:
    world = CompactedLog(LARGE)
    write(world)

    def delete() -> None:
        world.log.abandon()
        world.compaction.abandon(world.log)
        world.files.rename(DIRECTORY, DIRECTORY + ".x-delete")

    change_after(world, turns, delete)
    assert world.rounds == []
    assert not world.files.exists(DIRECTORY)


def test_segments_that_retention_takes_meanwhile_stay_away() -> None:
    world = CompactedLog(LARGE)
    write(world)

    def delete() -> None:
        world.log.advance_log_start_offset(world.log.segments[2].base_offset)
        assert delete_old_segments(world.log, world.log.log_end_offset) == 2

    start = world.log.segments[2].base_offset
    change_after(world, 0, delete)
    assert world.rounds == []
    assert world.log.segments[0].base_offset == start
    world.compact()
    assert world.rounds == [world.log.log_end_offset]


def test_the_end_of_the_broker_leaves_only_cleaned_files() -> None:
    world = CompactedLog(LARGE)
    write(world)
    before = world.batches()
    world.compaction.look()
    while not any(name.endswith(".cleaned") for name in world.files.list_directory(DIRECTORY)):
        child = world.compaction._jobs[world.log].child
        assert child is not None
        next(child._lines)  # type: ignore[attr-defined]  # the child has written a group, and nobody has heard of it yet
    world.compaction.stop()
    assert world.batches() == before
    names = world.files.list_directory(DIRECTORY)
    assert not [name for name in names if name.endswith((".swap", ".deleted"))]
    world.reopen()
    assert world.batches() == before
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith(".cleaned")]


def test_a_slow_reader_of_a_replaced_segment_is_not_broken() -> None:
    world = CompactedLog(LARGE)
    write(world)
    found = world.log.read(0, 1 << 20, world.log.log_end_offset, whole_first_batch=True).records
    assert not isinstance(found, bytes)
    before = found.read()
    world.compact()
    world.clock.advance(LARGE.file_delete_delay_ms)
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith(".deleted")]
    assert found.read() == before
    assert world.entries()[0][0] > 0


def test_a_damaged_log_is_left_alone_until_it_is_truncated() -> None:
    world = CompactedLog(LARGE)
    write(world)
    path = world.log.segments[1].path(".log")
    world.files.flip(path, 70)
    world.compact()
    assert world.rounds == []
    world.files.flip(path, 70)
    world.compact()
    assert world.rounds == [], "it is not tried again and again"
    world.log.truncate_to(world.log.log_end_offset - 1)
    world.roll()
    world.compact()
    assert len(world.rounds) == 1


def test_a_full_disk_leaves_the_log_as_it_was_and_is_tried_again() -> None:
    world = CompactedLog(LARGE)
    write(world)
    before = world.batches()
    total, free = world.files.free_bytes("/")
    world.files.capacity_bytes = total - free + 50
    world.compact()
    assert world.batches() == before and world.rounds == []
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith(".cleaned")]
    world.files.capacity_bytes = None
    world.compact()
    assert world.rounds == [], "others are looked at first"
    world.clock.advance(2 * world.settings.log_cleaner_backoff_ms)
    world.compact()
    assert len(world.rounds) == 1


def test_a_log_whose_child_is_killed_is_compacted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CompactedLog(LARGE)
    write(world)
    run, begun_ms = InlineChildren.run, list[float]()

    def begin(*given: Any, **named: Any) -> Child:
        begun_ms.append(world.clock.monotonic_ms())
        child = run(*given, **named)
        if len(begun_ms) <= 3:
            child.kill()
        return child

    monkeypatch.setattr(InlineChildren, "run", begin)
    world.compaction.start()
    for _ in range(40):
        world.clock.advance(world.settings.log_cleaner_backoff_ms)
    world.compaction.stop()
    backoff_ms = world.settings.log_cleaner_backoff_ms
    assert [later - at for at, later in pairwise(begun_ms)] == [2 * backoff_ms, 4 * backoff_ms, 8 * backoff_ms]
    assert len(world.rounds) == 1
    assert not [name for name in world.files.list_directory(DIRECTORY) if name.endswith(".cleaned")]


def test_a_bug_of_ours_as_segments_are_swapped_in_does_not_end_all_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's job never ended, and of log.cleaner.threads=1 none was left until the broker started again."""
    world = CompactedLog()
    for _ in range(2):
        world.put((b"a", b"1"))
        world.roll()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(job, "swap_in", broken)
        world.compact()
    assert not world.rounds
    world.clock.advance(10 * world.settings.log_cleaner_backoff_ms)
    assert world.rounds == [2]


def test_without_descriptors_a_swap_is_synced_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CompactedLog(LARGE)
    failures: list[OSError] = []
    world.environment.failed = lambda path, cause: failures.append(cause)
    write(world)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedFiles, "sync_directory", _exhausted)
        world.compact()
        world.clock.advance(SYNC_AGAIN_MS)
        assert world.rounds == []
    world.clock.advance(SYNC_AGAIN_MS)
    assert len(world.rounds) == 1 and not failures


def test_without_descriptors_what_a_child_left_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child could be begun, for want of a descriptor, and its remains were looked for with none."""
    world = CompactedLog(LARGE)
    failures: list[OSError] = []
    world.environment.failed = lambda path, cause: failures.append(cause)
    write(world)
    run = InlineChildren.run

    def killed(*given: Any, **named: Any) -> Child:
        child = run(*given, **named)
        child.kill()
        return child

    with monkeypatch.context() as patch:
        patch.setattr(InlineChildren, "run", killed)
        patch.setattr(SimulatedFiles, "list_directory", _exhausted)
        world.compact()
    assert world.rounds == [] and not failures
    world.clock.advance(2 * world.settings.log_cleaner_backoff_ms)
    world.compact()
    assert len(world.rounds) == 1


def test_without_descriptors_two_logs_are_compacted_later() -> None:
    """Neither could be begun, for want of a descriptor, so the other was, and so on: until the stack was exhausted, and
    nothing was compacted any more."""
    world, other = CompactedLog(LARGE), CompactedLog(LARGE)
    for one in (world, other):
        write(one)
        one.compact()
        write(one)
        one.log.aborted_transactions(one.log.cleaned_to, one.log.log_end_offset)  # of what is clean none has been read
        one.files.fault = Fault(0, 1, errno.EMFILE, what="descriptors")
    logs = [world.log, other.log]
    world.compaction = Compaction(
        world.clock,
        InlineChildren(world.files, world.clock),
        world.settings,
        lambda: logs,
        lambda log: log.log_end_offset,
        lambda log: world.rounds.append(log.cleaned_to),
    )
    world.compact()
    assert len(world.rounds) == 1
    world.files.fault = None
    world.clock.advance(2 * world.settings.log_cleaner_backoff_ms)
    world.compact()
    assert len(world.rounds) == 2


def _exhausted(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_disk_that_fails_takes_the_directory_offline() -> None:
    world = CompactedLog(LARGE)
    failures: list[OSError] = []
    world.environment.failed = lambda path, cause: failures.append(cause)
    write(world)
    world.compaction.look()
    broken = world.log.segments[0].path(".log") + ".cleaned"
    world.files.broken.add(broken)
    world.clock.advance(0)
    assert [failure.errno for failure in failures] == [errno.EIO]
    assert str(failures[0]) == f"[Errno 5] Input/output error: '{broken}'"
    assert world.rounds == []


def after_the_first_group(world: CompactedLog) -> None:
    """Compact until the first group has been swapped in, while others are still to be written."""
    write(world)
    before = world.log.segments[0]
    world.compaction.look()
    while world.log.segments[0] is before:
        _one_turn(world)
    assert world.log in world.compaction._jobs


def test_damage_after_a_group_that_was_swapped_in_is_damage() -> None:
    """Else the log would be compacted again and again, and others would wait behind it."""
    world = CompactedLog(LARGE)
    after_the_first_group(world)
    world.files.flip(world.log.segments[-2].path(".log"), 70)
    world.clock.advance(0)
    assert world.compaction._damaged == {world.log: world.log.history_changes}


def test_a_disk_that_fails_after_a_group_that_was_swapped_in_takes_the_directory_offline() -> None:
    world = CompactedLog(LARGE)
    failures: list[OSError] = []
    world.environment.failed = lambda path, cause: failures.append(cause)
    after_the_first_group(world)
    world.files.broken.add(world.log.segments[-2].path(".log"))
    world.clock.advance(0)
    assert [failure.errno for failure in failures] == [errno.EIO]


def test_a_log_whose_disk_is_full_after_a_group_that_was_swapped_in_lets_others_go_first() -> None:
    world = CompactedLog(LARGE)
    after_the_first_group(world)
    world.files.capacity_bytes = 0
    world.clock.advance(0)
    assert world.log in world.compaction._hindered


def test_it_looks_every_backoff_and_does_nothing_when_disabled() -> None:
    world = CompactedLog(LARGE, LogManagerSettings(log_cleaner_backoff_ms=1000, log_cleaner_enable=False))
    write(world)
    world.compaction.start()
    world.clock.advance(5000)
    assert world.rounds == []
    world.compaction.settings = LogManagerSettings(log_cleaner_backoff_ms=1000)
    world.clock.advance(999)
    assert world.rounds == []
    world.clock.advance(1)
    assert len(world.rounds) == 1
    world.compaction.stop()
    write(world)
    world.clock.advance(5000)
    assert len(world.rounds) == 1


def test_snapshots_of_segments_that_are_gone_go_too() -> None:
    world = CompactedLog(LARGE)
    write(world)
    world.compact()
    bases = {segment.base_offset for segment in world.log.segments}
    names = [name for name in world.files.list_directory(DIRECTORY) if name.endswith(".snapshot")]
    assert {int(name[:20]) for name in names} <= bases
    state = world.log.producers.producers[3]
    world.reopen()
    again = world.log.producers.producers[3]
    assert (again.epoch, again.last_sequence) == (state.epoch, state.last_sequence)
