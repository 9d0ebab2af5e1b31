"""Time and timers. Durations are milliseconds everywhere."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Callback that is to be called later, and can be cancelled."""

    def cancel(self) -> None:
        """Do not call it any more; harmless when it was called already."""


class Clock(Protocol):
    """Source of the time, and a way to be called later on the owner's loop."""

    def now_ms(self) -> int:
        """Return the wall clock's time, milliseconds since 1970; it may jump."""

    def now_s(self) -> float:
        """Return the same in seconds, as `time.time`: the cheapest to read."""

    def monotonic_ms(self) -> float:
        """Return a time in milliseconds that never goes back; only differences mean anything."""

    def perf_counter(self) -> float:
        """Return seconds, as `time.perf_counter`: the finest clock and the cheapest to read, for measurements only."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` once, on the loop, after `delay_ms`."""

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        """Run `callback` once, on the loop, after what is running now."""


async def sleep(clock: Clock, delay_ms: float) -> None:
    """Pause the calling task, on a clock that may be a virtual one."""
    over = asyncio.Event()
    timer = clock.call_later(delay_ms, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


class StandingClock:
    """Clock that stands still and has no timers, for work that is done from beginning to end in one go."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def now_s(self) -> float:
        return self._now_ms / 1000.0

    def monotonic_ms(self) -> float:
        return 0.0

    def perf_counter(self) -> float:
        return 0.0

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        raise AssertionError(f"nobody would call {callback}")

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        raise AssertionError(f"nobody would call {callback}")


class LoopClock:
    """The real clock, with timers of one asyncio loop."""

    now_s = staticmethod(time.time)
    perf_counter = staticmethod(time.perf_counter)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000.0

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay_ms / 1000.0, callback)

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        return self._loop.call_soon(callback)
