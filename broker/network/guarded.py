"""Delayed operations of a connection inside its error boundary, as the purgatory holds them."""

from typing import Protocol

from odradek.broker.network.boundary import Boundary
from odradek.broker.purgatory.purgatory import DelayedOperation


class Asker(Protocol):
    """Client that an operation answers."""

    @property
    def closed(self) -> bool:
        """Tell whether nobody is there any more."""


class Guarded:
    """An operation: a bug in it closes its connection and does not reach whoever touched its key."""

    __slots__ = ("_boundary", "guarded")

    def __init__(self, operation: DelayedOperation, boundary: Boundary) -> None:
        self.guarded = operation
        self._boundary = boundary

    def try_complete(self) -> bool:
        with self._boundary:
            return self.guarded.try_complete()
        return True

    def expire(self) -> None:
        with self._boundary:
            self.guarded.expire()


class Forgettable(Guarded):
    """An operation that is for the client alone: it does nothing any more when that has gone."""

    __slots__ = ("_asker",)

    def __init__(self, operation: DelayedOperation, boundary: Boundary, asker: Asker) -> None:
        super().__init__(operation, boundary)
        self._asker = asker

    def try_complete(self) -> bool:
        return self._asker.closed or super().try_complete()

    def expire(self) -> None:
        if not self._asker.closed:
            super().expire()
