"""What one connection holds: bytes not handled yet, answers that wait for their turn, and bytes still to be sent.

Most wake-ups bring whole requests: they are read into one buffer that all connections of a loop share, and are handled
right there. A connection gets a buffer of its own when something is left over (a part of a frame, or requests that have
to wait), and keeps it as long as it uses its size. So thousands of idle connections cost nothing, and a busy one copies
only what a wake-up leaves over. What is sent are bytes and ranges of files, in order.
"""

import errno
from collections import deque
from collections.abc import Callable
from struct import Struct

from odradek.broker.metrics.request_metrics import RequestWatch
from odradek.broker.network.boundary import FrameSizeError
from odradek.broker.network.limits import RECEIVE_BUFFER_BYTES
from odradek.broker.network.outcomes import Deferred
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Part
from odradek.world.files import Buffer, FileRange
from odradek.world.network import Endpoint

SIZE = Struct(">i")
SIZE_BYTES = 4
KEEP_FACTOR = 4
"""Factor by which a buffer may be larger than what was used of it since the last review; above it, it is given back."""
CHEAP_MOVE_BYTES = 4096
HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI")
TURN_BYTES_MAX = 1 << 22
"""Most that a connection sends before the others have their turn: a quick reader must not keep the loop busy."""
READ_BYTES_MAX = 1 << 15
"""A range of a file up to this long is read, and goes out together with what is before and after it: so small a copy
costs less than the three calls that send head, range and tail, and the receiver is woken once."""
UNREADABLE = (errno.ENODATA, errno.EIO)
"""Errors of the file, not of the connection: it ends before what was promised of it, or its disk fails."""
JOINED_BYTES_MAX = 1 << 18
"""Limit of what is joined for one call, and so the most that a connection keeps of files in memory while its peer is
slow."""


def other_protocol(first: Buffer) -> str:
    """Name, in brackets, the other protocol that begins with these four bytes; "" when no known one does."""
    text = bytes(first)
    if text.startswith(b"\x16\x03"):
        return " (TLS begins like this: the client's security.protocol is not that of this listener)"
    return " (HTTP begins like this: this is not a web server)" if text in HTTP else ""


