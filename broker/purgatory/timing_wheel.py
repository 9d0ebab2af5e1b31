"""A hierarchical timing wheel: very many timers, adding and cancelling in constant time.

The lowest level has `wheel_size` buckets of one tick each; a bucket of the next level spans a whole turn of the level
below it. Levels are made when a deadline first needs them. When the time of a bucket of a higher level has come, its
timers cascade: they go to lower levels, where they fit now. Nothing ticks: a heap holds the buckets in use by their
time, and one clock timer is outstanding, for the nearest. The idea is that of Kafka's `TimingWheel` and `SystemTimer`.

All deadlines are kept in ticks, rounded up: a timer never runs early and at most one tick late by its own fault.
"""

import heapq
import math
from collections.abc import Callable

from odradek.world.clock import Clock, Timer


class WheelTimer:
    """A timer: a node of the doubly linked list that is its bucket."""

    __slots__ = ("_callback", "_deadline", "_next", "_previous", "_wheel")

    def __init__(self, wheel: "TimingWheel", deadline: int, callback: Callable[[], object]) -> None:
        self._wheel = wheel
        self._deadline = deadline
        self._callback: Callable[[], object] | None = callback
        self._previous: _Link | None = None
        self._next: _Link | None = None

    @property
    def pending(self) -> bool:
        """Tell whether it still is to run."""
        return self._callback is not None

    def cancel(self) -> None:
        """Forget the timer; harmless after it has run."""
        if self._callback is not None:
            self._callback = None
            self._wheel._pending -= 1
            _unlink(self)


class _Bucket:
    """The timers of one stretch of time; itself the head of their ring."""

    __slots__ = ("_next", "_previous", "begin")

    def __init__(self) -> None:
        self.begin = -1
        """Tick at which its time comes; -1 while it is not in the heap."""
        self._next: _Link = self
        self._previous: _Link = self


_Link = WheelTimer | _Bucket


def _unlink(timer: WheelTimer) -> None:
    previous, following = timer._previous, timer._next
    assert previous is not None and following is not None, "a pending timer is always in a bucket"
    previous._next, following._previous = following, previous
    timer._previous = timer._next = None


def _append(bucket: _Bucket, timer: WheelTimer) -> None:
    last = bucket._previous
    timer._previous, timer._next = last, bucket
    last._next = bucket._previous = timer


class TimingWheel:
    """Timers on one clock; used on its loop only.

    `tick_ms`: how exact; `wheel_size`: buckets per level. Callbacks run on the loop, never inside `call_later`. A
    callback may add and cancel timers. When one raises, that is a bug: the loop's handler reports it and the timers
    that are due run after it.
    """

    def __init__(self, clock: Clock, tick_ms: int = 1, wheel_size: int = 32) -> None:
        assert tick_ms >= 1 and wheel_size >= 2, (tick_ms, wheel_size)
        self._clock = clock
        self._tick_ms = tick_ms
        self._size = wheel_size
        self._levels: list[list[_Bucket | None]] = []
        self._heap: list[tuple[int, int, _Bucket]] = []
        self._pushed = 0
        self._started_ms = clock.monotonic_ms()
        self._current = 0
        """The tick up to which everything has run."""
        self._pending = 0
        self._alarm: Timer | None = None
        self._alarm_tick = 0
        self._running = False

    def __len__(self) -> int:
        """Timers that have neither run nor been cancelled."""
        return self._pending

    @property
    def levels(self) -> int:
        """Number of levels that have been needed so far."""
        return len(self._levels)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> WheelTimer:
        """Run `callback` once after `delay_ms`; with 0, too, it runs after this call and not within it."""
        elapsed = self._elapsed_ms() / self._tick_ms
        if not self._running and not (self._heap and self._heap[0][0] <= elapsed):
            self._current = max(self._current, int(elapsed))
        deadline = max(math.ceil(elapsed + delay_ms / self._tick_ms), self._current + 1)
        timer = WheelTimer(self, deadline, callback)
        self._pending += 1
        self._place(timer)
        if not self._running:
            self._set_alarm()
        return timer

    def extend(self, timer: WheelTimer | None, delay_ms: float, callback: Callable[[], object]) -> WheelTimer:
        """Put a timer off until `delay_ms` from now, unless it runs later anyhow; return the timer that is to run.

        `callback` is that of a new timer, where there was none or it has run.
        """
        if timer is None or timer._callback is None:
            return self.call_later(delay_ms, callback)
        other = self.call_later(delay_ms, timer._callback)
        sooner, later = (timer, other) if timer._deadline < other._deadline else (other, timer)
        sooner.cancel()
        return later

    def _place(self, timer: WheelTimer) -> None:
        """Put a timer into the lowest level that, from the current tick on, reaches to its deadline."""
        deadline, size = timer._deadline, self._size
        span, number = 1, 0
        while deadline // span >= self._current // span + size:
            span *= size
            number += 1
        while number >= len(self._levels):
            self._levels.append([None] * size)
        buckets, slot = self._levels[number], deadline // span % size
        bucket = buckets[slot]
        if bucket is None:
            bucket = buckets[slot] = _Bucket()
        begin = deadline // span * span
        if bucket.begin < 0:
            bucket.begin = begin
            self._pushed += 1
            heapq.heappush(self._heap, (begin, self._pushed, bucket))
        assert bucket.begin == begin, f"bucket of tick {bucket.begin} asked to hold tick {begin} at {self._current}"
        _append(bucket, timer)

    def _set_alarm(self) -> None:
        """Have one clock timer, for the nearest bucket that holds anything."""
        heap = self._heap
        while heap and heap[0][2]._next is heap[0][2]:
            heapq.heappop(heap)[2].begin = -1
        if not heap:
            return
        nearest = heap[0][0]
        if self._alarm is not None:
            if self._alarm_tick <= nearest:
                return
            self._alarm.cancel()
        self._alarm_tick = nearest
        delay_ms = nearest * self._tick_ms - self._elapsed_ms()
        self._alarm = self._clock.call_later(math.ceil(max(delay_ms, 0.0)), self._on_alarm)

    def _elapsed_ms(self) -> float:
        """Return the time since the start; the one measure, lest a tick has come for the alarm and not for timers."""
        return self._clock.monotonic_ms() - self._started_ms

    def _on_alarm(self) -> None:
        self._alarm = None
        self._running = True
        try:
            self._run_due(int(self._elapsed_ms() / self._tick_ms))
        finally:
            self._running = False
            self._set_alarm()

    def _run_due(self, now: int) -> None:
        """Go through the buckets in the order of time: run what is due, let the rest cascade."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            begin, _, bucket = heap[0]
            self._current = max(self._current, begin)
            while isinstance(timer := bucket._next, WheelTimer):
                _unlink(timer)
                if timer._deadline > begin:
                    self._place(timer)
                    continue
                callback, timer._callback = timer._callback, None
                self._pending -= 1
                assert callback is not None, "a cancelled timer is in no bucket"
                callback()
            heapq.heappop(heap)
            bucket.begin = -1
        self._current = max(self._current, now)
