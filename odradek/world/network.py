"""Streams between hosts. The real network is TCP on one asyncio loop; the simulated one is queues on a virtual clock.

An endpoint never blocks: a call that cannot go on raises BlockingIOError, and the two callbacks say when it may.
"""

from collections.abc import Callable
from typing import Protocol

from odradek.world.files import Buffer, File


class Endpoint(Protocol):
    """An end of a connection."""

    peer: str
    """The other end as `host:port`, for messages to people and `max.connections.per.ip`."""

    def receive_into(self, buffer: memoryview, /) -> int:
        """Return the number of bytes read; 0 when the peer has closed. Raises BlockingIOError when there is nothing,
        OSError when the connection broke."""

    def send(self, data: Buffer, *, more: bool = False) -> int:
        """Return the number of bytes taken, at least one. `more`: others follow at once (MSG_MORE). Raises as above."""

    def send_file(self, file: File, position: int, length: int) -> int:
        """Return how many bytes, at least one, were taken of a range of a file (sendfile where the transport can).

        OSError also when the file has no byte at `position`: a promised range that is not there breaks the stream.
        """

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        """Call `callback` whenever there is something to receive; None stops that, and so pushes back on the peer."""

    def wake_at(self, count: int) -> None:
        """Call `on_readable`'s callback once `count` bytes have come, or the end: fewer are of no use yet.

        It may still be called sooner, and is if the transport cannot wait. Every endpoint begins with 1.
        """

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        """Call `callback` whenever there is room to send; None stops that."""

    def close(self, *, abandon: bool = False) -> None:
        """Close: bytes that were taken are still delivered, and no callback is called any more. Harmless twice.

        With `abandon` they are not delivered, as far as they can still be taken back. Otherwise a request whose answer
        somebody has waited for in vain could come minutes later, when it was sent again and more has happened since.
        """


class Listener(Protocol):
    """A bound port."""

    port: int

    def pause(self) -> None:
        """Leave those who connect waiting (in the kernel's backlog)."""

    def resume(self) -> None:
        """Accept again."""

    def close(self) -> None:
        """Stop accepting; connections that exist go on. Harmless twice."""


class Network(Protocol):
    """A way to accept and to open connections."""

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> Listener:
        """Accept connections at a port (0: any free one); host "" is every address. Raises OSError if it is in use."""

    async def connect(self, host: str, port: int) -> Endpoint:
        """Connect to a host. Raises OSError when nobody answers."""
