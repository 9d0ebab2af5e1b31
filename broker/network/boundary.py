"""The boundary of a connection, where errors that belong to it alone end.

Requests are decoded and handled inside a boundary. Whatever comes up to it closes that connection and nothing else:

- the peer's mistake (bytes that do not decode, a size out of bounds, an API that is not served): one line with its
  address;
- a bug of ours, that is any other Exception: logged with its traceback. The client is not answered, because a handler
  that broke off may have done half of its work; it sees the connection close and retries as after a crash.

Nothing else in the network layer catches bugs, and what is not an Exception (a cancelled task, an interrupt) passes.
"""

import logging
from collections.abc import Callable
from types import TracebackType

from odradek.protocol.errors import MalformedMessage

logger = logging.getLogger(__name__)


class UnsupportedRequestError(Exception):
    """An API or a version that is not served. As in Kafka the only answer is to close the connection."""


class FrameSizeError(Exception):
    """A frame announced a size that is negative, over the limit, or more than there is memory for."""


PEER_MISTAKES = (MalformedMessage, UnsupportedRequestError, FrameSizeError)


class Boundary:
    """Boundary for a `with` around work for one connection. It has no state, so it may be entered inside itself."""

    __slots__ = ("_close", "_peer")

    def __init__(self, peer: str, close: Callable[[], object]) -> None:
        self._peer = peer
        self._close = close

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        if isinstance(error, PEER_MISTAKES):
            logger.warning("closing the connection with %s: %s", self._peer, error)
        else:
            logger.error("closing the connection with %s after an error of ours", self._peer, exc_info=error)
        self._close()
        return True
