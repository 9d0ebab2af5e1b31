"""`Children` without processes: the same work in this one, for tests and the simulator."""

import importlib
from collections.abc import Iterator

from odradek.world.children import Child, Ended, Heard
from odradek.world.clock import Clock
from odradek.world.files import Files


class InlineChildren:
    """Does the work one line per turn of the clock."""

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
            self._heard(line)
            self._clock.call_soon(self._go_on)
        else:
            self._ended(not self._killed)

    def kill(self) -> None:
        self._killed = True
