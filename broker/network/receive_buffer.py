"""The bytes of one connection that have come in and are not handled yet.

Most wake-ups bring whole requests: they are read into one buffer that all connections of a loop share, and are handled
right there. A connection gets a buffer of its own when something is left over, a part of a frame or requests that must
wait; it keeps it while it makes use of its size. So thousands of idle connections cost nothing, and a busy one copies
only what a wake-up leaves over.
"""

from struct import Struct

from odradek.broker.network.boundary import FrameSizeError
from odradek.broker.network.limits import RECEIVE_BUFFER_BYTES

SIZE = Struct(">i")
SIZE_BYTES = 4
KEEP_FACTOR = 4
"""A buffer more than so many times larger than what was used of it since the last review is given back."""
CHEAP_MOVE_BYTES = 4096


class ReceiveBuffer:
    """Frames out of a stream of bytes. `shared` is the loop's one buffer, `frame_bytes_max` the limit of a frame."""

    __slots__ = ("_frame_bytes_max", "_shared", "_used", "end", "start", "view")

    def __init__(self, shared: memoryview, frame_bytes_max: int) -> None:
        self._shared = shared
        self._frame_bytes_max = frame_bytes_max
        self.view = shared
        """Where the next bytes go: `view[end:]`."""
        self.start = self.end = 0
        """What is not handled yet: `view[start:end]`."""
        self._used = 0

    @property
    def is_own(self) -> bool:
        """Whether this connection has a buffer for itself."""
        return self.view is not self._shared

    @property
    def has_room(self) -> bool:
        """Whether bytes can be received: into no room nothing comes, which would look like the peer's end."""
        return self.end < len(self.view)

    def next_frame(self) -> memoryview | None:
        """The next whole frame, without its size; None when there is none yet.

        It is a part of the buffer, valid until the next call of `settle`. Raises FrameSizeError.
        """
        start, end = self.start, self.end
        if end - start < SIZE_BYTES:
            return None
        size: int = SIZE.unpack_from(self.view, start)[0]
        if not 0 <= size <= self._frame_bytes_max:
            raise FrameSizeError(f"a request of {size} bytes was announced, the limit is {self._frame_bytes_max}")
        begin = start + SIZE_BYTES
        after = begin + size
        if after > end:
            return None
        self.start = after
        return self.view[begin:after]

    def settle(self, *, grow: bool) -> None:
        """After the frames of a wake-up: keep what is left over, and have room for more.

        `grow`: a full buffer may become larger for the frame in it. It becomes twice as large, so it is never larger
        than twice what has come, and never larger than the frame and one receive buffer.
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
        """Bytes that the frame in front has with its size, as far as known."""
        if self.end - self.start < SIZE_BYTES:
            return SIZE_BYTES
        size: int = SIZE.unpack_from(self.view, self.start)[0]
        return SIZE_BYTES + min(max(size, 0), self._frame_bytes_max)

    def _move_to(self, size_bytes: int) -> None:
        kept = self.end - self.start
        own = memoryview(bytearray(max(size_bytes, kept)))
        own[:kept] = self.view[self.start : self.end]
        self.view, self.start, self.end = own, 0, kept

    def review(self) -> None:
        """Give back a buffer that is empty and, since the last review, was far larger than needed or not used."""
        used, self._used = self._used, 0
        if self.end == 0 and len(self.view) > KEEP_FACTOR * used:
            self.view = self._shared

    def release(self) -> None:
        """The connection is closed."""
        self.view = self._shared
        self.start = self.end = 0
