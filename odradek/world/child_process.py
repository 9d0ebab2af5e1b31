"""The inside of a child process: request on stdin, lines on stdout, gone when its parent is gone.

Arguments: the parent's process id, and how many bytes a second the work may move (`inf`).
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

from odradek.world.files import Files
from odradek.world.os_files import OsFiles
from odradek.world.process_log import log_to_stderr

GIVING_WAY = 10
"""Niceness of work that can wait: a tenth of a processor that others want, too. With 19 it would be a seventieth, which
is next to nothing where several want it."""
LEAST_PAUSE_SECONDS = 0.01
ORPHANED = 3
"""Exit code when nobody waits for the result any more."""

PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal that a process gets when its parent ends."""

Work = Callable[[Files, bytes, Callable[[int], None]], Iterator[bytes]]


class Orphaned(Exception):  # noqa: N818 - says what it is
    """The parent has ended."""


class Pace:
    """Keeps the work to a rate of bytes per second, and ends it when the parent has ended: called with bytes moved."""

    def __init__(self, parent: int, bytes_per_second: float) -> None:
        self._parent = parent
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._moved = 0

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were moved, and pause when they are ahead of the rate. Raises Orphaned."""
        if os.getppid() != self._parent:
            raise Orphaned
        self._moved += size_bytes
        ahead = self._moved / self._bytes_per_second - (time.monotonic() - self._began)
        if ahead > LEAST_PAUSE_SECONDS:
            time.sleep(ahead)


def _die_with_parent() -> None:
    """End when the parent ends, at the same moment where the system can do that.

    Else a child might change a file that the next broker has opened.
    """
    if sys.platform == "linux":
        import ctypes  # here: brokers import this module and never call this

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(work: Work, *, gives_way: bool) -> int:
    """Run a child's `work` on the request of its standard input; return the exit code.

    Every module that is started as a child process ends by calling this. `gives_way`: its parent comes first.
    """
    pace = Pace(int(sys.argv[1]), float(sys.argv[2]))
    _die_with_parent()
    if gives_way:
        os.setpriority(os.PRIO_PROCESS, 0, max(GIVING_WAY, os.getpriority(os.PRIO_PROCESS, 0)))
    log_to_stderr()
    request = sys.stdin.buffer.read()
    try:
        pace(0)
        for line in work(OsFiles(), request, pace):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except (Orphaned, BrokenPipeError):
        return ORPHANED
    return 0
