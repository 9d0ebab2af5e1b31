"""A call that goes on when its caller has stopped waiting for it. Loop-thread only.

As in Kafka's own client: who was told ClientTimeout by commit_transaction() calls it again, and nothing else before,
since nobody knows yet how it ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.client.errors import ClientClosed, ClientError, ClientTimeout
from odradek.client.producer.transaction import Call
from odradek.world.tasks import Tasks


class PendingCall:
    """The one call of a producer whose end nobody has heard yet."""

    def __init__(self, transactional_id: str, tasks: Tasks) -> None:
        self._transactional_id, self._tasks = transactional_id, tasks
        self._pending: tuple[Call, asyncio.Task[None]] | None = None
        self._failure: Exception | None = None

    async def run(self, call: Call, begin: Callable[[], Coroutine[Any, Any, None]], timeout_ms: float) -> None:
        """Wait for the same call, where one is pending, else for one that `begin` begins.

        Raises what `begin` and its coroutine raise; ClientTimeout, after which the call is pending; ClientError when
        another one is.
        """
        task = self._same(call)
        if task is None:
            work = begin()
            task = self._tasks.result_of(self.named(call), lambda: work)
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # if nobody asks again
            self._pending = (call, task)
        await self.wait(call, task, timeout_ms)
        self._pending = None
        task.result()

    @property
    def call(self) -> Call | None:
        """Return the call whose end nobody has heard yet."""
        return None if self._pending is None else self._pending[0]

    def check(self, call: Call) -> None:
        """Raises ClientError when another call is to be waited for first. One that has failed does not matter."""
        self._same(call)

    def _same(self, call: Call) -> "asyncio.Task[None] | None":
        if self._pending is None:
            return None
        pending, task = self._pending
        if pending is call:
            return task
        if task.done() and (task.cancelled() or task.exception() is not None):
            return None
        raise ClientError(f"{self.named(call)}: {pending.value}() was not waited for: call it again first")

    async def wait(self, call: Call, task: "asyncio.Task[None]", timeout_ms: float) -> None:
        """Until a task has ended, however. Raises ClientTimeout, ClientClosed, or what `fail` was given."""
        done, _ = await asyncio.wait({task}, timeout=timeout_ms / 1000)
        if not done:
            again = "it goes on: call it again to wait for it"
            raise ClientTimeout(f"{self.named(call)}: not done within {timeout_ms / 1000:g} s; {again}")
        if task.cancelled():
            if self._failure is not None:
                raise self._failure
            raise ClientClosed(f"{self.named(call)}: the producer was closed meanwhile")

    def named(self, call: Call) -> str:
        """For messages."""
        return f"transactional.id {self._transactional_id}: {call.value}()"

    async def settle(self, timeout_ms: float) -> None:
        """Until nothing is under way, or the time is over."""
        if self._pending is not None and not self._pending[1].done():
            await asyncio.wait({self._pending[1]}, timeout=timeout_ms / 1000)

    def cancel(self) -> None:
        """The producer is closed."""
        if self._pending is not None:
            self._pending[1].cancel()

    def fail(self, error: Exception) -> None:
        """The producer is broken: whoever waits gets `error`."""
        self._failure = error
        self.cancel()
