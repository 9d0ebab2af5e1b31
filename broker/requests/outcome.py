"""What a request handler may answer with."""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.protocol.fields import Message


class RequestContext(NamedTuple):
    """Who asks, and how."""

    api_version: int
    client_id: str
    peer: str
    """Address of the client as `host:port`."""
    listener: str
    """Name of the listener it came in by: answers that hold addresses give those of the same listener."""

    @property
    def client_host(self) -> str:
        """The address without its port, as DescribeGroups shows it."""
        return "/" + self.peer.rpartition(":")[0]


class Reply(NamedTuple):
    """Answer now."""

    response: Message
    throttle_ms: int = 0
    """Stop reading from this connection for that long after the answer is sent (KIP-219)."""
    close: bool = False
    """Close the connection after the answer is sent."""


class DelayedOperation(Protocol):
    """Work that could not be finished when its request came."""

    def try_complete(self) -> bool:
        """Called when one of its keys was touched. True when it has finished: it has called its `respond` then."""

    def expire(self) -> None:
        """Called once at the deadline, unless it has finished: it must finish now."""


class Wait(NamedTuple):
    """Answer when one of the keys is touched and the operation says so, or at the deadline.

    `start` is given the function to answer with and returns the operation; the purgatory tries it once at once.
    """

    start: Callable[[Callable[[Message], None]], DelayedOperation]
    keys: Sequence[Hashable]
    timeout_ms: float
    overtaken: bool = False
    """Whether the connection's next request may be handled before this one is answered (answers keep their order)."""


class Silent(NamedTuple):
    """No answer (acks=0)."""

    close: bool = False
    """An error that the client has no other way to learn of."""


Outcome = Reply | Wait | Silent | Coroutine[Any, Any, Reply]
