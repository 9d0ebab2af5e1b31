"""Waiting for what is to become true of a cluster: looked at when something happens, not from time to time.

Conditions are tried whenever ZooKeeper changes and whenever a broker handles a request, which is when nearly everything
changes; what a timer of a broker does alone (a session that ends, retention) is found within LOOK_AGAIN_MS.
"""

import asyncio
from collections.abc import Callable

from odradek.world.clock import Clock, Timer

LOOK_AGAIN_MS = 50.0


class Conditions:
    """Conditions that somebody waits for. Everything runs on the cluster's loop."""

    def __init__(self, clock: Clock, awaited: Callable[[bool], object]) -> None:
        """`awaited` is told when somebody begins to wait and when nobody waits any more."""
        self._clock, self._awaited = clock, awaited
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._planned = False
        self._timer: Timer | None = None

    def __bool__(self) -> bool:
        """Tell whether somebody waits."""
        return bool(self._waiting)

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds; False when it does not within the time."""
        if condition():
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._awaited(True)
            self._timer = self._clock.call_later(LOOK_AGAIN_MS, self._look_again)
        self._waiting[reached] = condition
        try:
            async with asyncio.timeout(timeout_s):
                await reached
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(reached, None)
            if not self._waiting:
                self._awaited(False)
                if self._timer is not None:
                    self._timer.cancel()
        return True

    def changed(self) -> None:
        """Plan a look at the conditions, in a turn of its own, since something has happened."""
        if self._waiting and not self._planned:
            self._planned = True
            self._clock.call_soon(self._look)

    def _look_again(self) -> None:
        self._timer = self._clock.call_later(LOOK_AGAIN_MS, self._look_again)
        self._look()

    def _look(self) -> None:
        self._planned = False
        for reached, condition in list(self._waiting.items()):
            if reached.done():
                continue
            try:
                if condition():
                    reached.set_result(None)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                reached.set_exception(error)
