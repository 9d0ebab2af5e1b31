"""What a client's loop sleeps on between two looks at what is to do. Loop-thread only."""

import asyncio

from odradek.world.clock import Clock

NEVER = float("inf")


class WakeUp:
    """`clear` before looking, then `wait_until`: a `set` in between is not lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Something has changed: look now."""
        self._event.set()

    def clear(self) -> None:
        """From here on a `set` means something new."""
        self._event.clear()

    def is_set(self) -> bool:
        """Tell whether something has changed since `clear`."""
        return self._event.is_set()

    async def wait_until(self, at_ms: float) -> None:
        """Until `set`, or until a monotonic time; NEVER for no time."""
        if at_ms == NEVER:
            await self._event.wait()
            return
        timer = self._clock.call_later(max(0.0, at_ms - self._clock.monotonic_ms()), self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()


async def sleep_ms(clock: Clock, delay_ms: float) -> None:
    """Wait on the clock that was passed in."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_ms, lambda: None if waiting.done() else waiting.set_result(None))
    try:
        await waiting
    finally:
        timer.cancel()
