"""What is done from time to time, without holding the loop up."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.broker.log.log_config import NO_LIMIT_MS
from odradek.world.clock import Clock, Timer

T = TypeVar("T")

SLICE_MS = 5.0
"""Work over many things gives the loop back after this long."""


class Chores:
    """Repeated actions by name, and long loops in slices. After `stop` nothing more is begun."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def repeat(self, name: str, delay_ms: int, interval_ms: int, action: Callable[[], None]) -> None:
        """First after `delay_ms`, then every `interval_ms`; never when that is NO_LIMIT_MS."""
        if interval_ms == NO_LIMIT_MS:
            return

        def run() -> None:
            self._timers[name] = self._clock.call_later(interval_ms, run)
            action()

        self._timers[name] = self._clock.call_later(delay_ms, run)

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Once; instead of what was still to come under that name."""
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._clock.call_later(delay_ms, action)

    def for_each(self, things: Sequence[T], action: Callable[[T], object]) -> None:
        """In order; what does not fit in a slice is done in later turns of the loop.

        An action that answers True has not done all: it is done again.
        """
        left = list(reversed(things))

        def go_on() -> None:
            until = self._clock.monotonic_ms() + SLICE_MS
            while left and not self._stopped:
                if action(left[-1]) is not True:
                    left.pop()
                if self._clock.monotonic_ms() >= until:
                    self._clock.call_soon(go_on)
                    return

        go_on()

    def stop(self) -> None:
        """Harmless twice."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
