"""Clients in a process that forks.

A child of `os.fork` has none of its parent's threads: a client that it has inherited would wait for ever, find locks
that nobody releases, or send on the parent's connections. So each client is told of the fork, and refuses every call.
"""

import os
import weakref
from typing import Protocol

SAID = "it was made in another process, before a fork: make a client in this process"


class Forkable(Protocol):
    """An object with threads or locks, which do not survive a fork."""

    def forked(self) -> None:
        """Fail all that waits, and refuse every later call: this is the child of a fork."""


_alive: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch(one: Forkable) -> None:
    """Call `one.forked()` in the child of each fork, as long as the object lives."""
    _alive.add(one)


def _tell_all() -> None:
    for one in list(_alive):
        one.forked()


os.register_at_fork(after_in_child=_tell_all)
