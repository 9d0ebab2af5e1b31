"""The inside of a child process: lowest priority, request on stdin, lines on stdout, gone when its parent is gone.

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

LOWEST_PRIORITY = 19
LEAST_PAUSE_SECONDS = 0.01
ORPHANED = 3
"""Exit code when nobody waits for the result any more."""

PR_SET_PDEATHSIG = 1
"""prctl(2)."""

Work = Callable[[Files, bytes, Callable[[int], None]], Iterator[bytes]]


class Orphaned(Exception):  # noqa: N818 - says what it is
    """The parent has ended."""


class Pace:
    """Called with bytes that were moved: keeps to a rate, and looks whether the parent is still there."""

    def __init__(self, parent: int, bytes_per_second: float) -> None:
        self._parent = parent
        self._bytes_per_second = bytes_per_second
        self._began = time.monotonic()
        self._moved = 0

    def __call__(self, size_bytes: int) -> None:
        """Raises Orphaned."""
        if os.getppid() != self._parent:
            raise Orphaned
        self._moved += size_bytes
        ahead = self._moved / self._bytes_per_second - (time.monotonic() - self._began)
        if ahead > LEAST_PAUSE_SECONDS:
            time.sleep(ahead)


def _die_with_parent() -> None:
    """At the same moment, where the system can do that: nobody may change a file that the next broker has opened."""
    if sys.platform == "linux":
        import ctypes  # here: brokers import this module and never call this

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(work: Work) -> int:
    """Return what a child's module calls with its own `work`; the exit code."""
    pace = Pace(int(sys.argv[1]), float(sys.argv[2]))
    _die_with_parent()
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
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
