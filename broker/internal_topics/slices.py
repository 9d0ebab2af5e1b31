"""Long work on the loop, cut into slices so that requests are served in between."""

from collections.abc import Callable, Iterator

from odradek.world.clock import Clock

SLICE_MS = 5.0
"""How long such work may hold the loop before others get their turn."""


def run_in_slices(clock: Clock, steps: Iterator[None], still_wanted: Callable[[], bool]) -> None:
    """Advance `steps` to its end, for about `SLICE_MS` at a time, the first time when what runs now has returned.

    `still_wanted` is asked before each slice; when it says no, the rest is dropped.
    """

    def one_slice() -> None:
        if not still_wanted():
            return
        deadline_ms = clock.monotonic_ms() + SLICE_MS
        for _ in steps:
            if clock.monotonic_ms() >= deadline_ms:
                clock.call_soon(one_slice)
                return

    clock.call_soon(one_slice)