class ReceiveBuffer:
    """Cuts a stream of bytes into frames. `shared` is the loop's one buffer, `frame_bytes_max` the limit of a frame."""

    __slots__ = ("_shared", "_used", "end", "frame_bytes_max", "start", "view")

    def __init__(self, shared: memoryview, frame_bytes_max: int) -> None:
        self._shared = shared
        self.frame_bytes_max = frame_bytes_max
        self.view = shared
        """Buffer whose part `view[end:]` takes the next bytes."""
        self.start = self.end = 0
        """Bounds of the bytes that are not handled yet: `view[start:end]`."""
        self._used = 0

    @property
    def is_own(self) -> bool:
        """Tell whether this connection has a buffer for itself."""
        return self.view is not self._shared

    @property
    def has_room(self) -> bool:
        """Tell whether bytes can be received: receiving into no room would look as if the peer had ended."""
        return self.end < len(self.view)

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, without its size; None when there is none yet.

        It is a part of the buffer, valid until the next call of `settle`. Raises FrameSizeError for a size below 0 or
        above the limit.
        """
        start, end = self.start, self.end
        if end - start < SIZE_BYTES:
            return None
        size: int = SIZE.unpack_from(self.view, start)[0]
        if not 0 <= size <= self.frame_bytes_max:
            said = f"a request of {size} bytes was announced, the limit is {self.frame_bytes_max}"
            raise FrameSizeError(said + other_protocol(self.view[start : start + SIZE_BYTES]))
        begin = start + SIZE_BYTES
        after = begin + size
        if after > end:
            return None
        self.start = after
        return self.view[begin:after]

    def settle(self, *, grow: bool) -> None:
        """Keep what is left over after the frames of a wake-up, and have room for more.

        `grow`: a full buffer may become larger for the frame in it. It becomes twice as large, so it is never larger
        than twice what has come, and never larger than the frame and one receive buffer. Raises FrameSizeError when
        there is no memory for it.
        """
        start, end = self.start, self.end
        if end > self._used:
            self._used = end
        if start == end:
            self.start = self.end = 0
            return
        if self.view is self._shared:
            self._move_to(RECEIVE_BUFFER_BYTES)
        elif start and (end - start <= CHEAP_MOVE_BYTES or start + self._frame_total() > len(self.view)):
            self.view[: end - start] = self.view[start:end]
            self.start, self.end = 0, end - start
        if grow and self.end == len(self.view):
            self._move_to(min(2 * len(self.view), self._frame_total() + RECEIVE_BUFFER_BYTES))

    def _frame_total(self) -> int:
        """Return the size of the frame in front with its size field; that of the field alone until it has come."""
        if self.end - self.start < SIZE_BYTES:
            return SIZE_BYTES
        size: int = SIZE.unpack_from(self.view, self.start)[0]
        return SIZE_BYTES + min(max(size, 0), self.frame_bytes_max)

    def _move_to(self, size_bytes: int) -> None:
        kept = self.end - self.start
        try:
            own = memoryview(bytearray(max(size_bytes, kept)))
        except MemoryError:
            raise FrameSizeError(f"there is no memory for a request of {self._frame_total()} bytes") from None
        own[:kept] = self.view[self.start : self.end]
        self.view, self.start, self.end = own, 0, kept

    def review(self) -> None:
        """Give back a buffer that is empty and, since the last review, was far larger than needed or not used."""
        used, self._used = self._used, 0
        if self.end == 0 and len(self.view) > KEEP_FACTOR * used:
            self.view = self._shared

    def release(self) -> None:
        """Let go of all bytes, as the connection is closed."""
        self.view = self._shared
        self.start = self.end = 0


class Slot:
    """Place of one answer among those of its connection. Handlers know `answer` as `respond`."""

    __slots__ = ("_answered", "deferred", "may_be_overtaken", "parts", "size_bytes", "watch")

    def __init__(
        self,
        deferred: Deferred | None,
        may_be_overtaken: bool,
        answered: Callable[..., object],
        watch: RequestWatch | None,
    ) -> None:
        self.deferred = deferred
        self.may_be_overtaken = may_be_overtaken
        """True if requests that came later may be handled before this one is answered."""
        self.parts: list[Part] | None = None
        self.size_bytes = 0
        self.watch = watch
        """Measure of the request's time, if that is taken."""
        self._answered = answered

    def answer(self, response: Message, throttle_ms: int = 0) -> None:
        """Answer the request, once, from anywhere on the loop. Nothing happens when the client is gone."""
        self._answered(self, response, throttle_ms)

    def fill(self, parts: list[Part]) -> None:
        """Take the frame of the answer."""
        self.parts = parts
        self.size_bytes = sum(map(len, parts))
        self.deferred = None


class Slots:
    """A queue of slots: filled in any order, emptied from the front."""

    __slots__ = ("_queue", "_waiting", "filled_bytes")

    def __init__(self) -> None:
        self._queue: deque[Slot] = deque()
        self._waiting = 0
        self.filled_bytes = 0
        """Size of the answers that wait for one before them."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def must_wait(self) -> bool:
        """Tell whether there is a request without an answer that may not be overtaken."""
        return self._waiting > 0

    def add(self, slot: Slot) -> None:
        """Append a slot behind the others."""
        self._queue.append(slot)
        if slot.parts is not None:
            self.filled_bytes += slot.size_bytes
        elif not slot.may_be_overtaken:
            self._waiting += 1

    def let_overtake(self, slot: Slot) -> None:
        """Let requests behind a slot's be handled before it is answered."""
        if slot.parts is None and not slot.may_be_overtaken:
            slot.may_be_overtaken = True
            self._waiting -= 1

    def fill(self, slot: Slot, parts: list[Part]) -> None:
        """Take the frame of a slot's answer."""
        assert slot.parts is None, "answered twice"
        slot.fill(parts)
        self.filled_bytes += slot.size_bytes
        if not slot.may_be_overtaken:
            self._waiting -= 1

    def take_ready(self, push: Callable[[list[Part], RequestWatch | None], object]) -> None:
        """Hand over, in order, the answers that no unanswered request precedes."""
        queue = self._queue
        while queue and (parts := queue[0].parts) is not None:
            slot = queue.popleft()
            self.filled_bytes -= slot.size_bytes
            push(parts, slot.watch)

    def clear(self) -> None:
        """Forget all slots, as the connection is closed."""
        self._queue.clear()
        self._waiting = self.filled_bytes = 0


