"""TCP on 127.0.0.1 that a test can cut: the brokers of an embedded cluster on real sockets.

The same faults as those of `VirtualNetwork`: each broker is a host with a view of its own, `cut` holds back what comes
from one host to another until it heals, `reset` breaks connections. Whoever connects from outside, in this process or
in another, is the host `OUTSIDE`. Nothing here adds a latency, and none of it costs a connection that no fault concerns
more than one indirection.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from odradek.testing.cuts import Cuts
from odradek.world.files import Buffer
from odradek.world.network import Endpoint
from odradek.world.tcp import DEFAULT_BACKLOG, TcpEndpoint, TcpListener, TcpNetwork, name_address, set_options

ADDRESS = "127.0.0.1"
OUTSIDE = "clients"
CONNECT_TIMEOUT_S = 10.0
"""How long one tries to reach a host behind a cut."""


class PortTaken(OSError):  # noqa: N818 - it says what happened to the port
    """A port that was asked for is in use."""


class HostEndpoint:
    """An end of a connection, as its host has it: its callbacks rest while the host is suspended, and those for
    reading while nothing may arrive."""

    __slots__ = ("_endpoint", "_network", "_readable", "_writable", "host", "other", "own_port", "peer", "receive_into",
                 "send", "send_file", "wake_at")  # fmt: skip

    def __init__(
        self, network: "SocketNetwork", host: str, other: str, endpoint: TcpEndpoint, own_port: int = 0
    ) -> None:
        self.host, self.other, self.peer, self.own_port = host, other, endpoint.peer, own_port
        self.receive_into, self.send, self.send_file = endpoint.receive_into, endpoint.send, endpoint.send_file
        self.wake_at = endpoint.wake_at
        self._network, self._endpoint = network, endpoint
        self._readable: Callable[[], object] | None = None
        self._writable: Callable[[], object] | None = None
        network.endpoints[self] = None

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable = callback
        blocked = self._network.is_suspended(self.host) or self._network.is_cut(self.other, self.host)
        self._endpoint.on_readable(None if blocked else callback)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writable = callback
        self._endpoint.on_writable(None if self._network.is_suspended(self.host) else callback)

    def arrange(self) -> None:
        """Obey what is cut and suspended now."""
        self.on_readable(self._readable)
        self.on_writable(self._writable)

    def reset(self) -> None:
        """Break it; both ends find out."""
        self._endpoint.reset()

    def close(self, *, abandon: bool = False) -> None:
        self._readable = self._writable = None
        self._endpoint.reset()  # a process that the test has forked may have the socket too, and would keep it open
        self._endpoint.close(abandon=abandon)
        self._network.forget(self)

    def end(self) -> None:
        """Close the end of a program that is gone: what it was about to send, nobody hears of."""
        self.close()
        self.send = _unheard


def _unheard(data: Buffer, *, more: bool = False) -> int:
    return len(data)


class HostSockets:
    """The Network of one host."""

    def __init__(self, network: "SocketNetwork", name: str) -> None:
        self._network, self.name = network, name

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> "HostListener":
        return self._network.listen(self.name, host, port, accepted)

    async def connect(self, host: str, port: int) -> HostEndpoint:
        return await self._network.connect(self.name, host, port)


class HostListener:
    """A port of one host; it accepts nobody while the host is suspended."""

    def __init__(self, network: "SocketNetwork", name: str, listener: TcpListener) -> None:
        self.host, self.port = name, listener.port
        self._network, self._listener = network, listener
        self._wanted = True
        network.listeners[self] = None

    def pause(self) -> None:
        self._wanted = False
        self._listener.pause()

    def resume(self) -> None:
        self._wanted = True
        self.arrange()

    def arrange(self) -> None:
        """Obey what is suspended now."""
        if self._wanted and not self._network.is_suspended(self.host):
            self._listener.resume()
        else:
            self._listener.pause()

    def close(self) -> None:
        self._listener.close()
        self._network.listeners.pop(self, None)

    end = close


class SocketNetwork(Cuts):
    """Network of the hosts of one cluster. `close` gives back the ports that it keeps for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.endpoints: dict[HostEndpoint, None] = {}
        self.listeners: dict[HostListener, None] = {}
        self._loop = loop
        self._tcp = TcpNetwork(loop, backlog=DEFAULT_BACKLOG)
        self._kept: list[socket.socket] = []
        self._owners: dict[int, str] = {}
        """Host of each port that is known to be one's: the brokers' own, and those that their connections come from."""
        self._suspended: set[str] = set()

    def host(self, name: str) -> HostSockets:
        """Return the network as that host sees it."""
        return HostSockets(self, name)

    def reserve(self, name: str, port: int = 0) -> tuple[str, int]:
        """Keep a port for a host, a free one unless it is named, also while nobody listens on it. Raises PortTaken."""
        keeping = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # A socket that is bound and does not listen holds the port against the kernel's own choice, and lets those
            # listen on it who set this option too.
            keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            keeping.bind((ADDRESS, port))
        except OSError as error:
            keeping.close()
            raise PortTaken(error.errno, f"port {port} of {ADDRESS} is taken; without `port` free ones are") from error
        self._kept.append(keeping)
        port = keeping.getsockname()[1]
        self._owners[port] = name
        return ADDRESS, port

    def owner(self, address: str) -> str:
        """Return the host that an address `host:port` belongs to."""
        return self._owners.get(int(address.rpartition(":")[2]), OUTSIDE)

    # what a test does to it

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Let nothing arrive from `source` at `target` from now on, nor back unless `one_way`."""
        super().cut(source, target, one_way=one_way)
        self._arrange()

    def is_suspended(self, host: str) -> bool:
        return host in self._suspended

    def reset(self, host: str, other: str | None = None) -> None:
        """Break all connections of a host, or those with one other host."""
        for endpoint in list(self.endpoints):
            if host in (endpoint.host, endpoint.other) and (other is None or other in (endpoint.host, endpoint.other)):
                endpoint.reset()

    def reset_connection(self, host: str, peer: str) -> None:
        """Break the one connection of a host whose other end has this address."""
        for endpoint in list(self.endpoints):
            if endpoint.host == host and endpoint.peer == peer:
                endpoint.reset()

    def suspend_programs(self, host: str) -> None:
        """A host's programs stand still: its kernel goes on taking connections and bytes."""
        self._suspended.add(host)
        self._arrange()

    def resume_programs(self, host: str) -> None:
        """Let a host's programs go on; they find what has come meanwhile. Harmless when they were not suspended."""
        self._suspended.discard(host)
        self._arrange()

    def end_programs(self, host: str, *, silently: bool = False) -> None:
        """A host's programs are gone, and with them its listeners and connections. The kernel of this machine lives on,
        so that the other ends learn of it: `silently` changes nothing."""
        self._suspended.discard(host)
        for part in self._parts():
            if part.host == host:
                part.end()

    def close(self) -> None:
        """Close everything."""
        for part in self._parts():
            part.close()
        for keeping in self._kept:
            keeping.close()

    def _arrange(self) -> None:
        for part in self._parts():
            part.arrange()

    def _parts(self) -> "list[HostListener | HostEndpoint]":
        return [*self.listeners, *self.endpoints]

    # what hosts do

    def listen(self, name: str, host: str, port: int, accepted: Callable[[Endpoint], object]) -> HostListener:
        listener = self._tcp.listen(host, port, lambda endpoint: self._accept(name, endpoint, accepted))
        return HostListener(self, name, listener)

    def _accept(self, name: str, endpoint: Endpoint, accepted: Callable[[Endpoint], object]) -> None:
        assert isinstance(endpoint, TcpEndpoint)
        accepted(HostEndpoint(self, name, self.owner(endpoint.peer), endpoint))

    async def connect(self, name: str, host: str, port: int) -> HostEndpoint:
        other = self._owners.get(port, OUTSIDE)
        await self._until_healed(name, other, f"{host}:{port}")
        connecting = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connected, own = False, 0
        try:
            set_options(connecting)
            connecting.bind((ADDRESS, 0))  # before it connects, so that whoever accepts it knows whose it is
            own = connecting.getsockname()[1]
            self._owners[own] = name
            await self._loop.sock_connect(connecting, (host, port))
            connected = True
        finally:
            if not connected:
                self._owners.pop(own, None)
                connecting.close()
        endpoint = TcpEndpoint(self._loop, connecting, name_address((host, port)))
        return HostEndpoint(self, name, other, endpoint, own)

    async def _until_healed(self, name: str, other: str, address: str) -> None:
        deadline = self._loop.time() + CONNECT_TIMEOUT_S
        while self.is_cut(name, other) or self.is_cut(other, name):
            try:
                await asyncio.wait_for(self._healed.wait(), max(deadline - self._loop.time(), 0.0))
            except TimeoutError as error:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), address) from error

    def forget(self, endpoint: HostEndpoint) -> None:
        """Forget an endpoint, which calls this when it is closed."""
        self.endpoints.pop(endpoint, None)
        self._owners.pop(endpoint.own_port, None)
