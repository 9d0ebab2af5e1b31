"""Long work on the loop, cut into slices of time so that requests are served in between."""

import asyncio
from collections.abc import Callable, Iterator

from odradek.world.clock import Clock

SLICE_MS = 5.0
"""How long such work may hold the loop before others get their turn."""


class TimeSlice:
    """Measure of how long the work that runs now has held the loop; begins when it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end_ms = clock.monotonic_ms() + SLICE_MS

    @property
    def is_over(self) -> bool:
        """Tell whether it is time to let others run."""
        return self._clock.monotonic_ms() >= self._end_ms

    async def pause_if_over(self) -> bool:
        """Let others run if it is time, and begin the next slice.

        Returns True when they have run: whatever was checked before must be checked again.
        """
        if not self.is_over:
            return False
        await asyncio.sleep(0)
        self._end_ms = self._clock.monotonic_ms() + SLICE_MS
        return True


def run_in_slices(
    clock: Clock, steps: Iterator[None], still_wanted: Callable[[], bool], *, at_once: bool = False
) -> None:
    """Advance `steps` to its end, a slice at a time: the first when what runs now has returned, or `at_once`.

    `still_wanted` is asked before each slice; when it says no, the rest is dropped.
    """

    def one_slice() -> None:
        if not still_wanted():
            return
        turn = TimeSlice(clock)
        for _ in steps:
            if turn.is_over:
                clock.call_soon(one_slice)
                return

    if at_once:
        one_slice()
    else:
        clock.call_soon(one_slice)
