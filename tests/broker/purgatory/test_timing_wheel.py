"""The hierarchical timing wheel against a plain sorted list, and at its limits."""

import gc
import math
import random
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.purgatory.timing_wheel import TimingWheel, WheelTimer
from odradek.testing.virtual_clock import ManualClock
from odradek.world.clock import Timer

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 5000) | st.floats(0, 200, allow_nan=False)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.integers(0, 3000) | st.floats(0, 50, allow_nan=False)),
        st.tuples(st.just("stall"), st.integers(0, 3000)),
    ),
    max_size=60,
)


class Model:
    """What should happen: each timer runs once, not before its time, and at most one tick (and a rounding) after it."""

    def __init__(self, tick_ms: int, size: int) -> None:
        self.clock = ManualClock()
        self.wheel = TimingWheel(self.clock, tick_ms, size)
        self.tick_ms = tick_ms
        self.due: dict[int, float] = {}
        self.timers: list[WheelTimer] = []
        self.busy_until_ms = 0.0

    def add(self, delay_ms: float) -> None:
        number = len(self.timers)
        self.due[number] = self.clock.monotonic_ms() + delay_ms
        self.timers.append(self.wheel.call_later(delay_ms, lambda: self.ran(number)))

    def ran(self, number: int) -> None:
        due_ms, now_ms = self.due.pop(number), self.clock.monotonic_ms()
        assert due_ms - 1e-6 <= now_ms, (number, due_ms, now_ms)
        latest_ms = max(due_ms, self.busy_until_ms) + self.tick_ms + 1
        assert now_ms <= latest_ms + 1e-6, (number, due_ms, now_ms)
        if number % 3 == 0 and len(self.timers) < 100:
            self.add(number * 7 % 40)

    def cancel(self, number: int) -> None:
        if number < len(self.timers):
            self.timers[number].cancel()
            self.due.pop(number, None)

    def check(self) -> None:
        now_ms = self.clock.monotonic_ms()
        assert len(self.wheel) == len(self.due)
        assert not [due_ms for due_ms in self.due.values() if due_ms < now_ms - self.tick_ms - 1]
        assert self.clock.outstanding <= 1


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([(1, 2), (1, 20), (3, 5), (10, 32)]))
def test_it_does_what_a_sorted_list_does(steps: list[tuple[str, float]], shape: tuple[int, int]) -> None:
    model = Model(*shape)
    for what, value in steps:
        if what == "add":
            model.add(value)
        elif what == "cancel":
            model.cancel(int(value))
        elif what == "stall":
            model.clock.stall(value)
            model.busy_until_ms = model.clock.monotonic_ms()
            continue
        else:
            model.clock.advance(value)
            model.check()
    model.clock.advance(20_000)
    assert not model.due
    assert len(model.wheel) == 0
    assert model.clock.outstanding == 0


def test_timers_run_in_the_order_of_their_deadlines() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 4)
    delays = [random.Random(7).randrange(1, 2000) for _ in range(300)]
    ran: list[int] = []
    for delay in delays:
        wheel.call_later(delay, lambda delay=delay: ran.append(delay))
    clock.advance(2000)
    assert ran == sorted(delays)


def test_levels_are_made_on_demand_and_one_clock_timer_is_outstanding() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 10)
    wheel.call_later(5, lambda: None)
    assert wheel.levels == 1
    wheel.call_later(99_999, lambda: None)
    assert wheel.levels == math.ceil(math.log10(99_999))
    assert clock.outstanding == 1


def test_a_timer_of_no_delay_does_not_run_inside_call_later() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    wheel.call_later(0, lambda: ran.append("ran"))
    assert not ran
    clock.advance(2)
    assert ran == ["ran"]


def test_callbacks_may_add_and_cancel() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 4)
    ran: list[str] = []

    def first() -> None:
        ran.append("first")
        sibling.cancel()
        wheel.call_later(0, lambda: ran.append("next"))
        wheel.call_later(100, lambda: ran.append("later"))

    wheel.call_later(50, first)
    sibling = wheel.call_later(50, lambda: ran.append("sibling"))
    clock.advance(60)
    assert ran == ["first", "next"]
    clock.advance(100)
    assert ran == ["first", "next", "later"]


