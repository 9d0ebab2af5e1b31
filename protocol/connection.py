"""The client's side of a connection, without the socket: requests become bytes, received bytes become responses.

A broker answers the requests of one connection in their order. `ClientConnection` therefore keeps what was sent in a
queue, and a response must carry the correlation id of the oldest entry. Both the asynchronous peer of the broker and
the blocking client drive one of these; neither knows frames.

Sans I/O after the manner of h11: no method blocks, waits, or reads a clock.
"""

from collections import deque
from dataclasses import dataclass

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.headers import (
    RequestHeader,
    decode_correlation_id,
    decode_response,
    encode_request,
    message_classes,
)
from odradek.protocol.primitives import Buffer, Part

SIZE_BYTES = 4
DEFAULT_MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""A response that claims more than this is taken for nonsense."""
DEFAULT_MAX_IN_FLIGHT = 1000
LAST_CORRELATION_ID = 0x7FFF_FFFF


def framed(parts: list[Part]) -> list[Part]:
    """Return the pieces of a request or response behind their size, which they must all tell by `len`."""
    return [sum(map(len, parts)).to_bytes(SIZE_BYTES, "big"), *parts]


class FrameReader:
    """Cuts a stream of bytes into frames: four bytes of size, then that many bytes."""

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def received(self, data: Buffer) -> list[bytes]:
        """Return the frames that `data` completes, without their sizes. Raises MalformedMessage for a bad size."""
        self._buffer += data
        frames = []
        at = 0
        while (size := self._size_at(at)) is not None and len(self._buffer) - at - SIZE_BYTES >= size:
            start = at + SIZE_BYTES
            at = start + size
            frames.append(bytes(memoryview(self._buffer)[start:at]))
        if at:
            del self._buffer[:at]
        return frames

    def missing_bytes(self) -> int:
        """Number of bytes that the frame that has begun still lacks: what is read at least."""
        size = self._size_at(0)
        return SIZE_BYTES - len(self._buffer) if size is None else size + SIZE_BYTES - len(self._buffer)

    def _size_at(self, at: int) -> int | None:
        if len(self._buffer) - at < SIZE_BYTES:
            return None
        size = int.from_bytes(self._buffer[at : at + SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self.max_frame_bytes:
            raise MalformedMessage(f"a frame of {size} bytes; the limit is {self.max_frame_bytes}")
        return size


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that waits for its answer."""

    correlation_id: int
    api_key: int
    api_version: int


@dataclass(frozen=True, slots=True)
class Received:
    """A response and the request it answers."""

    correlation_id: int
    message: Message


class ClientConnection:
    """Correlation ids, requests in flight, and frames of one connection, from its opening to its end.

    After a MalformedMessage the stream cannot be trusted: the owner closes the connection.
    """

    def __init__(
        self,
        client_id: str,
        *,
        max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    ) -> None:
        self.client_id = client_id
        self.max_in_flight = max_in_flight
        self.in_flight: deque[Sent] = deque()
        self._frames = FrameReader(max_response_bytes)
        self._next_correlation_id = 0

    def request(self, message: Message, version: int, *, answered: bool = True) -> tuple[int, list[Part]]:
        """Return the request as pieces to send, with its correlation id.

        `answered=False` for a Produce with acks=0, which the broker does not answer. The caller asks `may_send` first.
        """
        assert self.may_send(), f"{len(self.in_flight)} requests are in flight"
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 0 if correlation_id == LAST_CORRELATION_ID else correlation_id + 1
        parts = framed(encode_request(RequestHeader(message.API_KEY, version, correlation_id, self.client_id), message))
        if answered:
            self.in_flight.append(Sent(correlation_id, message.API_KEY, version))
        return correlation_id, parts

    def may_send(self) -> bool:
        return len(self.in_flight) < self.max_in_flight

    def received(self, data: Buffer) -> list[Received]:
        """Return the responses that `data` completes, in the order of their requests. Raises MalformedMessage."""
        return [self._response(frame) for frame in self._frames.received(data)]

    def missing_bytes(self) -> int:
        """Number of bytes to read at least before `received` can return anything new."""
        return self._frames.missing_bytes()

    def _response(self, frame: bytes) -> Received:
        if not self.in_flight:
            raise MalformedMessage(f"a response of {len(frame)} bytes to no request")
        sent = self.in_flight.popleft()
        correlation_id = decode_correlation_id(frame)
        if correlation_id != sent.correlation_id:
            name = message_classes(sent.api_key).name
            raise MalformedMessage(f"correlation id {correlation_id} where {sent.correlation_id} ({name}) was next")
        _, message = decode_response(sent.api_key, sent.api_version, frame)
        return Received(correlation_id, message)
