"""A way from a port of this machine to another, which can be cut: what goes in then comes out nowhere.

So a broker of `up --console` is cut off from ZooKeeper: no connection breaks, nothing is refused, nothing arrives, as
when a cable is pulled. What was swallowed is lost, so connections of that time end when the way is whole again.
"""

import asyncio
from typing import cast

from odradek.world.tasks import OnDeath, Tasks


class Relay:
    """Listens on a free port of 127.0.0.1."""

    def __init__(self, target: tuple[str, int], tasks: Tasks) -> None:
        self.target, self.tasks = target, tasks
        self.is_cut = False
        self.ends: set[End] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> int:
        """Begin to listen; return the port. Raises OSError."""
        self._server = await asyncio.get_running_loop().create_server(lambda: End(self), "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Let nothing through."""
        self.is_cut = True

    def mend(self) -> None:
        """Let everything through again. Harmless when it is whole."""
        if self.is_cut:
            self.is_cut = False
            self._end_all()

    def close(self) -> None:
        """Listen no more, and end all connections. Harmless twice."""
        if self._server is not None:
            self._server.close()
        self._end_all()

    def _end_all(self) -> None:
        for end in tuple(self.ends):
            end.transport.abort()


class End(asyncio.Protocol):
    """End of a connection through the relay: towards whoever came, or towards the target."""

    def __init__(self, relay: Relay, other: "End | None" = None) -> None:
        self._relay, self._other = relay, other
        self.transport: asyncio.Transport
        self._early = bytearray()
        """Bytes that came before the target was reached."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reach out for the target, when somebody has come."""
        self.transport = cast(asyncio.Transport, transport)
        self._relay.ends.add(self)
        if self._other is None:
            self._relay.tasks.spawn("relay", self._reach, OnDeath.REPORT)

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self._other = await loop.create_connection(lambda: End(self._relay, self), *self._relay.target)
        except OSError:
            self.transport.abort()
            return
        if self.transport.is_closing():
            self._other.transport.abort()
        self._other.transport.write(bytes(self._early))

    def data_received(self, data: bytes) -> None:
        """Pass it on, or swallow it."""
        if self._relay.is_cut:
            return
        if self._other is None:
            self._early += data
        else:
            self._other.transport.write(data)

    def pause_writing(self) -> None:
        """Take no more from the other end than goes out here."""
        if self._other is not None:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Take again."""
        if self._other is not None and not self._other.transport.is_closing():
            self._other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """End the other end with this one."""
        self._relay.ends.discard(self)
        if self._other is not None and not self._relay.is_cut:
            self._other.transport.close()
