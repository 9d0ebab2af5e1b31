"""Repeated work, in slices."""

from odradek.broker.log.directories.maintenance import PeriodicActions
from odradek.broker.settings.topic_settings import NO_LIMIT_MS
from odradek.testing.virtual_clock import ManualClock
from odradek.world.time_slices import SLICE_MS


def test_repeats_until_it_is_stopped() -> None:
    clock, times = ManualClock(), []
    periodic = PeriodicActions(clock)
    periodic.repeat("a", 5, 10, lambda: times.append(clock.monotonic_ms()))
    periodic.repeat("never", 5, NO_LIMIT_MS, lambda: times.append(-1))
    clock.advance(26)
    periodic.stop()
    clock.advance(100)
    assert times == [5, 15, 25]


def test_long_loops_give_the_turn_back() -> None:
    clock, done = ManualClock(), []
    periodic = PeriodicActions(clock)

    def slow(item: int) -> None:
        done.append(item)
        clock._elapsed_ms += SLICE_MS / 2

    periodic.for_each(range(5), slow)
    assert done == [0, 1]
    clock.advance()
    assert done == [0, 1, 2, 3]
    periodic.stop()
    clock.advance()
    assert done == [0, 1, 2, 3]


def test_what_is_not_done_at_once_is_done_again_in_its_place() -> None:
    clock, done = ManualClock(), []
    periodic = PeriodicActions(clock)

    def in_steps(item: int) -> bool:
        done.append(item)
        clock._elapsed_ms += SLICE_MS / 2
        return done.count(item) < 3

    periodic.for_each([1, 2], in_steps)
    assert done == [1, 1]
    clock.advance(10 * SLICE_MS)
    assert done == [1, 1, 1, 2, 2, 2]
