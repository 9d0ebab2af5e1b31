"""Repeated work, in slices."""

import pytest

from odradek.testing.virtual_clock import ManualClock
from odradek.world.periodic import NEVER_MS, PeriodicActions
from odradek.world.time_slices import SLICE_MS


def test_repeats_until_it_is_stopped() -> None:
    clock, times = ManualClock(), []
    periodic = PeriodicActions(clock)
    periodic.repeat("a", 10, lambda: times.append(clock.monotonic_ms()), delay_ms=5)
    periodic.repeat("never", NEVER_MS, lambda: times.append(-1), delay_ms=5)
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

    periodic.for_each("things", range(5), slow)
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

    periodic.for_each("things", [1, 2], in_steps)
    assert done == [1, 1]
    clock.advance(10 * SLICE_MS)
    assert done == [1, 1, 1, 2, 2, 2]


def test_the_next_round_begins_an_interval_after_the_last_one_has_ended() -> None:
    clock, done = ManualClock(), []
    periodic = PeriodicActions(clock)
    things = [1, 2, 3]

    def slow(item: int) -> None:
        done.append((clock.monotonic_ms(), item))
        clock._elapsed_ms += SLICE_MS

    periodic.repeat_for_each("a", 100, lambda: things, slow)
    clock.advance(100)
    clock.advance(3 * SLICE_MS)
    assert [item for _, item in done] == [1, 2, 3]
    things.remove(2)
    clock.advance(200)
    assert [item for _, item in done] == [1, 2, 3, 1, 3]
    assert done[3][0] - done[2][0] >= 100
    periodic.stop()
    clock.advance(1000)
    assert len(done) == 5


@pytest.mark.parametrize("how", ["repeated", "each time it is asked for"])
def test_what_fails_for_one_is_done_for_the_others_and_again(how: str, caplog: pytest.LogCaptureFixture) -> None:
    clock, done = ManualClock(), []
    periodic = PeriodicActions(clock)

    def sometimes(item: int) -> None:
        if item == 2:
            raise ValueError("planted")
        done.append(item)

    if how == "repeated":
        periodic.repeat_for_each("things", 100, lambda: [1, 2, 3], sometimes)
    for _ in range(2):
        if how != "repeated":
            periodic.for_each("things", [1, 2, 3], sometimes)
        clock.advance(100)
    assert done == [1, 3, 1, 3]
    assert [one.getMessage() for one in caplog.records] == ["things: failed for 2"] * 2
    periodic.stop()
