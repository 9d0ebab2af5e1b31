"""Stream of server-sent events to one page: all changes, as fast as the page receives them.

Nothing is queued: a slow page gets the newest state once it has received the one before.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

from aiohttp import web

from odradek.console.observer import Observer
from odradek.world.clock import Clock
from odradek.world.tasks import OnDeath, Tasks

STREAMS_MAX: Final = 32
ALIVE_MS: Final = 5_000.0
"""Pause after which a page gets an event although nothing has changed: after a longer silence it would assume that the
connection is broken."""
TAKEN_SECONDS: Final = 30.0
"""Time that a page has to receive an event. It may be open in a browser that was suspended."""

Asker = Callable[[], AsyncGenerator[Any, None]]
"""Yields the values of a view, one after the other, with pauses of its own."""


class Streams:
    """All open streams."""

    def __init__(self, observer: Observer) -> None:
        self._open: set[Stream] = set()
        observer.changed = self._tell

    @property
    def full(self) -> bool:
        """Tell whether no further page may be open."""
        return len(self._open) >= STREAMS_MAX

    @contextmanager
    def place(self, stream: "Stream") -> Iterator[None]:
        """Count a stream as open within a `with` block, from before its first answer on. Only when not `full`."""
        self._open.add(stream)
        try:
            yield
        finally:
            self._open.discard(stream)

    def _tell(self) -> None:
        for stream in self._open:
            stream.wake()

    def close(self) -> None:
        """End all streams."""
        for stream in self._open:
            stream.end()


class Stream:
    """A page."""

    def __init__(
        self,
        response: web.StreamResponse,
        observer: Observer,
        clock: Clock,
        tasks: Tasks,
        asker: Asker | None,
        happening: int,
        abort: Callable[[], object],
    ) -> None:
        """Take, among others, what breaks the connection to the page."""
        self._response, self._observer, self._asker, self._abort = response, observer, asker, abort
        self._clock, self._tasks = clock, tasks
        self._version = 0
        self._happening = happening
        """The last one that the page has."""
        self._woken = asyncio.Event()
        self._over = False
        self._turn = asyncio.Lock()

    def wake(self) -> None:
        """Wake the stream: there may be something new."""
        self._woken.set()

    def end(self) -> None:
        """End the stream."""
        self._over = True
        self._woken.set()

    async def run(self) -> None:
        """Send the page all changes, until it is closed, or until `end`. That a page is closed is no failure."""
        if self._happening > self._observer.timeline.last_number:  # the console was started again
            self._happening = 0
        try:
            viewing = self._tasks.spawn("view", self._tell_view, OnDeath.REPORT)
            try:
                await self._tell_changes()
            finally:
                viewing.cancel()
                await asyncio.gather(viewing, return_exceptions=True)
        except ConnectionResetError:
            return

    async def _tell_changes(self) -> None:
        while not self._over:
            self._woken.clear()
            if self._version != self._observer.version:
                self._version = self._observer.version
                await self._send("state", self._observer.state)
            happenings = self._observer.timeline.since(self._happening)
            if happenings:
                self._happening = happenings[-1]["number"]
                await self._send("happenings", json.dumps(happenings))
            timer = self._clock.call_later(ALIVE_MS, self._woken.set)
            alive = self._observer.version, self._observer.timeline.last_number
            await self._woken.wait()
            timer.cancel()
            if alive == (self._observer.version, self._observer.timeline.last_number):
                await self._send("alive", "")

    async def _tell_view(self) -> None:
        if self._asker is None:
            return
        before = None
        try:
            async with aclosing(self._asker()) as values:
                async for value in values:
                    text = json.dumps(value)
                    if text != before:
                        before = text
                        await self._send("view", text)
        except ConnectionResetError:
            self.end()

    async def _send(self, event: str, data: str) -> None:
        async with self._turn:
            try:
                async with asyncio.timeout(TAKEN_SECONDS):
                    await self._response.write(f"event: {event}\ndata: {data}\n\n".encode())
            except TimeoutError:
                self._abort()
                raise ConnectionResetError("the page does not receive") from None
