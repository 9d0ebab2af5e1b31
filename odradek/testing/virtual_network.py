"""A network in memory, on virtual time, that a test can cut.

Each host has its own view of it: `network.host("broker-0")` is what that host's programs are given as their Network.
Bytes arrive in order, after a latency drawn from a seeded source. A cut holds bytes back, as TCP does, and lets them
through when it heals; it may be one-way. `reset` breaks connections, as a host that dies or a firewall does.
"""

import asyncio
import errno
import itertools
import os
import random
from collections import Counter, deque
from collections.abc import Callable

from odradek.testing.cuts import Cuts
from odradek.testing.virtual_pipe import PIPE_BYTES, Pipe
from odradek.testing.virtual_process import OutsideClock, in_own_context
from odradek.world.clock import Clock
from odradek.world.files import Buffer, File
from odradek.world.network import Endpoint

CONNECT_TIMEOUT_MS = 10_000.0
"""How long one tries to reach a host behind a cut."""
FIRST_EPHEMERAL_PORT = 40_000
DEFAULT_PORT = 9092


class VirtualEndpoint:
    """An end of a connection. Callbacks come level-triggered, as those of a real loop."""

    def __init__(self, network: "VirtualNetwork", peer: str, incoming: Pipe, outgoing: Pipe) -> None:
        self.peer = peer
        self.host = incoming.target
        self._network = network
        self._incoming, self._outgoing = incoming, outgoing
        self._readable: Callable[[], object] | None = None
        self._writable: Callable[[], object] | None = None
        self._scheduled = False
        self._wake_at = 1
        self._error: OSError | None = None
        self.partner: VirtualEndpoint | None = None
        """The other end; set when the connection is made."""
        self.closed = False
        incoming.changed = self._on_arrival

    def receive_into(self, buffer: memoryview, /) -> int:
        self._check()
        arrived = self._incoming.arrived
        if not arrived:
            if self._incoming.ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        size = min(len(buffer), len(arrived))
        buffer[:size] = arrived[:size]
        del arrived[:size]
        was_full = self._incoming.room_bytes == 0
        self._incoming.unreceived_bytes -= size
        if was_full and self.partner is not None:
            self.partner.wake()
        return size

    def send(self, data: Buffer, *, more: bool = False) -> int:
        self._check()
        size = min(len(data), self._outgoing.room_bytes)
        if not size:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._outgoing.put(bytes(data[:size]))
        return size

    def send_file(self, file: File, position: int, length: int) -> int:
        room = self._outgoing.room_bytes
        data = file.pread(min(length, room), position) if room else b""
        if room and not data:
            raise OSError(errno.ENODATA, f"no byte at {position}, {length} were promised", file.path)
        return self.send(data)

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable = None if callback is None else in_own_context(callback)
        self.wake()

    def wake_at(self, count: int) -> None:
        """Wait for so many bytes, as far as they fit into half of what may be on its way: as Linux has it."""
        least = min(count, PIPE_BYTES // 2)
        if least != self._wake_at:
            self._wake_at = least
            self.wake()

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writable = None if callback is None else in_own_context(callback)
        self.wake()

    def end(self) -> None:
        """Send nothing any more, as `shutdown(SHUT_WR)`; what comes is still received."""
        self._outgoing.put(b"")

    def close(self, *, silently: bool = False, abandon: bool = False) -> None:
        """Close; nothing is taken back: what travels arrives, as late as the network of a test likes.

        `silently`: the other end is not told.
        """
        if self.closed:
            return
        self.closed = True
        self._readable = self._writable = None
        if self._error is None and not silently:
            self._outgoing.put(b"")
        self._network.forget(self, self._incoming)

    def _on_arrival(self) -> None:
        """Bytes for an end that is closed are answered with a reset, as TCP does."""
        if self.closed and self._incoming.arrived and self.partner is not None:
            self._incoming.arrived.clear()
            self.partner.reset()
        self.wake()

    def reset(self) -> None:
        """Break it: both callbacks are called, and whatever is tried fails."""
        self._error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._incoming.arrived.clear()
        self.wake()

    def wake(self) -> None:
        """Call what can go on now, in a turn of its own, and again as long as it can."""
        if self._scheduled or self.closed or self._network.is_suspended(self.host):
            return
        if self._can_receive() or self._can_send():
            self._scheduled = True
            self._network.clock.call_soon(self._call_back)

    def _can_receive(self) -> bool:
        enough = len(self._incoming.arrived) >= self._wake_at
        ready = self._error is not None or enough or self._incoming.ended
        return self._readable is not None and ready

    def _can_send(self) -> bool:
        return self._writable is not None and (self._error is not None or self._outgoing.room_bytes > 0)

    def _call_back(self) -> None:
        self._scheduled = False
        if self._network.is_suspended(self.host):
            return
        try:
            if self._readable is not None and self._can_receive():
                self._readable()
            if self._writable is not None and self._can_send():
                self._writable()
        finally:
            self.wake()

    def _check(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, "closed here")
        if self._error is not None:
            raise self._error


class VirtualListener:
    """A port of one host."""

    def __init__(
        self, network: "VirtualNetwork", address: tuple[str, int], accepted: Callable[[Endpoint], object]
    ) -> None:
        self.port = address[1]
        self._network = network
        self._address = address
        self._accepted = in_own_context(accepted)
        self._backlog: deque[VirtualEndpoint] = deque()
        self._paused = False

    def arrive(self, endpoint: VirtualEndpoint) -> None:
        """Take a connection that somebody has made."""
        self._backlog.append(endpoint)
        self.accept()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:  # who is resumed while it accepts goes on by itself
            self._paused = False
            self.accept()

    def accept(self) -> None:
        while self._backlog and not self._paused and not self._network.is_suspended(self._address[0]):
            self._accepted(self._backlog.popleft())

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)
        while self._backlog:
            self._backlog.popleft().close()


