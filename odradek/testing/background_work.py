"""Work beside the loop, without threads and processes, for tests and the simulator: background work and children.

Background work is done when a test likes, in any order, and its result comes later (`DeferredBackground`), or takes
virtual time (`SlowBackground`); the work of child processes is done in this one (`InlineChildren`).
"""

import importlib
import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from odradek.world.background import InlineBackground
from odradek.world.children import Child, Ended, Heard
from odradek.world.clock import Clock
from odradek.world.files import Files

T = TypeVar("T")


class DeferredBackground:
    """`step` does one piece of work or gives one result; `close` does what was begun, as threads do."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._begun: list[tuple[Callable[[], object], Callable[[object], object]]] = []
        self._results: list[tuple[Callable[[object], object], object]] = []
        self._closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        if not self._closed:
            self._begun.append((work, done))  # type: ignore[arg-type]
        return not self._closed

    def resize(self, threads: int) -> None:
        """Do nothing: a test's own steps do the work."""

    @property
    def idle(self) -> bool:
        """True if nothing is under way."""
        return not self._begun and not self._results

    def step(self) -> None:
        """Take one step of the work, chosen at random; do nothing when it is idle."""
        count = len(self._begun) + len(self._results)
        if not count:
            return
        number = self._random.randrange(count)
        if number < len(self._results):
            done, result = self._results.pop(number)
            done(result)
        else:
            self._work(number - len(self._results))

    def _work(self, number: int) -> None:
        work, done = self._begun.pop(number)
        result: object
        try:
            result = work()
        except OSError as error:
            result = error
        self._results.append((done, result))

    def drain(self) -> None:
        """Take steps until it is idle."""
        while not self.idle:
            self.step()

    def close(self) -> None:
        self._closed = True
        while self._begun:
            self._work(0)


class SlowBackground:
    """Each work takes as long as `draw_latency_ms` says, on the clock of who asks for it; without latency it is done at
    once."""

    def __init__(self, clock: Clock, draw_latency_ms: Callable[[], float]) -> None:
        self._clock, self._draw_latency_ms = clock, draw_latency_ms
        self._begun: dict[int, Callable[[], object]] = {}
        self._number = 0
        self._closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | OSError], object]) -> bool:
        if self._closed:
            return False
        number = self._number = self._number + 1
        self._begun[number] = lambda: InlineBackground().run(work, done)
        latency_ms = self._draw_latency_ms()
        if latency_ms:
            self._clock.call_later(latency_ms, lambda: self._finish(number))
        else:
            self._finish(number)
        return True

    def resize(self, threads: int) -> None:
        """Do nothing: all works run side by side."""

    def _finish(self, number: int) -> None:
        begun = self._begun.pop(number, None)
        if begun is not None:
            begun()

    def close(self) -> None:
        self._closed = True
        while self._begun:
            self._finish(min(self._begun))


class InlineChildren:
    """Children whose work is done here, one line per turn of the clock."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def run(
        self, module: str, request: bytes, heard: Heard, ended: Ended, *, bytes_per_second: float = float("inf")
    ) -> Child:
        lines: Iterator[bytes] = importlib.import_module(module).work(self._files, request, lambda size_bytes: None)
        return _Inline(self._clock, lines, heard, ended)


class _Inline:
    def __init__(self, clock: Clock, lines: Iterator[bytes], heard: Heard, ended: Ended) -> None:
        self._clock, self._lines, self._heard, self._ended = clock, lines, heard, ended
        self._killed = False
        clock.call_soon(self._go_on)

    def _go_on(self) -> None:
        line = None if self._killed else next(self._lines, None)
        if line is not None:
            try:
                self._heard(line)
            except Exception:  # a process is killed then
                self._ended(False)
                raise
            self._clock.call_soon(self._go_on)
        else:
            self._ended(not self._killed)

    def kill(self) -> None:
        self._killed = True
