"""Outcomes of requests: answers now, later, or none; and the client that a connection names with each request.

Request handlers return an `Outcome`; the dispatcher makes an `Answer` of it, which the connection carries out.
"""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.broker.metrics.request_metrics import NO_API, ApiMetrics
from odradek.broker.purgatory.purgatory import DelayedOperation
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Part


class RequestContext(NamedTuple):
    """Client of a request, the version of the request, and the listener that it came by."""

    api_version: int
    client_id: str
    peer: str
    """Address of the client as `host:port`."""
    listener: str
    """Name of the listener that the client came in by: answers that hold addresses give those of the same listener."""
    principal: KafkaPrincipal = ANONYMOUS
    """Principal that the connection has authenticated as."""
    by_token: bool = False
    """True if it has authenticated with a delegation token."""
    connection: int = 0
    """Number of the connection; later connections have higher numbers."""

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
    """True to close the connection after the answer is sent."""


class Respond(Protocol):
    """The way to answer a request later."""

    def __call__(self, response: Message, throttle_ms: int = 0) -> None:
        """Answer the request, once, from anywhere on the loop. Nothing happens when the client is gone.

        The answer is encoded here and sent, with others, when what is running on the loop now has ended: calling this
        never runs another request.
        """


class Wait(NamedTuple):
    """Answer when one of the keys is touched and the operation says so, or at the deadline.

    `start` is given the function to answer with and returns the operation; the purgatory tries that right away, unless
    the handler has just done so.
    """

    start: Callable[[Respond], DelayedOperation]
    keys: Sequence[Hashable]
    timeout_ms: float
    may_be_overtaken: bool = False
    """True if the connection's next request may be handled before this one is answered (answers keep their order)."""
    tried: bool = False
    """True if the handler has just found that the operation cannot be finished yet."""
    only_reads: bool = False
    """True if the operation changes nothing, and is dropped when its client is gone; others are finished even then."""


class Silent(NamedTuple):
    """Outcome of a request without an answer (acks=0)."""

    close: bool = False
    """True to close the connection after an error, which the client has no other way to learn of."""
    throttle_ms: int = 0
    """Time for which nothing is read from the connection."""


# Whatever the outcome, the memoryviews in a request (`records`) are parts of the connection's receive buffer: they are
# valid, and writable, until `handle` has returned. What an operation or a coroutine needs of them later it must copy
# out in `handle` itself. All other values of a request are its own.
Settled = Reply | Wait | Silent
Outcome = Settled | Coroutine[Any, Any, Settled]


class Client:
    """A connection, as the dispatcher sees it."""

    __slots__ = (
        "api", "authentications", "by_token", "contexts", "expired", "identity", "listener", "number", "peer",
        "principal", "refused",
    )  # fmt: skip

    def __init__(self, peer: str, listener: str, number: int = 0) -> None:
        """Take the connection's `number`; later connections have higher numbers."""
        self.peer = peer
        self.listener = listener
        self.number = number
        self.identity = b""
        """The client id of the last request, with its length in front, as it came."""
        self.contexts: dict[int, RequestContext] = {}
        """Contexts of that client id and principal by version."""
        self.api: ApiMetrics = NO_API
        """Metrics in which the last request counts."""
        self.principal = ANONYMOUS
        """Changed by `authenticated` alone."""
        self.by_token = False
        self.authentications = 0
        """Number of times that the client has authenticated."""
        self.refused = False
        """True once it has failed to."""
        self.expired = False
        """True once its session is over, and it has not authenticated again."""

    def authenticated(self, principal: KafkaPrincipal, *, by_token: bool = False) -> None:
        """Note the principal of the requests from the next one on, and whether a delegation token has proved it."""
        self.principal, self.by_token = principal, by_token
        self.authentications += 1
        self.contexts.clear()


class Deferred(Protocol):
    """An outcome that asks for more than sending an answer now."""

    @property
    def outcome(self) -> Outcome: ...

    def answer(self, response: Message | None) -> list[Part]:
        """Encode the response; return the whole frame of the answer, or no parts for None. Called once, at the end."""


Answer = list[Part] | Deferred | None
"""A frame to send now, an outcome that the connection has to carry out, or nothing to send."""


class Dispatch(Protocol):
    """Handles one request of a connection."""

    def __call__(self, frame: memoryview, client: Client, /) -> Answer: ...