def test_a_callback_that_raises_does_not_hold_up_the_others() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []

    def broken() -> None:
        raise RuntimeError("a bug")

    wheel.call_later(10, broken)
    wheel.call_later(10, lambda: ran.append("same tick"))
    wheel.call_later(11, lambda: ran.append("next tick"))
    with pytest.raises(RuntimeError, match="a bug"):
        clock.advance(20)
    clock.advance(20)
    assert ran == ["same tick", "next tick"]


class CountingClock(ManualClock):
    """Gives up where somebody who asks to be called now asks again and again."""

    asked = 0

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        self.asked += 1
        assert self.asked <= 10, "the alarm is set again without end"
        return super().call_later(delay_ms, callback)


def test_an_alarm_in_time_finds_its_timers_due_however_times_are_rounded() -> None:
    clock = CountingClock()
    clock.stall(0.3)
    assert (0.3 + 2) - 0.3 < 2, "a time at which a sum and a difference disagree"
    wheel, ran = TimingWheel(clock), []
    wheel.call_later(2, lambda: ran.append("ran"))
    clock.advance(2)
    clock.advance(1)
    assert ran == ["ran"]


def test_cancelling_twice_and_after_it_has_run_is_harmless() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    timer, other = wheel.call_later(1, lambda: None), wheel.call_later(9, lambda: None)
    other.cancel()
    other.cancel()
    clock.advance(5)
    timer.cancel()
    assert len(wheel) == 0
    assert not timer.pending


def test_nothing_wakes_up_for_buckets_that_were_emptied() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock)
    for delay in range(1, 500):
        wheel.call_later(delay, lambda: None).cancel()
    wheel.call_later(10_000, lambda: None).cancel()
    wheel.call_later(600, lambda: None)
    before, woken = clock.call_later, []
    clock.call_later = lambda delay_ms, callback: (woken.append(delay_ms), before(delay_ms, callback))[1]  # type: ignore
    clock.advance(599)
    assert len(woken) <= 2
    assert (len(wheel), clock.outstanding) == (1, 1)


def test_a_timer_added_while_others_are_overdue() -> None:
    """The newcomer's bucket must not be one that an overdue timer still has to cascade into."""
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 32)
    ran: list[str] = []
    wheel.call_later(40, lambda: ran.append("overdue"))
    clock.stall(1100)
    wheel.call_later(28, lambda: ran.append("new"))
    clock.advance(27)
    assert ran == ["overdue"]
    clock.advance(3)
    assert ran == ["overdue", "new"]


def test_after_a_long_rest_near_deadlines_are_in_the_lowest_level() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 20)
    clock.advance(10_000_000)
    ran: list[float] = []
    wheel.call_later(5, lambda: ran.append(clock.monotonic_ms()))
    assert wheel.levels == 1
    clock.advance(10)
    assert ran == [10_000_005]


@pytest.mark.parametrize(("further_ms", "runs_at_ms"), [(50, 100), (100, 110), (300, 310)])
def test_a_timer_is_put_off_and_never_brought_forward(further_ms: int, runs_at_ms: int) -> None:
    clock = ManualClock()
    wheel, ran, began_ms = TimingWheel(clock), list[float](), clock.monotonic_ms()

    def run() -> None:
        ran.append(clock.monotonic_ms() - began_ms)

    timer = wheel.extend(None, 100, run)
    clock.advance(10)
    timer = wheel.extend(timer, further_ms, lambda: ran.append(-1.0))
    assert len(wheel) == 1
    clock.advance(1_000)
    assert ran == [runs_at_ms] and not timer.pending


def test_hundreds_of_thousands_of_timers() -> None:
    clock = ManualClock()
    wheel = TimingWheel(clock, 1, 32)
    count, ran = 300_000, [0]
    delays = random.Random(1)

    def run() -> None:
        ran[0] += 1

    gc.disable()
    try:
        tracemalloc.start()
        sample = [wheel.call_later(delays.randrange(1, 600_000), run) for _ in range(20_000)]
        bytes_each = tracemalloc.get_traced_memory()[0] / len(sample)
        tracemalloc.stop()
        timers = sample + [wheel.call_later(delays.randrange(1, 600_000), run) for _ in range(count - len(sample))]
        assert len(wheel) == count
        assert clock.outstanding == 1
        for timer in timers[: count * 9 // 10]:
            timer.cancel()
        clock.advance(600_001)
    finally:
        gc.enable()
    assert ran[0] == count // 10
    assert bytes_each < 250
