"""Waiting in a client: growing pauses between attempts, and tasks that sleep until there is something to do."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from odradek.world.clock import Clock


def backoff_ms(first_ms: float, most_ms: float, failures: int, random_source: random.Random) -> float:
    """Return the pause after `failures` failed attempts: doubled each time up to `most_ms`, ±20 % (KIP-580)."""
    return grown_ms(first_ms, most_ms, failures) * random_source.uniform(0.8, 1.2) if failures > 0 else 0.0


def grown_ms(first_ms: float, most_ms: float, failures: int) -> float:
    """Return the pause after `failures` failed attempts: doubled each time up to `most_ms`, and the same for all."""
    return min(most_ms, first_ms * (1 << min(max(failures - 1, 0), 30)))


NEVER = float("inf")


class WakeUp:
    """Wake-up of one task: it calls `clear` before it looks for work, then `wait_until`, so that no `set` is lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake whoever waits, since something has changed."""
        self._event.set()

    def clear(self) -> None:
        """Forget the last `set`: from here on a `set` means something new."""
        self._event.clear()

    def is_set(self) -> bool:
        """Tell whether something has changed since `clear`."""
        return self._event.is_set()

    async def wait_until(self, at_ms: float) -> None:
        """Wait until `set` is called, or until a monotonic time in ms; NEVER for no limit."""
        if at_ms == NEVER:
            await self._event.wait()
            return
        timer = self._clock.call_later(max(0.0, at_ms - self._clock.monotonic_ms()), self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Run a function on a loop, from any thread. Does nothing when the loop is closed, perhaps just now."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


async def sleep_ms(clock: Clock, delay_ms: float) -> None:
    """Wait on the clock that was passed in."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_ms, lambda: None if waiting.done() else waiting.set_result(None))
    try:
        await waiting
    finally:
        timer.cancel()
