"""Event loop of a Spark process, and its sessions with clusters.

Spark's Python workers run one task after the other, so sessions, with their connections, are kept for the process.
The methods that Spark calls (`reading`, `writing`) wait for the coroutines of a session through `Process.run`, on the
loop of a thread, or in tests on a virtual one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from odradek.client.aio.world import World
from odradek.client.loop_thread import LoopThread

Result = TypeVar("Result")
SESSIONS_LIMIT = 8
"""Sessions that one process keeps. For a further one, the oldest is closed."""


class Closable(Protocol):
    """A session, which is made and closed on the loop."""

    async def close(self) -> None:
        """Close all connections."""


Session = TypeVar("Session", bound=Closable)


class Process:
    """Loop and sessions of one Spark process, driver or executor. For one thread of the application at a time."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], world: World) -> None:
        self.world = world
        self._run = run
        self._sessions: dict[object, Closable] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for a coroutine on the loop, and return its result."""
        result: Result = self._run(work)
        return result

    def session(self, key: object, make: Callable[[World], Session]) -> Session:
        """Return the session for this key, made by `make` if there is none yet."""
        return self.run(self._session(key, make))

    async def _session(self, key: object, make: Callable[[World], Session]) -> Session:
        found = self._sessions.get(key)
        if found is None:
            if len(self._sessions) >= SESSIONS_LIMIT:
                await self._sessions.pop(next(iter(self._sessions))).close()
            found = self._sessions[key] = make(self.world)
        return found  # type: ignore[return-value]  # the key names the kind

    def iterate(self, items: AsyncGenerator[Result, None]) -> Iterator[Result]:
        """Wait for the items of an asynchronous generator, one by one. It is closed whenever the iteration ends."""
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
    """Steps of an asynchronous generator, one at a time."""

    def __init__(self, items: AsyncGenerator[Result, None]) -> None:
        self._items = items
        self._step = asyncio.Lock()

    async def next(self) -> Result:
        """Return the next item."""
        async with self._step:
            return await anext(self._items)

    async def close(self) -> None:
        """Close the generator, after a last step that was interrupted and has not ended yet, if there is one."""
        async with self._step:
            await self._items.aclose()


_here: dict[int, Process] = {}


def here() -> Process:
    """Return the Process of this process, made at the first call; a forked process gets its own."""
    found = _here.get(os.getpid())
    if found is None:
        _here.clear()
        found = _here[os.getpid()] = Process(LoopThread("odradek-spark").run, World())
    return found


def stand_in(process: Process | None) -> None:
    """Let `here` return another Process from now on, or, with None, make a new one. For tests with their own loop."""
    _here.clear()
    if process is not None:
        _here[os.getpid()] = process
