"""Virtual time: an asyncio loop that never waits, and a clock that a test moves by hand.

On a `VirtualLoop` everything runs as on any loop, but when nothing is left to do now, time jumps to the next timer. A
run takes only the time that its work takes, and is the same each time. It has no sockets, and threads must not be used.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any, TypeVar

from odradek.testing.process_loop import OwnedFuture, ProcessLoop
from odradek.testing.simulated_files import MachineStopped
from odradek.testing.virtual_process import PROCESS
from odradek.world.clock import LoopClock, Timer

T = TypeVar("T")

FIRST_WALL_CLOCK_MS = 1_700_000_000_000
"""What a virtual wall clock shows in the beginning, unless told otherwise."""


LEAST_DELAY_S = 1e-8
CANCELLED_TIMERS_MAX = 500


class NothingLeftToHappen(RuntimeError):  # noqa: N818
    """A coroutine waits, but no timer is set and no callback is ready: in the real world it would hang for ever."""


class _Handle:
    """A callback that is going to be called, as asyncio.Handle, which asks the loop for its debug mode each time."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args: tuple[Any, ...] = arguments
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        """Do not call it, and let go what it holds. Harmless twice."""
        self._cancelled = True
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        return self._cancelled


class _Timer(_Handle):
    """A callback for later."""

    __slots__ = ("_loop", "_when")

    def __init__(
        self,
        loop: "VirtualLoop",
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context,
    ) -> None:
        self._callback, self._args, self._context, self._cancelled = callback, arguments, context, False
        self._loop: VirtualLoop | None = loop
        self._when = when

    def cancel(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.timers_cancelled += 1
        super().cancel()

    def when(self) -> float:
        """Return the time on the loop at which it is due, in seconds."""
        return self._when


class VirtualLoop(ProcessLoop):
    """An event loop on virtual time; `time()` is seconds since it was made.

    Simulations spend a good part of their processor time in here, so it does without the layers that a loop with
    sockets, threads and a debug mode needs.
    """

    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        """The time."""
        self.timers_cancelled = 0
        """Timers that were cancelled; each stays among the others until it is due, or there are many of its kind."""
        self._timers: list[tuple[float, int, _Timer]] = []
        """Timers by their time; of two for the same time the one that was set first comes first: it would depend on how
        many others there are, otherwise, and a run with one timer more would be another run."""
        self._timers_set = 0
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> _Handle:
        if context is None:
            context = copy_context()
        handle = _Handle(callback, arguments, context)
        process = context.get(PROCESS)
        if process is None or not process.dead:
            self._ready.append(handle)  # type: ignore[arg-type]
        else:
            handle.cancel()
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> _Timer:
        if context is None:
            context = copy_context()
        timer = _Timer(self, when, callback, arguments, context)
        self._timers_set = number = self._timers_set + 1
        process = context.get(PROCESS)
        if process is None or not process.dead:
            heapq.heappush(self._timers, (when, number, timer))
        else:
            timer.cancel()
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> _Timer:
        if 0.0 < delay < LEAST_DELAY_S:
            delay = (
                LEAST_DELAY_S  # what rounding swallows would let somebody who waits for a moment wait in it for ever
            )
        return self.call_at(self.now_s + delay, callback, *arguments, context=context)

    def call_next(self, callback: Callable[[], object], context: Context) -> None:
        """Call it before anything else that is ready."""
        self._ready.appendleft(_Handle(callback, (), context))  # type: ignore[arg-type]

    def outstanding(self) -> Iterator[Any]:
        yield from self._ready
        yield from (timer for _, _, timer in self._timers)

    def _run_once(self) -> None:
        """Run one turn: what is ready; when nothing is, time passes until a timer is due.

        Raises NothingLeftToHappen.
        """
        ready, timers = self._ready, self._timers
        if self.timers_cancelled > CANCELLED_TIMERS_MAX:
            self.timers_cancelled = 0
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(timers)
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeftToHappen("all tasks wait for something that nothing will bring about")
            self.now_s = max(self.now_s, timers[0][0])
        if self.suspended:
            self._hold_back()
            ready = self._ready
        end = self.now_s + self._clock_resolution
        while timers and timers[0][0] < end:
            timer = heapq.heappop(timers)[2]
            timer._loop = None
            ready.append(timer)  # type: ignore[arg-type]
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio's own handles
                    said = f"Exception in callback {handle._callback!r}"  # type: ignore[attr-defined]
                    self.call_exception_handler({"message": said, "exception": error, "handle": handle})

    def _hold_back_timers(self) -> None:
        due, end = [], self.now_s + self._clock_resolution
        while self._timers and self._timers[0][0] < end:
            entry = heapq.heappop(self._timers)
            timer = entry[2]
            if timer._cancelled or not self._held(timer):
                due.append(entry)
            else:
                timer._loop = None
        for entry in due:
            heapq.heappush(self._timers, entry)

    def _write_to_self(self) -> None:
        """Do nothing after `call_soon_threadsafe`: the loop never sleeps, so there is nobody to wake."""


class VirtualClock(LoopClock):
    """The clock of a virtual loop. `wall_offset_ms` may be changed: a wall clock that jumps."""

    def __init__(self, loop: VirtualLoop, wall_clock_ms: int = FIRST_WALL_CLOCK_MS) -> None:
        super().__init__(loop)
        self._virtual_loop = loop
        self.wall_offset_ms = wall_clock_ms

    def now_ms(self) -> int:
        return self.wall_offset_ms + int(self._virtual_loop.now_s * 1000.0)

    def now_s(self) -> float:
        return self.now_ms() / 1000.0

    def monotonic_ms(self) -> float:
        return self._virtual_loop.now_s * 1000.0

    def perf_counter(self) -> float:
        return self._virtual_loop.now_s

    def call_later(self, delay_ms: float, callback: Callable[[], object], context: Context | None = None) -> Timer:
        return self._virtual_loop.call_later(delay_ms / 1000.0, callback, context=context)

    def call_soon(self, callback: Callable[[], object], context: Context | None = None) -> Timer:
        return self._virtual_loop.call_soon(callback, context=context)

    def beside(self) -> "VirtualClock":
        """Return a clock of the same loop with a wall clock of its own, which shows the same until it is changed."""
        return VirtualClock(self._virtual_loop, self.wall_offset_ms)


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run `main(clock)` on a new virtual loop until it returns; tasks that are left are cancelled.

    An exception that reached the loop's handler (from a callback, say) is raised at the end: a test must not miss it.
    Of a MachineStopped everybody has heard.
    """
    loop = VirtualLoop()
    reported: list[BaseException] = []

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        future = context.get("future")
        error = context.get("exception") or RuntimeError(context)
        if not (isinstance(future, OwnedFuture) and future.nobody_waits) and not isinstance(error, MachineStopped):
            reported.append(error)

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

    def now_s(self) -> float:
        return self.now_ms() / 1000.0

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
