"""Base of the blocking clients: an asyncio client on a thread of its own, and calls that wait for its coroutines."""

import asyncio
import atexit
import logging
import warnings
import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from odradek.client.errors import ClientError
from odradek.client.loop_thread import LoopThread

logger = logging.getLogger(__name__)


class Core(Protocol):
    """What all asyncio clients have in common."""

    def open(self, loop: asyncio.AbstractEventLoop, *, from_other_threads: bool = False) -> None:
        """Start on the running loop."""

    async def abandon(self) -> None:
        """Close without calling back into the application."""

    async def close(self) -> None:
        """Close the client."""

    @property
    def undelivered(self) -> int:
        """Number of records that were sent and are not acknowledged yet."""


Client = TypeVar("Client", bound=Core)
Result = TypeVar("Result")
_open: "weakref.WeakSet[Blocking[Any]]" = weakref.WeakSet()


class Blocking(Generic[Client]):
    """A bridge from any thread to an asyncio client. Dropped without `close`, it warns, and closes the client."""

    _core: Client
    _thread: LoopThread

    def _begin(self, core: Client, client_id: str) -> None:
        self._core = core
        self._thread = LoopThread(f"odradek-{client_id}")
        self._closed = self._core_is_closed = False
        try:
            self._thread.call(lambda: core.open(self._thread.loop, from_other_threads=True))
        except BaseException:
            self._thread.stop()
            raise
        _open.add(self)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._thread.run(work)

    def close(self) -> None:
        """Close all connections. Calling it again does nothing."""
        self._finish(self._core.close)

    def _finish(self, close: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Close the core by `close`, unless that was done before or the thread is gone, and end the thread."""
        if self._closed:
            if self._core_is_closed:  # perhaps Ctrl-C has struck before the thread was ended
                self._end()
            return
        self._closed = True
        try:
            if self._thread.running:
                self._run(close())
        finally:
            self._core_is_closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        self._closed = True
        _open.discard(self)
        self._thread.stop()

    def __del__(self) -> None:
        if self.__dict__.get("_closed") is False and self._thread.running:
            self._warn_dropped()
            core: Client = self._core
            self._thread.stop_after(core.abandon)

    def _warn_dropped(self) -> None:
        left = self._core.undelivered
        said = f"{type(self).__name__} was dropped without close()" + (
            f": {left} record(s) not delivered" if left else ""
        )
        warnings.warn(said, ResourceWarning, stacklevel=3, source=self)


@atexit.register
def _close_all() -> None:
    """Close what is still open when the program ends, so that a group need not wait for a member's session timeout."""
    for one in list(_open):
        if one._thread.running:
            one._warn_dropped()
            try:
                one._run(one._core.abandon())
            except ClientError as error:
                logger.debug("at exit: %s", error)
            one._end()
