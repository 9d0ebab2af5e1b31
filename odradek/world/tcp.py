"""The real network: raw non-blocking sockets watched by one asyncio loop (uvloop in a broker).

Sockets and not asyncio's transports, because uvloop has no sendfile and because reading into one reused buffer, and
sending once for all the answers of a wake-up, is what makes the hot path.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from odradek.world.files import Buffer, File
from odradek.world.network import Endpoint

logger = logging.getLogger(__name__)

AT_ONCE = Struct("ii").pack(1, 0)
"""Value of SO_LINGER: close with a reset, and leave nothing for the system to send."""
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
BROKEN_BEFORE = frozenset({
    errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.ETIMEDOUT,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    getattr(errno, "ENONET", errno.EHOSTUNREACH),
})  # fmt: skip
"""Errors of accept(2) that tell of the one connection only: it broke in the backlog, or a firewall forbids it. Only
Linux has ENONET."""
ACCEPT_RETRY_SECONDS = 1.0
"""Pause before the backlog is looked at again when the process has no descriptor left."""
NEXT_ADDRESS_AFTER_S = 3.0
"""Time after which the next address of a name has its turn: enough for a second SYN, if the first was lost. A client
waits for ten seconds in all (socket.connection.setup.timeout.ms)."""
READ_INSTEAD_OF_SENDFILE_BYTES = 1 << 18
"""Limit of what is read at once from a file that has no descriptor."""
Found = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
"""Result of `getaddrinfo`."""
DEFAULT_BACKLOG = 50
"""Kafka's `socket.listen.backlog.size`."""
CAN_WAKE_AT = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 9)
"""True where SO_RCVLOWAT is safe: an older Linux may wait for more bytes than it has memory for, and so for ever."""


class TcpEndpoint:
    """A connected socket."""

    __slots__ = ("_descriptor", "_loop", "_readable", "_reading", "_sent", "_socket", "_tells_once", "_wake_at",
                 "_writing", "peer", "receive_into")  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, peer: str) -> None:
        self.peer = peer
        self.receive_into: Callable[[memoryview], int] = connected.recv_into
        self._loop = loop
        self._socket = connected
        self._descriptor = connected.fileno()
        self._reading = self._writing = False
        self._readable: Callable[[], object] = _nothing
        self._tells_once = type(loop).__module__.startswith("uvloop")
        """The loop tells of a reset once, whatever is still to be read then (libuv's uv_poll)."""
        self._sent = False
        self._wake_at = 1

    def send(self, data: Buffer, *, more: bool = False) -> int:
        self._sent = True
        return self._socket.send(data, socket.MSG_MORE if more else 0)

    def send_file(self, file: File, position: int, length: int) -> int:
        self._sent = True
        try:
            source = file.fileno()
        except OSError:  # a simulated file
            data = file.pread(min(length, READ_INSTEAD_OF_SENDFILE_BYTES), position)
            sent = self._socket.send(data) if data else 0
        else:
            try:
                sent = os.sendfile(self._descriptor, source, position, length)
            except OSError as error:
                if error.errno == errno.EIO:  # of the file, and no connection's
                    error.filename = file.path
                raise
        if not sent:
            raise OSError(errno.ENODATA, f"no byte at {position}, {length} were promised", file.path)
        return sent

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        if callback is not None:
            assert self._descriptor >= 0, "closed"
            self._readable = callback
            self._loop.add_reader(self._descriptor, self._arrived if self._tells_once else callback)
        elif self._reading:
            self._readable = _nothing
            self._loop.remove_reader(self._descriptor)
        self._reading = callback is not None

    def _arrived(self) -> None:
        """Let the owner receive. If the connection is reset and the owner has not noticed, call it until it does.

        It notices when it sends. An owner that has only received what came before would never be called again.
        """
        self._sent = False
        self._readable()
        if not self._sent and self._reading and self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._loop.remove_reader(self._descriptor)
            self._loop.add_reader(self._descriptor, self._arrived)

    def wake_at(self, count: int) -> None:
        if count != self._wake_at and CAN_WAKE_AT:
            self._wake_at = count
            with contextlib.suppress(OSError):  # it is closed: the next read says so
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        if callback is not None:
            assert self._descriptor >= 0, "closed"
            self._loop.add_writer(self._descriptor, callback)
        elif self._writing:
            self._loop.remove_writer(self._descriptor)
        self._writing = callback is not None

    def reset(self) -> None:
        """Break the connection: both ends find it closed. Harmless when it is broken already."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, *, abandon: bool = False) -> None:
        self.on_readable(None)
        self.on_writable(None)
        self._descriptor = -1
        if abandon:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        with contextlib.suppress(OSError):  # whatever the system says, it is closed
            self._socket.close()


def _nothing() -> None:
    pass


class TcpListener:
    """A listening socket; accepts all who wait at each wake-up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        accepted: Callable[[Endpoint], object],
        send_buffer_bytes: int,
    ) -> None:
        self.port: int = listening.getsockname()[1]
        self._loop = loop
        self._socket = listening
        self._accepted = accepted
        self._send_buffer_bytes = send_buffer_bytes
        self._wanted = True
        """True unless the owner has paused it."""
        self._accepting = False
        self._watch(True)

    def resume(self) -> None:
        self._wanted = True
        self._watch(True)

    def pause(self) -> None:
        self._wanted = False
        self._watch(False)

    def close(self) -> None:
        self.pause()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked process may have it too, and would go on listening
        self._socket.close()

    def _watch(self, accepting: bool) -> None:
        if accepting == self._accepting or self._socket.fileno() < 0:
            return
        self._accepting = accepting
        if accepting:
            self._loop.add_reader(self._socket.fileno(), self._on_readable)
        else:
            self._loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        while self._accepting:
            try:
                connected, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in BROKEN_BEFORE:
                    logger.info("a connection on port %d broke before it was accepted: %s", self.port, error)
                    return
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                logger.error("cannot accept connections on port %d: %s", self.port, error)
                self._watch(False)
                self._loop.call_later(ACCEPT_RETRY_SECONDS, lambda: self._watch(self._wanted))
                return
            set_options(connected, send_buffer_bytes=self._send_buffer_bytes)
            self._accepted(TcpEndpoint(self._loop, connected, name_address(address)))


