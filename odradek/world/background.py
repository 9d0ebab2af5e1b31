"""Work that blocks in the kernel (fsync, deletes, start-up scans), away from the loop. Never for plain Python work."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    """A place to run blocking work."""

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        """Run `work` elsewhere; then, on the owner's loop, `done` with its result, or with the OSError it raised.

        Any other exception is a bug and goes to the loop's exception handler. Works may run in parallel and finish in
        any order. Returns False after `close`: the work is not begun, and `done` is not called.
        """

    def close(self) -> None:
        """Wait for what was begun; nothing more is taken."""


class InlineBackground:
    """Runs everything at once in the caller: for tests, command-line tools and shutdown."""

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        result: T | OSError
        try:
            result = work()
        except OSError as error:
            result = error
        done(result)
        return True

    def close(self) -> None:
        """Do nothing: nothing is ever under way."""


class ThreadBackground:
    """A few threads beside one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._loop = loop
        self._closed = False
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="background")

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        if self._closed:
            return False
        future = self._executor.submit(work)
        future.add_done_callback(lambda finished: self._deliver(finished, done))
        return True

    def _deliver(self, finished: "Future[T]", done: Callable[[T | OSError], object]) -> None:
        error = finished.exception()
        if self._loop.is_closed():
            return
        if error is None:
            self._loop.call_soon_threadsafe(done, finished.result())
        elif isinstance(error, OSError):
            self._loop.call_soon_threadsafe(done, error)
        else:
            context = {"message": "background work failed", "exception": error}
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)

    def close(self) -> None:
        self._closed = True
        self._executor.shutdown(wait=True)
