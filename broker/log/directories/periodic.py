"""Actions that are repeated without holding the loop up."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from odradek.broker.log.log_config import NO_LIMIT_MS
from odradek.world.clock import Clock, Timer
from odradek.world.time_slices import run_in_slices

T = TypeVar("T")


class PeriodicActions:
    """Actions that are repeated, by name, and long loops in slices of time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def repeat(self, name: str, delay_ms: int, interval_ms: int, action: Callable[[], None]) -> None:
        """Act first after `delay_ms`, then every `interval_ms`; never when that is NO_LIMIT_MS."""
        if interval_ms == NO_LIMIT_MS:
            return

        def run() -> None:
            self._timers[name] = self._clock.call_later(interval_ms, run)
            action()

        self._timers[name] = self._clock.call_later(delay_ms, run)

    def later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Act once, instead of what was still to come under that name."""
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._clock.call_later(delay_ms, action)

    def for_each(self, things: Sequence[T], action: Callable[[T], object]) -> None:
        """Act on all in order; what does not fit in a slice of time is done in later turns of the loop.

        An action that answers True has not done all: it is done again.
        """

        def steps() -> Iterator[None]:
            for thing in things:
                while action(thing) is True:
                    yield
                yield

        run_in_slices(self._clock, steps(), lambda: not self._stopped, at_once=True)

    def stop(self) -> None:
        """Cancel all; nothing more is begun."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
