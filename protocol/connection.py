"""The client's side of a connection, without the socket: requests become bytes, received bytes become responses.

A broker answers the requests of one connection in their order. `ClientConnection` therefore keeps what was sent in a
queue, and a response must carry the correlation id of the oldest entry. The clients drive it (`client.connection`); a
broker's connections to other brokers (`broker.cluster.peer`) keep their requests themselves, and use `FrameReader`.

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
READ_BYTES = 1 << 18
DEFAULT_MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""Largest response: one that announces more is taken for damaged."""
DEFAULT_MAX_IN_FLIGHT = 1000
LAST_CORRELATION_ID = 0x7FFF_FFFF
LARGE_PIECE_BYTES = 1 << 14
"""Size from which on a piece is sent by itself: copying it costs more than another call of the operating system."""


def framed(parts: list[Part]) -> list[Part]:
    """Return the pieces of a request or response with their total size before them. `len` of each is its bytes."""
    return [sum(map(len, parts)).to_bytes(SIZE_BYTES, "big"), *parts]


def gathered(parts: list[Part]) -> list[Part]:
    """Return the same bytes in few pieces: small ones are joined. Raises TypeError for a piece that is not bytes."""
    pieces: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if len(part) < LARGE_PIECE_BYTES:
            small.append(part)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(memoryview(part))
    return [*pieces, b"".join(small)] if small else pieces


class FrameReader:
    """Cuts a stream of bytes into frames: four bytes of size, then that many bytes.

    Receive into `room()`, then call `filled` with the number of bytes received. A frame that has not come whole gets a
    buffer of its own, into which the rest of it is received, so that a large one is not copied.
    """

    def __init__(self, max_frame_bytes: int, read_bytes: int = READ_BYTES) -> None:
        """`read_bytes`: most bytes received at once while no frame has begun."""
        self.max_frame_bytes = max_frame_bytes
        self._head = memoryview(bytearray(read_bytes))
        self._head_end = 0
        self._body: memoryview | None = None
        """A frame that has begun, of which `_body_end` bytes were received."""
        self._body_end = 0

    def room(self) -> memoryview:
        """Return the buffer to receive into next; if a frame has begun, one of the size that the frame lacks."""
        return self._head[self._head_end :] if self._body is None else self._body[self._body_end :]

    @property
    def lacking(self) -> int:
        """Number of bytes that are missing of a frame that has begun; 0 if none has."""
        return 0 if self._body is None else len(self._body) - self._body_end

    def clear(self) -> None:
        """Drop the frame that has begun, of which no more will come, so that it does not stay in memory."""
        self._body = None

    def filled(self, count: int) -> list[Buffer]:
        """Return the frames that `count` more bytes complete, without their sizes.

        Raises MalformedMessage for a bad size.
        """
        if self._body is None:
            self._head_end += count
            return self._cut()
        self._body_end += count
        if self._body_end < len(self._body):
            return []
        frame, self._body = self._body, None
        return [frame]

    def _cut(self) -> list[Buffer]:
        """Take the whole frames out of the shared buffer, and move one that has begun to a buffer of its own."""
        frames: list[Buffer] = []
        head, at, end = self._head, 0, self._head_end
        while end - at >= SIZE_BYTES and self._body is None:
            size = int.from_bytes(head[at : at + SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self.max_frame_bytes:
                raise MalformedMessage(f"a frame of {size} bytes; the limit is {self.max_frame_bytes}")
            start, after = at + SIZE_BYTES, at + SIZE_BYTES + size
            at = min(after, end)
            if after <= end:
                frames.append(bytes(head[start:after]))
            else:
                self._body, self._body_end = memoryview(bytearray(size)), end - start
                self._body[: self._body_end] = head[start:end]
        self._head_end = end - at
        head[: self._head_end] = head[at:end]
        return frames


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that waits for its answer."""

    correlation_id: int
    api_key: int
    api_version: int


@dataclass(frozen=True, slots=True)
class Received:
    """A response, with the correlation id of the request that it answers."""

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
        parts = gathered(parts)  # before it counts as in flight: a text instead of bytes fails here
        if answered:
            self.in_flight.append(Sent(correlation_id, message.API_KEY, version))
        return correlation_id, parts

    def may_send(self) -> bool:
        return len(self.in_flight) < self.max_in_flight

    def room(self) -> memoryview:
        """Return the buffer to receive into next."""
        return self._frames.room()

    @property
    def lacking(self) -> int:
        """Number of bytes that are missing of a response that has begun to come; 0 if none has."""
        return self._frames.lacking

    def filled(self, count: int) -> list[Received]:
        """Return the responses that `count` more bytes complete, in the order of their requests.

        Raises MalformedMessage.
        """
        return [self._response(frame) for frame in self._frames.filled(count)]

    def _response(self, frame: Buffer) -> Received:
        if not self.in_flight:
            raise MalformedMessage(f"a response of {len(frame)} bytes to no request")
        sent = self.in_flight.popleft()
        correlation_id = decode_correlation_id(frame)
        if correlation_id != sent.correlation_id:
            name = message_classes(sent.api_key).name
            raise MalformedMessage(f"correlation id {correlation_id} where {sent.correlation_id} ({name}) was next")
        _, message = decode_response(sent.api_key, sent.api_version, frame)
        return Received(correlation_id, message)
