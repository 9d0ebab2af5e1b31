"""Work that blocks in the kernel (fsync, deletes, start-up scans), away from the loop. Never for plain Python work."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

logger = logging.getLogger(__name__)
T = TypeVar("T")

NO_FURTHER_THREAD: Final = "can't start new thread"
"""Words of the RuntimeError when the system's limit of threads, or of memory, is reached."""


class Background(Protocol):
    """A place to run blocking work."""

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        """Run `work` elsewhere; then, on the owner's loop, `done` with its result, or with the OSError it raised.

        Any other exception is a bug and goes to the loop's exception handler. Works may run in parallel and finish in
        any order. Returns False after `close`: the work is not begun, and `done` is not called. Raises RuntimeError
        when there is no thread at all, and none can be started.
        """

    def resize(self, threads: int) -> None:
        """Run at most `threads` works at once from now on; those that were given before may still run beside them.
        Where no thread can be started all stays as it was."""

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
        self._has_threads = False
        """True when the executor has taken work, so that it has threads: they stay as long as it does."""
        self._former: list[ThreadPoolExecutor] = []
        """Pools of other sizes, which end when they have done what they were given."""

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        if self._closed:
            return False
        future: Future[T] = Future()
        try:
            self._executor.submit(_carry_out, work, future)
            self._has_threads = True
        except RuntimeError as error:
            if NO_FURTHER_THREAD not in str(error):
                raise
            if not self._has_threads:
                future.cancel()  # it is in the queue: not to be done when this has told that it was not taken
                raise
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
        executor = _executor(threads)
        try:
            executor.submit(_nothing)
        except RuntimeError as error:
            if NO_FURTHER_THREAD not in str(error):
                raise
            logger.error("there stay %d background threads: %s", self._threads, error)
            return
        self._executor.shutdown(wait=False)
        self._former.append(self._executor)
        self._threads, self._executor, self._has_threads = threads, executor, True

    def close(self) -> None:
        self._closed = True
        for one in (*self._former, self._executor):
            one.shutdown(wait=True)


def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="background")


def _nothing() -> None:
    """Do nothing: a pool has a thread when it has taken this."""


def _carry_out(work: Callable[[], T], future: "Future[T]") -> None:
    """Do a work in its thread. Its future is our own: an executor that cannot start a further thread does not return
    one, though it has queued the work for the others."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whoever has the future raises it
        future.set_exception(error)
    else:
        future.set_result(result)
