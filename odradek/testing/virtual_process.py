"""A process on a virtual loop that can be killed: from one moment to the next nothing of it runs any more. It can also
be suspended, as by SIGSTOP: what it would do meanwhile it does when it is resumed, all at once and in the old order.

Whatever a process does is done in its context (contextvars): tasks, timers and callbacks that are made by it inherit
that. `kill` takes its callbacks off the loop, and the loop takes no new ones; its tasks end where they wait. Parts that
stand between processes (network, ZooKeeper) call each of them by `in_own_context`, and set their own timers by an
`OutsideClock`, so that the death of one does not silence another; what belongs to a process though others call it, such
as its ZooKeeper client, sets its timers by an `InsideClock`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from odradek.testing.simulated_files import MachineStopped
from odradek.world.clock import Clock, Timer

T = TypeVar("T")


WAYS_OUT_MAX = 20
"""Most times that the coroutine of a dead process may try to wait for something before it ends."""


class ProcessKilled(RuntimeError):  # noqa: N818 - what became of the work that was awaited
    """Failure of work whose process was killed before it was done."""


class VirtualProcess:
    """Runs coroutines until it is killed. Made outside of every process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.suspended = False
        self.held: list[asyncio.Handle] = []
        """What it is going to do first when it is resumed; filled by the loop."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Tasks of the process that have not ended, in the order of their making; the loop keeps this up to date."""
        self._context = copy_context()
        self._context.run(PROCESS.set, self)
        self._died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work. Raises ProcessKilled when the process dies first, and what the work raises."""
        if self.dead:
            work.close()
            raise ProcessKilled(f"{self.name} is dead")
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        waited: list[asyncio.Future[Any]] = [task, self._died]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self.dead or not task.done():
            raise ProcessKilled(f"{self.name} was killed")
        return task.result()

    def suspend(self) -> None:
        """Suspend the process from the loop's next turn on. Must be called from outside of it."""
        assert PROCESS.get() is not self and not self.dead and not self.suspended, self.name
        self.suspended = True
        asyncio.get_running_loop().suspended += 1  # type: ignore[attr-defined]

    def resume(self) -> None:
        """Do what was held back; harmless when it was not suspended."""
        if self.suspended:
            self.suspended = False
            loop = asyncio.get_running_loop()
            loop.suspended -= 1  # type: ignore[attr-defined]
            loop._ready.extend(handle for handle in self.held if not handle.cancelled())  # type: ignore[attr-defined]
            self.held.clear()

    def kill(self) -> None:
        """Kill the process. Harmless twice. Must be called from outside of it."""
        assert PROCESS.get() is not self, f"{self.name} cannot kill itself"
        if self.dead:
            return
        self.held.clear()
        self.resume()
        self.dead = True
        loop = asyncio.get_running_loop()
        for handle in list(loop.outstanding()):  # type: ignore[attr-defined]
            if not handle._cancelled and belongs_to_dead(handle._context):
                handle.cancel()
        while self.tasks:  # on its way out one may begin another
            task = next(iter(self.tasks))
            del self.tasks[task]
            self._end(task)
        self._died.set_result(None)

    def _end(self, task: "asyncio.Task[Any]") -> None:
        """Give back what its coroutine holds; whatever that tries to do on the way out has no effect any more."""
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        asyncio._unregister_task(task)
        coroutine = task.get_coro()
        assert coroutine is not None
        for _ in range(WAYS_OUT_MAX):
            with contextlib.suppress(RuntimeError):  # it would await on its way out: there is nothing to wait for
                with contextlib.suppress(MachineStopped):  # it would write on its way out
                    self._context.copy().run(coroutine.close)
                return


PROCESS: ContextVar[VirtualProcess | None] = ContextVar("process", default=None)
"""Process whose code is running; None: that of the test and of what stands between the processes."""


def belongs_to_dead(context: Any) -> bool:
    """Tell whether a callback with this context is one of a process that was killed."""
    process = context.get(PROCESS)
    return process is not None and process.dead


def in_own_context(callback: Callable[..., object]) -> Callable[..., None]:
    """Wrap a callback so that others may call it: it runs in the present context, and not after the process's death."""
    context = copy_context()

    def call(*arguments: Any) -> None:
        if not belongs_to_dead(context):
            context.copy().run(callback, *arguments)

    return call


class InsideClock:
    """A clock for what belongs to the process that makes it, whoever happens to call it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._context = copy_context()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def now_s(self) -> float:
        return self._clock.now_s()

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()

    def perf_counter(self) -> float:
        return self._clock.perf_counter()

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return self._context.copy().run(self._clock.call_later, delay_ms, callback)

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        return self._context.copy().run(self._clock.call_soon, callback)


class OutsideClock(InsideClock):
    """A clock for what belongs to no process, whoever happens to call it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._context.run(PROCESS.set, None)
