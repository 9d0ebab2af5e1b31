"""The loop on which a Spark process talks to clusters, and the sessions that it keeps there.

Spark's Python workers run one task at a time and are used again for the next; sessions, with their connections, are
therefore kept for the process. They are coroutines on the core that all clients share, and what Spark calls (`reading`,
`writing`) waits for them through `Process.run`: on a thread's loop in reality, on a virtual one in tests.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from odradek.client.aio.world import World
from odradek.client.loop_thread import LoopThread

Result = TypeVar("Result")
SESSIONS_LIMIT = 8
"""Sessions that one process keeps; the one that was made first is closed for a further one."""


class Closable(Protocol):
    """A session: made on the loop, closed on the loop."""

    async def close(self) -> None:
        """Close all connections."""


Session = TypeVar("Session", bound=Closable)


class Process:
    """A process of Spark, driver or executor. For one thread of the application at a time."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], world: World) -> None:
        self.world = world
        self._run = run
        self._sessions: dict[object, Closable] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for a coroutine on the loop, and return its result."""
        result: Result = self._run(work)
        return result

    def session(self, key: object, make: Callable[[World], Session]) -> Session:
        """Return the session that was made for an equal key, or make one."""
        return self.run(self._session(key, make))

    async def _session(self, key: object, make: Callable[[World], Session]) -> Session:
        found = self._sessions.get(key)
        if found is None:
            if len(self._sessions) >= SESSIONS_LIMIT:
                await self._sessions.pop(next(iter(self._sessions))).close()
            found = self._sessions[key] = make(self.world)
        return found  # type: ignore[return-value]  # the key names the kind

    def iterate(self, items: AsyncGenerator[Result, None]) -> Iterator[Result]:
        """Wait for one after the other; the generator is closed at the end, whichever it is."""
        steps = _Steps(items)
        try:
            while True:
                try:
                    item = self.run(steps.next())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.run(steps.close())

    async def close(self) -> None:
        """Close all sessions."""
        while self._sessions:
            await self._sessions.popitem()[1].close()


class _Steps(Generic[Result]):
    """Steps of a generator, one after the other."""

    def __init__(self, items: AsyncGenerator[Result, None]) -> None:
        self._items = items
        self._step = asyncio.Lock()

    async def next(self) -> Result:
        """Take a step."""
        async with self._step:
            return await anext(self._items)

    async def close(self) -> None:
        """Close the generator, also when the last step was interrupted and has not ended yet."""
        async with self._step:
            await self._items.aclose()


_here: dict[int, Process] = {}


def here() -> Process:
    """Return that of this process, which begins with the first call; a fork has its own."""
    found = _here.get(os.getpid())
    if found is None:
        _here.clear()
        found = _here[os.getpid()] = Process(LoopThread("odradek-spark").run, World())
    return found


def stand_in(process: Process | None) -> None:
    """Let `here` return another one from now on, or (None) begin anew: for tests, on a loop of their own."""
    _here.clear()
    if process is not None:
        _here[os.getpid()] = process
