"""Long work on the loop, cut into slices of time so that requests are served in between."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from odradek.world.clock import Clock

T = TypeVar("T")

SLICE_MS = 5.0
"""Time for which long work may hold the loop before others get their turn."""
_waiting: "WeakKeyDictionary[Clock, int]" = WeakKeyDictionary()
"""Number of long works that wait for their next slice. All get it in the same turn of the loop, so they share its time:
with a whole slice for each, six of them would hold the loop for 30 ms."""


class TimeSlice:
    """Measure of how long the work that runs now has held the loop; begins when it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        share_ms = SLICE_MS / (1 + _waiting.get(self._clock, 0))
        self._end_ms = self._clock.monotonic_ms() + share_ms

    @property
    def is_over(self) -> bool:
        """Tell whether it is time to let others run."""
        return self._clock.monotonic_ms() >= self._end_ms

    def advance(self, steps: Iterator[None]) -> bool:
        """Advance by at least a step, and for as long as the slice lasts. Return True when the end was reached."""
        return all(not self.is_over for _ in steps)

    async def finish(self, steps: Iterator[None]) -> None:
        """Advance to the end, and let others run whenever a slice is over."""
        while not self.advance(steps):
            await self.pause_if_over()

    async def result(self, steps: Generator[None, None, T]) -> T:
        """Advance to the end as `finish` does, and return what the generator returns."""
        results: list[T] = []

        def kept() -> Iterator[None]:
            results.append((yield from steps))

        await self.finish(kept())
        return results[0]

    async def pause_if_over(self) -> bool:
        """Let others run if it is time, and begin the next slice.

        Returns True when they have run: whatever was checked before must be checked again.
        """
        if not self.is_over:
            return False
        _count_waiting(self._clock, 1)
        try:
            await asyncio.sleep(0)
        finally:
            _count_waiting(self._clock, -1)
        self._begin()
        return True


def _count_waiting(clock: Clock, difference: int) -> None:
    _waiting[clock] = _waiting.get(clock, 0) + difference


def in_slices(clock: Clock, steps: Generator[None, None, T]) -> T | Coroutine[Any, Any, T]:
    """Advance `steps` for one slice: its result if that was to the end, else a coroutine that goes on and returns it.

    What the steps read after a pause may have changed since.
    """
    turn = TimeSlice(clock)
    try:
        next(steps)
        while not turn.is_over:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    return turn.result(steps)


def run_in_slices(
    clock: Clock, steps: Iterator[None], still_wanted: Callable[[], bool] = lambda: True, *, at_once: bool = False
) -> None:
    """Advance `steps` to its end, a slice at a time: the first when what runs now has returned, or `at_once`.

    `still_wanted` is asked before each slice; when it says no, the rest is dropped.
    """

    def one_slice() -> None:
        if not still_wanted():
            return
        if not TimeSlice(clock).advance(steps):
            _count_waiting(clock, 1)
            clock.call_soon(next_slice)

    def next_slice() -> None:
        _count_waiting(clock, -1)
        one_slice()

    if at_once:
        one_slice()
    else:
        clock.call_soon(one_slice)
