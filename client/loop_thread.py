"""A thread with an event loop, for clients whose methods block. The only place where a client makes a thread."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.client.errors import ClientClosed, ClientError

Result = TypeVar("Result")
STOP_TIMEOUT_SECONDS = 5.0


class LoopThread:
    """Runs a loop until `stop`. A daemon: a program that forgets to close its client can still end."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result. An interrupt (Ctrl-C) cancels it."""
        if self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        if self.is_current:
            work.close()
            raise ClientError("a callback may not call a method that waits: it would wait for itself")
        waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return waiting.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed meanwhile") from None
        except BaseException:
            waiting.cancel()
            raise

    def call(self, function: Callable[[], Result]) -> Result:
        """Run a plain function on the loop and wait for its result."""

        async def work() -> Result:
            return function()

        return self.run(work())

    def soon(self, function: Callable[[], object]) -> None:
        """Run a plain function on the loop, without waiting."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function)

    @property
    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the thread; harmless twice, and from the thread itself."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join(STOP_TIMEOUT_SECONDS)