class Output:
    """The queue of one endpoint's unsent parts. Its bound is kept by the owner, who looks at `unsent_bytes`.

    `flush` sends what the transport takes, within limits. When that is not all, `room` is called as soon as more may be
    sent; it must call `flush`.
    """

    __slots__ = ("_blocked", "_endpoint", "_offset", "_parts", "_room", "unsent_bytes")

    def __init__(self, endpoint: Endpoint, room: Callable[[], object]) -> None:
        self._endpoint = endpoint
        self._room = room
        self._parts: list[Part] = []
        self._offset = 0
        """Bytes of the first part that are sent."""
        self._blocked = False
        self.unsent_bytes = 0

    def push(self, parts: list[Part]) -> None:
        """Queue parts behind the others."""
        self._parts += parts
        self.unsent_bytes += sum(map(len, parts))

    def clear(self) -> None:
        """Drop all unsent parts, as the endpoint is closed."""
        self._parts.clear()
        self._offset = self.unsent_bytes = 0

    def flush(self) -> None:
        """Send what is queued. Raises OSError when the connection or a queued file broke: the stream ends then."""
        parts = self._parts
        try:
            if parts and not self._offset and FileRange not in map(type, parts):
                parts[:] = (b"".join(parts),)
            unsent_in_the_end = self.unsent_bytes - TURN_BYTES_MAX
            while parts and self.unsent_bytes > unsent_in_the_end:
                self._send_first(parts)
        except BlockingIOError:
            pass
        if self._blocked != bool(parts):
            self._blocked = not self._blocked
            self._endpoint.on_writable(self._room if self._blocked else None)

    def _send_first(self, parts: list[Part]) -> None:
        """Send with one call of the transport."""
        if not self._offset:
            _join_first(parts)
        part, offset = parts[0], self._offset
        if type(part) is FileRange:
            sent = self._endpoint.send_file(
                part.file, part.position + offset, min(part.length - offset, TURN_BYTES_MAX)
            )
        else:
            data = memoryview(part)[offset:] if offset else part
            sent = self._endpoint.send(data, more=len(parts) > 1) if len(data) else 0
        self.unsent_bytes -= sent
        if offset + sent == len(part):
            del parts[0]
            self._offset = 0
        else:
            self._offset = offset + sent


def _join_first(parts: list[Part]) -> None:
    """Make one part of all the first ones that are bytes or short ranges. Raises OSError when a range is cut short."""
    run: list[Buffer] = []
    joined_bytes = 0
    for part in parts:
        if type(part) is FileRange:
            if part.length > READ_BYTES_MAX or joined_bytes > JOINED_BYTES_MAX:
                break
            run.append(_whole(part))
            joined_bytes += part.length
        else:
            run.append(part)
    if joined_bytes or len(run) > 1:
        parts[: len(run)] = (b"".join(run),)


def _whole(part: FileRange) -> bytes:
    data = part.read()
    if len(data) != part.length:
        shortage = f"{len(data)} bytes at {part.position}, {part.length} were promised"
        raise OSError(errno.ENODATA, shortage, part.file.path)
    return data
