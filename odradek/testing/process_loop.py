"""An event loop on which several processes live that can be killed and suspended one by one (see virtual_process).

`ProcessLoop` holds what a loop must do for them; on what it waits, virtual time or real sockets, is its subclass's.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

from odradek.testing.virtual_process import PROCESS, VirtualProcess, belongs_to_dead


class OwnedFuture(asyncio.Future[Any]):
    """A future that knows by which process it was made."""

    process: VirtualProcess | None = None

    @property
    def nobody_waits(self) -> bool:
        """True if whoever could ask for its result is dead."""
        return self.process is not None and self.process.dead


class ProcessLoop(asyncio.BaseEventLoop):
    """Takes nothing from a killed process, and holds back what a suspended one would do."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float
    suspended = 0
    """Processes that stand still."""

    def call_soon(  # type: ignore[override]  # the same, for any arguments
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *arguments, context=context)
        if belongs_to_dead(handle._context):  # type: ignore[attr-defined]
            handle.cancel()
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *arguments, context=context)
        if belongs_to_dead(handle._context):  # type: ignore[attr-defined]
            handle.cancel()
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        future = OwnedFuture(loop=self)
        future.process = PROCESS.get()
        return future

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> "asyncio.Task[Any]":
        process = PROCESS.get() if context is None else context.get(PROCESS)
        task = super().create_task(coro, name=name, context=context)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda ended: process.tasks.pop(ended, None))
        return task

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """Close a generator that nobody iterates any more: one of a killed process here and now, as its tasks were.

        asyncio would make a task of it, which a killed process does not carry out, and wait for it in the end.
        """
        process = PROCESS.get()
        if process is None or not process.dead:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]
            return
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]
        with contextlib.suppress(
            StopIteration, RuntimeError
        ):  # it would await on its way out: there is nothing to wait for
            agen.aclose().send(None)

    def outstanding(self) -> Iterator[Any]:
        """Yield the handles of all that is ready or going to be."""
        yield from self._ready
        yield from self._scheduled

    def _hold_back(self) -> None:
        """Give what is ready or due to the processes that stand still; called in each turn before anything is run."""
        waiting, self._ready = self._ready, deque()
        for handle in waiting:
            if not self._held(handle):
                self._ready.append(handle)
        self._hold_back_timers()

    def _hold_back_timers(self) -> None:
        due, end = [], self.time() + self._clock_resolution
        while self._scheduled and self._scheduled[0].when() < end:
            timer = heapq.heappop(self._scheduled)
            if timer.cancelled() or not self._held(timer):
                due.append(timer)
            else:
                timer._scheduled = False  # type: ignore[attr-defined]
        for timer in due:
            heapq.heappush(self._scheduled, timer)

    @staticmethod
    def _held(handle: Any) -> bool:
        process = handle._context.get(PROCESS)
        if process is None or not process.suspended:
            return False
        process.held.append(handle)
        return True


class SocketLoop(ProcessLoop, asyncio.SelectorEventLoop):
    """Loop on real sockets and wall time. A suspended process's sockets must not be watched meanwhile: who made it sees
    to that (odradek.testing.socket_network)."""

    def _process_events(self, event_list: list[Any]) -> None:
        super()._process_events(event_list)  # type: ignore[misc]
        if self.suspended:
            self._hold_back()
