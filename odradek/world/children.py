"""Work that takes much Python time, in a process of its own: it would hold the loop up even from a thread.

A child is a module with `work(files, request, moved)`, which yields lines; `odradek.world.child_process.main` runs it.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Protocol

from odradek.world.tasks import OnDeath, Tasks

log = logging.getLogger(__name__)

LONGEST_LINE_BYTES = 16 * 1024 * 1024
Heard = Callable[[bytes], object]
Ended = Callable[[bool], object]


class Child(Protocol):
    """A process that was begun."""

    def kill(self) -> None:
        """End it at once. It is not heard any more, but its end still is. Harmless twice, and after its end."""


class Children(Protocol):
    """A place to begin processes. Whoever begins one kills it before the loop ends."""

    def run(
        self, module: str, request: bytes, heard: Heard, ended: Ended, *, bytes_per_second: float = float("inf")
    ) -> Child:
        """Run `module.work` on `request`.

        On the loop, after this call has returned: `heard` with each line, then `ended` once, with whether all went
        well. `bytes_per_second`: how much it may read and write.
        """


class ProcessChildren:
    """Real processes of this Python, each watched by a task."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def run(
        self, module: str, request: bytes, heard: Heard, ended: Ended, *, bytes_per_second: float = float("inf")
    ) -> Child:
        child = _Process(heard, ended)
        arguments = ("-m", module, str(os.getpid()), repr(bytes_per_second))
        self._tasks.spawn(f"python -m {module}", lambda: child.run(arguments, request), OnDeath.REPORT)
        return child


class _Process:
    def __init__(self, heard: Heard, ended: Ended) -> None:
        self._heard, self._ended = heard, ended
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False

    async def run(self, arguments: tuple[str, ...], request: bytes) -> None:
        well = False
        try:
            well = await self._run(arguments, request)
        except (OSError, ValueError) as error:
            log.error("python %s cannot be run: %s", " ".join(arguments), error)
        finally:
            self.kill()
            self._ended(well)

    async def _run(self, arguments: tuple[str, ...], request: bytes) -> bool:
        pipe = asyncio.subprocess.PIPE
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=pipe, stdout=pipe, limit=LONGEST_LINE_BYTES
        )
        assert process.stdin is not None and process.stdout is not None
        if self._killed:
            process.kill()
        with contextlib.suppress(ConnectionError):  # it has ended already, its code says why
            if not process.stdin.is_closing():
                process.stdin.write(request)
                await process.stdin.drain()
        process.stdin.close()
        async for line in process.stdout:
            if not self._killed:
                self._heard(line)
        return await process.wait() == 0 and not self._killed

    def kill(self) -> None:
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
