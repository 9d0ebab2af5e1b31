"""Work that is repeated from time to time on the loop, and long loops in slices of time."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from odradek.world.clock import Clock, Timer
from odradek.world.time_slices import run_in_slices

log = logging.getLogger(__name__)

T = TypeVar("T")

NEVER_MS: Final = 2**63 - 1
"""Interval of what is never done: Kafka's largest number."""


class PeriodicActions:
    """Actions that are repeated, by name, until `stop`. Loop-thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def repeat(
        self, name: str, interval_ms: float, action: Callable[[], object], *, delay_ms: float | None = None
    ) -> None:
        """Act every `interval_ms`, first after `delay_ms` (None: as long); never when the interval is NEVER_MS."""
        if interval_ms == NEVER_MS:
            return

        def run() -> None:
            self._timers[name] = self._clock.call_later(interval_ms, run)
            action()

        self._timers[name] = self._clock.call_later(interval_ms if delay_ms is None else delay_ms, run)

    def repeat_for_each(
        self, name: str, interval_ms: float, things: Callable[[], Iterable[T]], action: Callable[[T], object]
    ) -> None:
        """Act on all `things()` as `for_each` does, and again `interval_ms` after the last of them."""

        def steps() -> Iterator[None]:
            yield from _each(name, list(things()), action)
            plan()

        def plan() -> None:
            self._timers[name] = self._clock.call_later(interval_ms, lambda: self._run(steps()))

        plan()

    def later(self, name: str, delay_ms: float, action: Callable[[], object]) -> None:
        """Act once, instead of what was still to come under that name."""
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._clock.call_later(delay_ms, action)

    def for_each(self, name: str, things: Sequence[T], action: Callable[[T], object]) -> None:
        """Act on all in order; what does not fit in a slice of time is done in later turns of the loop.

        An action that returns True is not finished, and is called again. An action that fails is logged, and the others
        are done.
        """
        self._run(_each(name, things, action))

    def stop(self) -> None:
        """Cancel all; nothing more is begun."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()

    def _run(self, steps: Iterator[None]) -> None:
        run_in_slices(self._clock, steps, lambda: not self._stopped, at_once=True)


def _each(name: str, things: Sequence[T], action: Callable[[T], object]) -> Iterator[None]:
    for thing in things:
        try:
            while action(thing) is True:
                yield
        except Exception:
            log.exception("%s: failed for %s", name, thing)
        yield
