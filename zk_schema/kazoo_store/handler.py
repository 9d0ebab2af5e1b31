"""Handing over from kazoo's threads to the asyncio loop: one queue, so that ZooKeeper's order is kept.

kazoo's own handlers run answers and watch callbacks in two threads, and what a server sent in one order is then seen
in another. Here both go through one queue, filled by kazoo's connection thread and emptied by the loop.
"""

import asyncio
import logging
import math
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import int_struct, long_struct, write_string

log = logging.getLogger("odradek.zookeeper")

DRAIN_MAX = 500
"""Pieces of work done in one turn of the loop."""


class LoopQueue:
    """Work put in by any thread, done in order on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._scheduled = False
        self._draining_thread: int | None = None

    def put(self, work: Callable[[], object]) -> None:
        """Do work on the loop. What is put in by work that is being done there counts as part of it, and is done at
        once: kazoo makes some answers out of others, and they must not lose their place."""
        if threading.get_ident() == self._draining_thread:
            work()
            return
        self._waiting.append(work)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        self._draining_thread = threading.get_ident()
        try:
            for _ in range(min(len(self._waiting), DRAIN_MAX)):
                self._waiting.popleft()()
        finally:
            self._draining_thread = None
            if self._waiting and not self._scheduled:
                self._schedule()


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Handler of kazoo's without its two worker threads. Also notes when the server was last heard.

    `connect_seconds`: how long a server may take to accept a TCP connection; `tls`: encrypts it, unless None.
    """

    name = "odradek_loop_handler"

    def __init__(
        self, queue: LoopQueue, connect_seconds: Callable[[], float], tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__()
        self._tls = tls
        self._tls_trouble = ""
        self._connect_seconds = connect_seconds
        self.callback_queue = self.completion_queue = queue
        self._wake_up_sockets: set[socket.socket] = set()
        self._last_sign = self._last_heard = time.monotonic()
        self._longest_silence = 0.0

    @property
    def running(self) -> bool:
        """True, always: what happens as the client ends is still told on the loop."""
        return True

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        pair: tuple[socket.socket, socket.socket] = super().create_socket_pair()
        self._wake_up_sockets = set(pair)
        return pair

    def create_connection(self, *args: Any, timeout: float, hostname: str = "", **kwargs: Any) -> socket.socket:
        """Connect to a ZooKeeper server, through TLS if that is set; `timeout` is in seconds.

        Called in kazoo's connection thread. Raises OSError, TimeoutError among them.
        """
        connection: socket.socket = super().create_connection(
            *args, timeout=min(timeout, self._connect_seconds()), **kwargs
        )
        if self._tls is None:
            return connection
        try:  # kazoo's own TLS reads files in PEM alone
            return self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError as error:
            connection.close()
            reason = str(getattr(error, "verify_message", error))
            if isinstance(error, (ssl.SSLEOFError, ConnectionResetError)):
                reason = "it hangs up: zookeeper.connect has to name its port for TLS (secureClientPort)"
            if reason != self._tls_trouble:  # it is tried for ever
                log.error("no TLS with ZooKeeper at %s: %s", hostname, reason)
            self._tls_trouble = reason
            raise

    def select(
        self,
        readable: Sequence[socket.socket],
        writable: Sequence[socket.socket],
        _: Sequence[socket.socket],
        timeout: float | None = None,
    ) -> tuple[list[socket.socket], list[socket.socket], list[socket.socket]]:
        """Wait up to `timeout` seconds for kazoo's sockets, in its connection thread.

        Called several times for each request, so it must be quick: kazoo's own makes and closes an epoll descriptor
        each time.
        """
        pending: list[socket.socket] = [one for one in readable if isinstance(one, ssl.SSLSocket) and one.pending()]
        if pending:  # decrypted already: the socket itself tells nothing of it
            return pending, [], []
        poll = select.poll()
        for one in readable:
            poll.register(one, select.POLLIN)
        for one in writable:
            poll.register(one, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poll.poll(None if timeout is None else math.ceil(timeout * 1000))}
        heard = [one for one in readable if one.fileno() in ready]
        if any(one not in self._wake_up_sockets for one in heard):
            self._last_sign = time.monotonic()
        return heard, [one for one in writable if one.fileno() in ready], []

    def note_word(self) -> None:
        """Note that something from the server has been read; called in kazoo's connection thread.

        A server that takes a connection and closes it has said nothing: one without a quorum does so for hours, while
        those with a quorum end the session.
        """
        now = time.monotonic()
        self._longest_silence = max(self._longest_silence, now - self._last_heard)
        self._last_heard = now

    def silence_ms(self) -> float:
        """Return the longest time without a word from the server since `begin_listening`, the present one included.

        An earlier silence counts, too: a process that was stopped for a minute may hear the server again before it
        looks here. While connected kazoo asks the server for a word every third of the session.
        """
        return max(self._longest_silence, time.monotonic() - self._last_heard) * 1000.0

    def hears(self, within_ms: float) -> bool:
        """Tell whether the server was there lately; that it closed a connection counts."""
        return (time.monotonic() - self._last_sign) * 1000.0 < within_ms

    def begin_listening(self) -> None:
        """Measure silence from now on, as a new session begins."""
        self._longest_silence = 0.0
        self._last_heard = time.monotonic()


@dataclass(frozen=True, slots=True)
class SetWatches:
    """ZooKeeper's request (type 101) to go on with the watches of a broken connection, which kazoo does not have.

    The server fires at once those whose znodes changed after the transaction `relative_zxid`.
    """

    relative_zxid: int
    data: list[str]
    """Watched and known to exist."""
    exist: list[str]
    """Watched and known not to exist."""
    children: list[str]

    type: ClassVar[int] = 101

    def serialize(self) -> bytearray:
        data = bytearray(long_struct.pack(self.relative_zxid))
        for paths in (self.data, self.exist, self.children):
            data += int_struct.pack(len(paths))
            for path in paths:
                data += write_string(path)
        return data

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> None:
        """Read nothing: the answer is empty."""