class HostNetwork:
    """The Network of one host."""

    def __init__(self, network: "VirtualNetwork", name: str) -> None:
        self._network = network
        self.name = name

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> VirtualListener:
        return self._network.listen(self.name, port, accepted)

    async def connect(self, host: str, port: int) -> VirtualEndpoint:
        target = self.name if host in ("localhost", "127.0.0.1") else host
        return await self._network.connect(self.name, target, port)


class VirtualNetwork(Cuts):
    """Network of hosts in memory. `latency_ms`: least and most, one way; the seed decides."""

    def __init__(self, clock: Clock, seed: int = 0, latency_ms: tuple[float, float] = (0.1, 1.0)) -> None:
        super().__init__()
        self.clock: Clock = OutsideClock(clock)
        self.random = random.Random(seed)
        self.latency_ms = latency_ms
        self.latency_ms_from: dict[str, tuple[float, float]] = {}
        """Latency of what comes from these hosts, where it is not `latency_ms`."""
        self.listeners: dict[tuple[str, int], VirtualListener] = {}
        self._endpoints: dict[VirtualEndpoint, tuple[str, str]] = {}
        self._pipes: dict[Pipe, None] = {}
        """Every direction of a connection whose receiving end is open."""
        self._suspended: set[str] = set()
        self._ports = itertools.count(FIRST_EPHEMERAL_PORT)
        self.tap: Callable[[Pipe], Callable[[bytes], object] | None] = lambda way: None
        """Choice, for each new connection, of who is shown what is sent that way by the one who has made it."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """How often one host has sent another something."""

    def host(self, name: str) -> HostNetwork:
        """Return the network as that host sees it."""
        return HostNetwork(self, name)

    def draw_latency_ms(self, source: str) -> float:
        least, most = self.latency_ms_from.get(source, self.latency_ms)
        return least + (most - least) * self.random.random()

    # what a test does to it

    def _arrange(self) -> None:
        for pipe in self._pipes:
            pipe.arrange()

    def reset(self, host: str, other: str | None = None) -> None:
        """Break all connections of a host, or those with one other host, at both ends."""
        for endpoint, ends in list(self._endpoints.items()):
            if host in ends and (other is None or other in ends):
                endpoint.reset()

    def is_suspended(self, host: str) -> bool:
        return host in self._suspended

    def suspend_programs(self, host: str) -> None:
        """A host's programs stand still: its kernel goes on taking connections and bytes, as many as it has room for,
        and nobody receives them."""
        self._suspended.add(host)

    def resume_programs(self, host: str) -> None:
        """Let a host's programs go on; they find what has come meanwhile. Harmless when they were not suspended."""
        self._suspended.discard(host)
        for endpoint in list(self._endpoints):
            if endpoint.host == host:
                endpoint.wake()
        for address, listener in list(self.listeners.items()):
            if address[0] == host:
                listener.accept()

    def end_programs(self, host: str, *, silently: bool = False) -> None:
        """A host's programs are gone, and with them its ports and connections; `silently`: its kernel too, so that
        the other ends find out only when they send something, or lose patience."""
        self._suspended.discard(host)
        for address, listener in list(self.listeners.items()):
            if address[0] == host:
                listener.close()
        for endpoint in list(self._endpoints):
            if endpoint.host == host:
                endpoint.close(silently=silently)

    def reset_connection(self, host: str, peer: str) -> None:
        """Break the one connection of a host whose other end has this address."""
        for endpoint in list(self._endpoints):
            if endpoint.host == host and endpoint.peer == peer:
                endpoint.reset()
                if endpoint.partner is not None:
                    endpoint.partner.reset()

    def reserve(self, name: str, port: int = 0) -> tuple[str, int]:
        """Return the name and the port on which a host's program listens."""
        return name, port or DEFAULT_PORT

    def owner(self, address: str) -> str:
        """Return the host that an address `host:port` belongs to."""
        return address.rpartition(":")[0]

    # what hosts do

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> VirtualListener:
        address = (host, port or next(self._ports))
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = self.listeners[address] = VirtualListener(self, address, accepted)
        return listener

    async def connect(self, source: str, target: str, port: int) -> VirtualEndpoint:
        deadline_ms = self.clock.monotonic_ms() + CONNECT_TIMEOUT_MS
        await self._pass(self.draw_latency_ms(source))
        while self.is_cut(source, target) or self.is_cut(target, source):
            await self._wait_for_healing(deadline_ms - self.clock.monotonic_ms(), f"{target}:{port}")
        listener = self.listeners.get((target, port))
        if listener is None:
            await self._pass(self.draw_latency_ms(source))
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), f"{target}:{port}")
        there, back = Pipe(self, source, target), Pipe(self, target, source)
        there.back, back.back = back, there
        there.tap = self.tap(there)
        near = VirtualEndpoint(self, f"{target}:{port}", back, there)
        far = VirtualEndpoint(self, f"{source}:{next(self._ports)}", there, back)
        self._endpoints[near] = self._endpoints[far] = (source, target)
        self._pipes[there] = self._pipes[back] = None
        near.partner, far.partner = far, near
        listener.arrive(far)
        await self._pass(self.draw_latency_ms(source))
        return near

    def forget(self, endpoint: VirtualEndpoint, incoming: Pipe) -> None:
        """Forget an endpoint, which calls this when it is closed."""
        del self._endpoints[endpoint]
        del self._pipes[incoming]

    async def _pass(self, delay_ms: float) -> None:
        passed = asyncio.Event()
        self.clock.call_later(delay_ms, passed.set)
        await passed.wait()

    async def _wait_for_healing(self, left_ms: float, address: str) -> None:
        try:
            await asyncio.wait_for(self._healed.wait(), max(left_ms, 0.0) / 1000.0)
        except TimeoutError as error:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), address) from error
