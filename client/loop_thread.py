"""Thread with an event loop, for clients whose methods block. Clients make threads nowhere else."""

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from odradek.client.errors import ClientClosed, ClientError
from odradek.client.forks import SAID, watch
from odradek.client.waiting import call_soon
from odradek.world.clock import LoopClock
from odradek.world.tasks import OnDeath, Tasks

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
STOP_TIMEOUT_SECONDS = 5.0


class LoopThread:
    """Thread that runs a loop until `stop`. A daemon: a program that forgets to close its client can still end."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._forked = False
        self._waiting: set[_Caller] = set()
        self._thread = threading.Thread(target=_run_forever, args=(self.loop, self._waiting), name=name, daemon=True)
        try:
            self._thread.start()
            watch(self)
        except BaseException:  # Ctrl-C: nobody else would ever stop the thread
            self.soon(self.loop.stop)
            raise

    def forked(self) -> None:
        """Forget thread and loop: in the child of a fork there is no thread, and the loop's pipe is the parent's."""
        self._forked = True

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result. An interrupt (Ctrl-C) cancels it.

        Functions that the coroutine passes to `on_callers_thread` are run on the calling thread, which waits.
        """
        if self._forked or self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosed(f"the client does not work here: {SAID}" if self._forked else "the client is closed")
        if self.is_current:
            work.close()
            raise ClientError("a callback may not call a method that waits: it would wait for itself")
        caller = _Caller(self.loop)
        served = caller.serve(work)
        try:
            try:
                waiting = asyncio.run_coroutine_threadsafe(served, self.loop)
            except RuntimeError:  # the loop was closed just now
                raise concurrent.futures.CancelledError from None
            waiting.add_done_callback(caller.done)
            self._waiting.add(caller)
            if self.loop.is_closed():  # its thread may have released the waiting callers just before this one came
                caller.done(None)
            caller.work_until_done()
            if not waiting.done():  # and never will be: the loop is closed
                raise concurrent.futures.CancelledError
            return waiting.result()
        except concurrent.futures.CancelledError:
            served.close()  # the coroutine has ended, or will never begin
            work.close()
            raise ClientClosed("the client was closed meanwhile") from None
        except BaseException:  # also Ctrl-C, which may come between any two lines
            caller.leave()
            raise
        finally:
            self._waiting.discard(caller)

    def call(self, function: Callable[[], Result]) -> Result:
        """Run a plain function on the loop and wait for its result."""

        async def work() -> Result:
            return function()

        return self.run(work())

    def soon(self, function: Callable[[], object]) -> None:
        """Run a plain function on the loop, without waiting. Does nothing when the loop is closed."""
        if not self._forked:
            call_soon(self.loop, function)

    @property
    def is_current(self) -> bool:
        """Tell whether the caller is this thread."""
        return threading.current_thread() is self._thread

    @property
    def running(self) -> bool:
        """Tell whether the thread runs, in this process."""
        return not self._forked and not self.loop.is_closed()

    def stop(self) -> None:
        """End the thread, and wait for that, unless called on the thread itself. Calling it again does nothing."""
        if not self.running:
            return
        self.soon(self.loop.stop)
        if not self.is_current:
            self._thread.join(STOP_TIMEOUT_SECONDS)

    def stop_after(self, make: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """End the thread when a last coroutine has ended, without waiting for either."""
        loop = self.loop

        def begin() -> None:
            tasks = Tasks(LoopClock(loop), lambda said: None)
            tasks.spawn("end of a dropped client", make, OnDeath.REPORT).add_done_callback(lambda _: loop.stop())

        self.soon(begin)


def _run_forever(loop: asyncio.AbstractEventLoop, waiting: "set[_Caller]") -> None:
    """Run a loop until it is stopped, end its tasks, close it, and release callers that came too late.

    This has no reference to the client, which can therefore be collected when nobody refers to it any more.
    """
    asyncio.set_event_loop(loop)
    _run_until_stopped(loop)
    _run_one_turn(loop)  # tasks that can go on at once may end by themselves
    busy = True
    while busy:
        pending = asyncio.all_tasks(loop)
        if pending:
            for task in pending:
                task.cancel()
            ended = asyncio.gather(*pending, return_exceptions=True)
            ended.add_done_callback(lambda _: loop.stop())
            while not ended.done():
                _run_until_stopped(loop)
        _run_one_turn(loop)  # callers that wait for a task that has just ended get its result
        busy = bool(pending or asyncio.all_tasks(loop))
    loop.close()
    for caller in list(waiting):
        caller.done(None)


def _run_one_turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    _run_until_stopped(loop)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. An exception that would end the program, such as SystemExit in a callback, is
    only logged: all callers of the loop would wait for ever."""
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt):
            logger.exception("a callback raised this to end the program, which cannot be done from the client's thread")


class _Caller:
    """A thread that waits for a coroutine, and meanwhile runs the functions that the coroutine gives it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        """Task that runs the coroutine, once it has begun."""
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._interrupt: BaseException | None = None
        self._left = False

    async def serve(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` so that `on_callers_thread` finds this caller."""
        _caller.set(self)
        self._task = asyncio.current_task()
        if self._left:
            work.close()
            raise asyncio.CancelledError
        return await work

    def done(self, _: object) -> None:
        """Tell the waiting thread that the coroutine has ended."""
        self._calls.put(None)

    def leave(self) -> None:
        """Wait no longer, and cancel the coroutine: after an interrupt no more functions are run on this thread."""
        self._left = True
        if self._task is not None:  # otherwise `serve` looks at `_left` when it begins
            call_soon(self._loop, self._task.cancel)

    def work_until_done(self) -> None:
        """Run the functions that come, until `done`. Raises an interrupt that one of them has raised."""
        while (call := self._calls.get()) is not None:
            call()
            if self._interrupt is not None:
                raise self._interrupt

    async def give(self, function: Callable[[], Result]) -> Result:
        """Have the waiting thread run a function, and wait for its result. Raises CancelledError when the thread no
        longer waits."""
        if self._left:  # after an interrupt the coroutine is cleaning up
            raise asyncio.CancelledError
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()

        def tell(result: Result | None, error: Exception | None) -> None:
            call_soon(loop, partial(_end, ended, result, error))  # does nothing if the function has closed the client

        def call() -> None:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - raised where the result is waited for
                tell(None, error)
            except BaseException as interrupt:  # noqa: BLE001 - raised on the waiting thread: it would end the loop
                self._interrupt = interrupt
            else:
                tell(result, None)

        self._calls.put(call)
        return await ended


def _end(ended: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if ended.done():
        return
    if error is not None:
        ended.set_exception(error)
    else:
        ended.set_result(result)


_caller: ContextVar[_Caller | None] = ContextVar("odradek_caller", default=None)


async def on_callers_thread(function: Callable[[], Result]) -> Result:
    """Run an application's callback on the thread that waits in `LoopThread.run` for the present coroutine."""
    caller = _caller.get()
    assert caller is not None, "nobody waits for this coroutine"
    return await caller.give(function)
