"""Virtual time: an asyncio loop that never waits, and a clock that a test moves by hand.

On a `VirtualLoop` everything runs as on any loop, but when nothing is left to do now, time jumps to the next timer. A
run takes only the time that its work takes, and is the same each time. It has no sockets, and threads must not be used.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from odradek.testing.process_loop import OwnedFuture, ProcessLoop
from odradek.testing.virtual_process import belongs_to_dead
from odradek.world.clock import LoopClock, Timer

T = TypeVar("T")

FIRST_WALL_CLOCK_MS = 1_700_000_000_000
"""What a virtual wall clock shows in the beginning, unless told otherwise."""


LEAST_DELAY_S = 1e-8
CANCELLED_TIMERS_MAX = 500


class NothingLeftToHappen(RuntimeError):  # noqa: N818
    """Somebody waits, but no timer is set and no callback is ready: in the real world this would hang for ever."""


class _Timer(asyncio.TimerHandle):
    """A timer that is quickly compared with another; of two for the same time, the one that was set first comes first.

    Otherwise it would depend on how many others there are, and a run with one timer more would be another run.
    """

    __slots__ = ("_number",)
    _when: float
    _number: int

    def __lt__(self, other: "_Timer") -> bool:  # type: ignore[override]
        return self._when < other._when or (self._when == other._when and self._number < other._number)


class VirtualLoop(ProcessLoop):
    """An event loop on virtual time; `time()` is seconds since it was made.

    Simulations spend a good part of their processor time in here, so it does without the layers that a loop with
    sockets, threads and a debug mode needs.
    """

    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._cancelled_timers = self._timers_set = 0
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        if not belongs_to_dead(handle._context):  # type: ignore[attr-defined]
            self._ready.append(handle)
        else:
            handle.cancel()
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, arguments, self, context)
        self._timers_set = timer._number = self._timers_set + 1
        if not belongs_to_dead(timer._context):  # type: ignore[attr-defined]
            heapq.heappush(self._scheduled, timer)
            timer._scheduled = True  # type: ignore[attr-defined]
        else:
            timer.cancel()
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if delay > 0.0:  # a delay that rounding swallows would let somebody who waits for a moment wait in it for ever
            delay = max(delay, LEAST_DELAY_S)
        return self.call_at(self._now + delay, callback, *arguments, context=context)

    def _run_once(self) -> None:
        """Run one turn: what is ready; when nothing is, time passes until a timer is due.

        Raises NothingLeftToHappen.
        """
        ready, timers = self._ready, self._scheduled
        if self._cancelled_timers > CANCELLED_TIMERS_MAX:
            self._cancelled_timers = 0
            timers[:] = [timer for timer in timers if not timer._cancelled]
            heapq.heapify(timers)
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeftToHappen("all tasks wait for something that nothing will bring about")
            self._now = max(self._now, timers[0]._when)  # type: ignore[attr-defined]
        if self.suspended:
            self._hold_back()
            ready = self._ready
        end = self._now + self._clock_resolution
        while timers and timers[0]._when < end:  # type: ignore[attr-defined]
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer; it stays among the others until it is due, or there are many of its kind."""
        self._cancelled_timers += 1

    def _write_to_self(self) -> None:
        """Do nothing after `call_soon_threadsafe`: the loop never sleeps, so there is nobody to wake."""


class VirtualClock(LoopClock):
    """The clock of a virtual loop. `wall_offset_ms` may be changed: a wall clock that jumps."""

    def __init__(self, loop: VirtualLoop, wall_clock_ms: int = FIRST_WALL_CLOCK_MS) -> None:
        super().__init__(loop)
        self._virtual_loop = loop
        self.wall_offset_ms = wall_clock_ms

    def now_ms(self) -> int:
        return self.wall_offset_ms + int(self.monotonic_ms())

    def perf_counter(self) -> float:
        return self._loop.time()

    def beside(self) -> "VirtualClock":
        """Return a clock of the same loop with a wall clock of its own, which shows the same until it is changed."""
        return VirtualClock(self._virtual_loop, self.wall_offset_ms)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run `main(clock)` on a new virtual loop until it returns; tasks that are left are cancelled.

    An exception that reached the loop's handler (from a callback, say) is raised at the end: a test must not miss it.
    """
    loop = VirtualLoop()
    reported: list[BaseException] = []

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        future = context.get("future")
        if not (isinstance(future, OwnedFuture) and future.nobody_waits):
            reported.append(context.get("exception") or RuntimeError(context))

    loop.set_exception_handler(report)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main(VirtualClock(loop)))
    if reported:
        raise reported[0]
    return result


class _ManualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock without a loop, for rules that are synchronous: time passes in `advance` only."""

    def __init__(self, wall_clock_ms: int = FIRST_WALL_CLOCK_MS) -> None:
        self.wall_offset_ms = wall_clock_ms
        self._elapsed_ms = 0.0
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._numbers = itertools.count()

    def now_ms(self) -> int:
        return self.wall_offset_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        return self._elapsed_ms

    def perf_counter(self) -> float:
        return self.monotonic_ms() / 1000.0

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed_ms + max(delay_ms, 0.0), next(self._numbers), timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        return self.call_later(0.0, callback)

    @property
    def outstanding(self) -> int:
        """Number of timers that are neither run nor cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def stall(self, delay_ms: float) -> None:
        """Let time pass without running anything, as while the loop is busy; `advance` then runs what is overdue."""
        self._elapsed_ms += delay_ms

    def advance(self, delay_ms: float = 0.0) -> None:
        """Let time pass and run, in order, what falls due, also what that itself brings about."""
        until_ms = self._elapsed_ms + delay_ms
        while self._timers and self._timers[0][0] <= until_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._elapsed_ms = max(self._elapsed_ms, due_ms)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._elapsed_ms = until_ms
