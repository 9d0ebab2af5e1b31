"""What a connection still has to send: bytes and ranges of files, in order."""

import errno
from collections.abc import Callable

from odradek.protocol.primitives import Part
from odradek.world.files import Buffer, FileRange
from odradek.world.network import Endpoint

TURN_BYTES_MAX = 1 << 22
"""What one connection sends at most before the others have their turn: a quick reader must not keep the loop busy."""
READ_BYTES_MAX = 1 << 15
"""A range of a file that is no longer is read and goes out together with what is before and after it: up to there a
copy costs less than the three calls it takes to send head, range and tail, and the receiver is woken once."""
JOINED_BYTES_MAX = 1 << 18
"""What is joined for one call, and so the most that a connection keeps of files in memory while its peer is slow."""


class Output:
    """The queue of one endpoint's unsent parts. Its bound is kept by the owner, who looks at `unsent_bytes`.

    `flush` sends what the transport takes, within limits. When that is not all, `room` is called as soon as more may be
    sent; it is to call `flush`.
    """

    __slots__ = ("_blocked", "_endpoint", "_offset", "_parts", "_room", "unsent_bytes")

    def __init__(self, endpoint: Endpoint, room: Callable[[], object]) -> None:
        self._endpoint = endpoint
        self._room = room
        self._parts: list[Part] = []
        self._offset = 0
        """How much of the first part is gone."""
        self._blocked = False
        self.unsent_bytes = 0

    def push(self, parts: list[Part]) -> None:
        """Queue them behind the others."""
        self._parts += parts
        self.unsent_bytes += sum(map(len, parts))

    def clear(self) -> None:
        """The endpoint is closed."""
        self._parts.clear()
        self._offset = self.unsent_bytes = 0

    def flush(self) -> None:
        """Send. Raises OSError when the connection or a file in the queue broke: the stream cannot go on then."""
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
        """One call of the transport."""
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
        raise OSError(errno.ENODATA, f"{len(data)} bytes at {part.position}, {part.length} were promised")
    return data
