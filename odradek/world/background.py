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

    def resize(self, threads: int) -> None:
        """Run at most so many works at once from now on; those that were given before may still run beside them."""

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

    def resize(self, threads: int) -> None:
        """Do nothing: there are no threads."""

    def close(self) -> None:
        """Do nothing: nothing is ever under way."""


class ThreadBackground:
    """A few threads beside one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._loop = loop
        self._closed = False
        self._threads = threads
        self._executor = _executor(threads)
        self._former: list[ThreadPoolExecutor] = []
        """Pools of other sizes, which end when they have done what they were given."""

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

    def resize(self, threads: int) -> None:
        if threads == self._threads or self._closed:
            return
        self._executor.shutdown(wait=False)
        self._former.append(self._executor)
        self._threads, self._executor = threads, _executor(threads)

    def close(self) -> None:
        self._closed = True
        for one in (*self._former, self._executor):
            one.shutdown(wait=True)


def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="background")