class TcpNetwork:
    """TCP. Buffer sizes are bytes, -1 leaves the operating system's (Kafka's `socket.send.buffer.bytes`, …)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        backlog: int = DEFAULT_BACKLOG,
    ) -> None:
        self._loop = loop
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._backlog = backlog

    def listen(self, host: str, port: int, accepted: Callable[[Endpoint], object]) -> TcpListener:
        family, address = wildcard_or(host, port)
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if (
                self._receive_buffer_bytes > 0
            ):  # before listen: accepted sockets inherit the window that follows from it
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            listening.bind(address)
            listening.listen(self._backlog)
        except OSError:
            listening.close()
            raise
        return TcpListener(self._loop, listening, accepted, self._send_buffer_bytes)

    async def address_of(self, host: str) -> str:
        """Return the address that `listen` binds for a host. Raises OSError."""
        if not host:
            return ""
        address = (await self._resolve(host, 0))[0][4]
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]

    async def connect(self, host: str, port: int) -> TcpEndpoint:
        found = await self._resolve(host, port)
        failure = OSError(errno.EHOSTUNREACH, "no address", host)
        for number, (family, _, _, _, address) in enumerate(found, 1):
            try:
                async with asyncio.timeout(NEXT_ADDRESS_AFTER_S if number < len(found) else None):
                    return await self._connect(family, address)
            except OSError as error:  # a TimeoutError, too
                failure = error
        raise failure

    async def _resolve(self, host: str, port: int) -> Found:
        """Return addresses of a host. Raises OSError.

        A name is looked up in one of asyncio's threads; these end with the main thread, and a client may outlive it.
        """
        try:
            with contextlib.suppress(socket.gaierror):
                return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            try:
                return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except RuntimeError:
                return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise OSError(errno.EINVAL, f"not a host name: {error}", host) from error

    async def _connect(self, family: int, address: tuple[object, ...]) -> TcpEndpoint:
        connecting = socket.socket(family, socket.SOCK_STREAM)
        connected = False
        try:
            connecting.setblocking(False)
            set_options(connecting, self._send_buffer_bytes, self._receive_buffer_bytes)
            await self._loop.sock_connect(connecting, address)
            connected = True
        finally:  # also when the caller gave up waiting
            if not connected:
                connecting.close()
        return TcpEndpoint(self._loop, connecting, name_address(address))


def set_options(connected: socket.socket, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
    """Set what every connection has: never blocks, no Nagle, keep-alive, the buffer sizes asked for."""
    connected.setblocking(False)
    with contextlib.suppress(OSError):  # the peer may be gone already; then the first read says so
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if send_buffer_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def name_address(address: tuple[object, ...]) -> str:
    """Return `host:port`; an IPv4 address that came in through an IPv6 socket is shown as what it is."""
    return f"{str(address[0]).removeprefix('::ffff:')}:{address[1]}"


def wildcard_or(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    """Return family and address to bind: one socket for IPv6 and IPv4 when the host is empty, as Kafka does.

    Raises OSError.
    """
    if not host:
        return (socket.AF_INET6, ("::", port)) if socket.has_dualstack_ipv6() else (socket.AF_INET, ("0.0.0.0", port))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"not a host name: {error}", host) from error
    family, _, _, _, address = found[0]
    return family, address
