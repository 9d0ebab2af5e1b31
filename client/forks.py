"""Clients in a process that forks.

A child of `os.fork` has none of its parent's threads: a client that came with it would wait for ever, hold locks that
nobody opens, or speak into the parent's connections. So it is told, and says so at every call.
"""

import os
import weakref
from typing import Protocol

SAID = "it was made in another process, before a fork: make a client in this process"


class Forkable(Protocol):
    """Interface of what has threads or locks, which do not survive a fork."""

    def forked(self) -> None:
        """Fail whatever waits and refuse whatever comes: this is the child of a fork."""


_alive: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch(one: Forkable) -> None:
    """Tell it of forks, as long as it lives."""
    _alive.add(one)


def _tell_all() -> None:
    for one in list(_alive):
        one.forked()


os.register_at_fork(after_in_child=_tell_all)
