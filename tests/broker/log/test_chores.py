"""Repeated work, in slices."""

from odradek.broker.log.directories.chores import SLICE_MS, Chores
from odradek.broker.log.log_config import NO_LIMIT_MS
from odradek.testing.virtual_clock import ManualClock


def test_repeats_until_it_is_stopped() -> None:
    clock, times = ManualClock(), []
    chores = Chores(clock)
    chores.repeat("a", 5, 10, lambda: times.append(clock.monotonic_ms()))
    chores.repeat("never", 5, NO_LIMIT_MS, lambda: times.append(-1))
    clock.advance(26)
    chores.stop()
    clock.advance(100)
    assert times == [5, 15, 25]


def test_long_loops_give_the_turn_back() -> None:
    clock, done = ManualClock(), []
    chores = Chores(clock)

    def slow(item: int) -> None:
        done.append(item)
        clock._elapsed_ms += SLICE_MS / 2

    chores.for_each(range(5), slow)
    assert done == [0, 1]
    clock.advance()
    assert done == [0, 1, 2, 3]
    chores.stop()
    clock.advance()
    assert done == [0, 1, 2, 3]


def test_what_is_not_done_at_once_is_done_again_in_its_place() -> None:
    clock, done = ManualClock(), []
    chores = Chores(clock)

    def in_steps(item: int) -> bool:
        done.append(item)
        clock._elapsed_ms += SLICE_MS / 2
        return done.count(item) < 3

    chores.for_each([1, 2], in_steps)
    assert done == [1, 1]
    clock.advance(10 * SLICE_MS)
    assert done == [1, 1, 1, 2, 2, 2]
