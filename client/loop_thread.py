"""A thread with an event loop, for clients whose methods block. The only place where a client makes a thread."""

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
    """Runs a loop until `stop`. A daemon: a program that forgets to close its client can still end."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._forked = False
        self._waiting: set[_Caller] = set()
        self._thread = threading.Thread(target=_run_forever, args=(self.loop, self._waiting), name=name, daemon=True)
        try:
            self._thread.start()
            watch(self)
        except BaseException:  # Ctrl-C: nobody will ever stop it
            self.soon(self.loop.stop)
            raise

    def forked(self) -> None:
        """Forget thread and loop: in the child of a fork there is no thread, and the loop's pipe is the parent's."""
        self._forked = True

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result. An interrupt (Ctrl-C) cancels it.

        What it gives to `on_callers_thread` is run on this thread, which waits.
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
            if self.loop.is_closed():  # by a thread that may not have seen this one wait
                caller.done(None)
            caller.work_until_done()
            if not waiting.done():  # nor will it be: the loop is closed
                raise concurrent.futures.CancelledError
            return waiting.result()
        except concurrent.futures.CancelledError:
            served.close()  # it has ended, or will never begin
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
        """Run a plain function on the loop, without waiting; not at all when it is closed."""
        if not self._forked:
            call_soon(self.loop, function)

    @property
    def is_current(self) -> bool:
        """Tell whether the caller is this thread."""
        return threading.current_thread() is self._thread

    @property
    def running(self) -> bool:
        """Tell whether it runs, in this process."""
        return not self._forked and not self.loop.is_closed()

    def stop(self) -> None:
        """End the thread; harmless twice, and from the thread itself."""
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
    """Run it until it is stopped, once or more often; who waits for something that came too late is released.

    Knows the loop and not the client, so that one that nobody refers to any more can be collected.
    """
    asyncio.set_event_loop(loop)
    _run_until_stopped(loop)
    _run_one_turn(loop)  # whoever goes on in it may come to an end
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
        _run_one_turn(loop)  # who waits for what has just ended is told its result
        busy = bool(pending or asyncio.all_tasks(loop))
    loop.close()
    for caller in list(waiting):
        caller.done(None)


def _run_one_turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    _run_until_stopped(loop)


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop. What ends a program elsewhere, such as sys.exit in a callback, ends nothing but that here: all who
    wait for the loop would wait for ever."""
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt):
            logger.exception("a callback wants to end the program, which it cannot on this thread")


class _Caller:
    """A thread that waits for a coroutine, and meanwhile runs what that gives it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        """What runs the coroutine, once that has begun."""
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
        """The coroutine has ended."""
        self._calls.put(None)

    def leave(self) -> None:
        """Wait no longer, and cancel the coroutine: an interrupt has struck, nothing will be run on this thread."""
        self._left = True
        if self._task is not None:  # else it looks at `_left` when it begins
            call_soon(self._loop, self._task.cancel)

    def work_until_done(self) -> None:
        """Run what comes, until `done`. Raises an interrupt that struck what it ran."""
        while (call := self._calls.get()) is not None:
            call()
            if self._interrupt is not None:
                raise self._interrupt

    async def give(self, function: Callable[[], Result]) -> Result:
        """Have the waiting thread run a function, and wait for its result. Raises CancelledError when it has left."""
        if self._left:  # the coroutine cleans up behind an interrupt
            raise asyncio.CancelledError
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result] = loop.create_future()

        def tell(result: Result | None, error: Exception | None) -> None:
            call_soon(loop, partial(_end, ended, result, error))  # if it has closed the client, who waits hears that

        def call() -> None:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - raised where the result is waited for
                tell(None, error)
            except BaseException as interrupt:  # noqa: BLE001 - raised by who waits: the loop would end of it
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
