"""`KazooSession`: one ZooKeeper session after another over kazoo. Where kazoo falls short, and what is done about it:

- It runs answers and watches in two threads: handler.LoopHandler has one queue into the loop.
- It forgets all watches when the connection breaks: they are kept here too, and set again with SetWatches before the
  loop learns of the new connection.
- It tells of an expired session only after a reconnect, which may be never. The handler notes when the server was last
  heard; when that is as long ago as the session lasts, the session counts as gone (`Expired`), whatever kazoo thinks.
  ZooKeeper counts from the last thing that it heard of us, which is earlier than what we heard of it by about one
  round trip; so for that long, and no longer, another process may hold what this one still believes to hold.
- After such a verdict the session may turn out to live (ZooKeeper itself was away, say, and gives all sessions a new
  timeout when it is back). It is closed then, which deletes its ephemeral znodes, and a new one is made: nobody has
  to know two kinds of ending, and `Connected` after `Expired` always has a new session id.
- It gives up for good when a login is refused. Here that ends the session, and the next attempt comes when ZooKeeper
  has forgotten it, untouched. Only the answer to a first request tells that a login was taken.
- The chroot is put before each path in store.py, not by kazoo, and made here when it is missing.
"""

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KeeperState, WatchedEvent

from odradek.world.background import NO_FURTHER_THREAD
from odradek.world.clock import Clock, Timer
from odradek.world.durations import Durations
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.kazoo_store.client import SessionTimeout, acl_of, new_client
from odradek.zk_schema.kazoo_store.handler import LoopHandler, LoopQueue
from odradek.zk_schema.kazoo_store.values import (
    KINDS,
    Watched,
    split_connect,
    start_error,
    store_error,
)
from odradek.zk_schema.link import OPEN, Link
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    SessionExpired,
    StoreError,
    StoreEvent,
    Suspended,
    WatchFired,
    ZooKeeperLoginRefused,
    wake,
)

DEFAULT_SESSION_TIMEOUT_MS = 18_000
SILENCE_CHECKS_PER_SESSION = 20
REQUESTS_AT_ONCE = 10
"""Most requests under way, Kafka's default of zookeeper.max.in.flight.requests."""

log = logging.getLogger("odradek.zookeeper")


class KazooSession:
    """The session of a `KazooStore`, renewed for ever until `close()`, and the way of its calls to ZooKeeper.

    `connect` is as in `zookeeper.connect`: `host:port,host:port/chroot`; the chroot is made when it is missing,
    unless not `make_chroot`. `requests_at_once` may be on their way to ZooKeeper; others wait for their turn. `link`:
    TLS, a login, and access lists of znodes that are made.
    """

    def __init__(
        self,
        connect: str,
        clock: Clock,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        make_chroot: bool = True,
        requests_at_once: int = REQUESTS_AT_ONCE,
        link: Link = OPEN,
    ) -> None:
        self._link = link
        self._hosts, self._chroot = split_connect(connect)
        self._clock = clock
        self._timeout = SessionTimeout(session_timeout_ms)
        self._in_flight = asyncio.Semaphore(requests_at_once)
        self.latency = Durations()
        self._session_id = 0
        self._condemned = 0
        self._condemned_ms = math.inf
        """Time at which a session was condemned; infinite once it has been logged why none follows."""
        self._password = b""
        """Password of the session that was announced last."""
        self._connected = False
        self._chroot_exists = not self._chroot or not make_chroot
        self._closing = False
        self._listeners: list[Callable[[StoreEvent], None]] = []
        self._waiting: list[asyncio.Future[int]] = []
        self._waiting_in_session: list[asyncio.Future[int]] = []
        self._watched = Watched()
        self._seen_zxid = 0
        """Latest transaction known when the connection was lost: kazoo may know later ones by answers of the next."""
        self._last_event: WatchedEvent | None = None
        self._tasks = Tasks(clock, log.critical)
        self._renewal: asyncio.Task[None] | None = None
        self._renewals_wanted = 0
        self._silence_check: Timer | None = None
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._started: asyncio.Future[None]
        self._handler: LoopHandler

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return int(self._timeout.ms)

    @property
    def connected(self) -> bool:
        return self._connected

    def subscribe(self, listener: Callable[[StoreEvent], None]) -> None:
        self._listeners.append(listener)

    async def start(self, timeout_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.create_future()
        self._client = self._new_client()
        self._client.start_async()
        timer = self._clock.call_later(timeout_ms, self._give_up_starting)
        try:
            await self._started
        except StoreError as error:
            await self.close()
            raise await asyncio.to_thread(start_error, error, self._hosts) from None
        except BaseException:  # nobody waits for it any more
            await self.close()
            raise
        finally:
            timer.cancel()
        self._check_silence()

    def _new_client(self) -> Any:
        queue, timeout, servers = LoopQueue(self._loop), self._timeout, self._hosts.count(",") + 1
        self._handler = LoopHandler(queue, lambda: timeout.for_a_connection(servers), self._link.tls)
        return new_client(
            self._hosts,
            timeout,
            self._handler,
            lambda state, session_id: queue.put(partial(self._on_state, state, session_id)),
            self._link,
        )

    def _give_up_starting(self) -> None:
        if not self._started.done():
            self._started.set_exception(ConnectionLost("/"))

    async def close(self) -> None:
        if self._closing or self._client is None:
            return
        self._closing = True
        self._connected = False
        wake(self._waiting, ConnectionLost)
        wake(self._waiting_in_session, ConnectionLost)
        if self._silence_check is not None:
            self._silence_check.cancel()
        try:
            if self._renewal is not None:
                await self._renewal
        finally:
            try:
                ended = asyncio.get_running_loop().run_in_executor(None, self._end_client)
            except RuntimeError as error:
                if NO_FURTHER_THREAD not in str(error):
                    raise
                self._end_client()  # nothing else is left to do on the loop: else ZooKeeper waits for the session
            else:
                await asyncio.wait([ended])  # does not cancel it before its start when this is cancelled
                ended.result()
        self._session_id = 0

    def _end_client(self) -> None:
        self._client.stop()
        self._client.close()

    async def until_connected(self, session_id: int | None = None) -> int:
        if self._closing:
            raise ConnectionLost("/")
        if session_id not in (None, self._session_id):
            raise SessionExpired("/")
        if self._connected:
            return self._session_id
        waiting: asyncio.Future[int] = self._loop.create_future()
        (self._waiting if session_id is None else self._waiting_in_session).append(waiting)
        return await waiting

    async def _ask(self, path: str, ask: Callable[[], Any], noted: Callable[[Any], object] | None = None) -> Any:
        """Return kazoo's answer; `noted` sees it in its place among the events, before the caller does."""
        async with self._in_flight:
            if not self._connected:
                raise SessionExpired(path) if self._condemned and not self._session_id else ConnectionLost(path)
            future: asyncio.Future[Any] = self._loop.create_future()
            asked_s = self._clock.perf_counter()
            ask().rawlink(partial(self._answered, path, future, noted))
            try:
                return await future
            finally:
                self.latency.add(self._clock.perf_counter() - asked_s)

    def _answered(
        self, path: str, future: "asyncio.Future[Any]", noted: Callable[[Any], object] | None, result: Any
    ) -> None:
        if result.exception is None:
            if noted is not None:
                noted(result.value)
            if not future.done():
                future.set_result(result.value)
            return
        error = store_error(result.exception, path)
        if isinstance(error, ConnectionLost):
            self._lose_connection()
            if isinstance(result.exception, ConnectionClosedError) and self._client.connected:
                self._break()
        if not future.done():
            future.set_exception(error)

    def _break(self) -> None:
        """Break a live connection whose thread kazoo could not wake for a request: the thread would be one request
        behind from now on. It finds the connection broken and makes another, of which we hear."""
        connection = self._client._connection._socket
        if connection is not None:  # kazoo's thread has not begun anew by itself
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    # Events. Everything below runs on the loop, in the order of the queue.

    def _emit(self, event: StoreEvent) -> None:
        # One turn later, so that coroutines which got an earlier answer in this turn run first.
        self._loop.call_soon(self._tell, event)

    def _tell(self, event: StoreEvent) -> None:
        if not self._closing:
            for listener in self._listeners:
                listener(event)

    def _on_watch(self, event: WatchedEvent) -> None:
        # Whoever watched both data and children is told of a deletion twice, with the very same object.
        if event is self._last_event or event.type not in KINDS or not self._session_id:
            return
        self._last_event = event
        kind = KINDS[event.type]
        self._watched.fired(kind, event.path)
        self._emit(WatchFired(kind, event.path[len(self._chroot) :] or "/"))

    def _on_state(self, state: str, session_id: int | None) -> None:
        if self._closing:
            return
        if state == KeeperState.CONNECTED:
            self._on_connected(session_id or 0)
            return
        self._lose_connection()
        if state != KeeperState.CONNECTING:
            self._expire()
        if state == KeeperState.AUTH_FAILED:
            self._login_refused()

    def _login_refused(self) -> None:
        log.error("ZooKeeper at %s refuses the login of %s", self._hosts, self._link.user)
        if self._started.done():
            self._clock.call_later(self._timeout.ms, self._renew)
        else:
            self._started.set_exception(ZooKeeperLoginRefused("/"))

    def _on_connected(self, session_id: int) -> None:
        if self._session_id and self._silent_too_long():
            self._expire()
        if session_id == self._condemned:
            self._renew()
        elif not self._chroot_exists:
            self._make_chroot(session_id)
        elif self._link.user:
            self._client.exists_async("/").rawlink(partial(self._on_first_answer, session_id))
        else:
            self._announce(session_id)

    def _announce(self, session_id: int) -> None:
        if session_id != self._session_id:
            self._handler.begin_listening()
        self._session_id, self._password = session_id, self._client._session_passwd
        self._connected = True
        self._set_watches_again()
        log.info("connected to ZooKeeper at %s, session 0x%x", self._hosts, session_id)
        self._emit(Connected(session_id))
        wake(self._waiting, session_id)
        wake(self._waiting_in_session, session_id)
        if not self._started.done():
            self._started.set_result(None)

    def _make_chroot(self, session_id: int) -> None:
        """Create all parts of the chroot at once; that one exists already is as good."""
        names = self._chroot.strip("/").split("/")
        paths = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
        answers = [self._client.create_async(path, acl=acl_of(self._link, path)) for path in paths]
        answers[-1].rawlink(partial(self._on_first_answer, session_id))

    def _on_first_answer(self, session_id: int, result: Any) -> None:
        error = result.exception and store_error(result.exception, self._chroot)
        if isinstance(error, ConnectionLost | SessionExpired):
            return
        self._chroot_exists = True
        if not self._connected and self._client.connected and session_id != self._condemned:
            self._announce(session_id)

    def _set_watches_again(self) -> None:
        """Set all watches again, before any new call: an event of the time away must come before what is read now."""
        client = self._client
        for path in self._watched.data_paths():
            client._data_watchers[path].add(self._on_watch)
        for path in self._watched.children_paths():
            client._child_watchers[path].add(self._on_watch)
        for request in self._watched.requests(self._seen_zxid):
            client._call(request, client.handler.async_result())

    def _lose_connection(self) -> None:
        if self._connected:
            self._connected, self._seen_zxid = False, self._client.last_zxid
            log.warning("ZooKeeper at %s is unreachable", self._hosts)
            self._emit(Suspended())

    def _expire(self) -> None:
        if self._session_id:
            log.warning("the ZooKeeper session 0x%x has expired", self._session_id)
            self._condemned, self._session_id = self._session_id, 0
            self._condemned_ms = self._clock.monotonic_ms()
            self._watched.clear()
            self._emit(Expired())
            wake(self._waiting_in_session, SessionExpired)

    def _check_silence(self) -> None:
        """Expire the session by our own clock when the server has been silent for too long."""
        self._silence_check = self._clock.call_later(self._timeout.ms / SILENCE_CHECKS_PER_SESSION, self._check_silence)
        if self._session_id and self._silent_too_long():
            self._lose_connection()
            self._expire()
            if self._client.connected:
                self._renew()
        if not self._session_id and self._clock.monotonic_ms() - self._condemned_ms > 2 * self._timeout.ms:
            self._tell_of_refusal()

    def _tell_of_refusal(self) -> None:
        """Say once for each session that ended why none follows, if ZooKeeper is there: it gives no reason itself."""
        if self._handler.hears(self._timeout.ms):
            self._condemned_ms = math.inf
            log.error(
                "ZooKeeper at %s closes every connection: it has no quorum; or its data is older than what was seen "
                "here, as after it was lost or restored, and then this process must be restarted",
                self._hosts,
            )

    def _silent_too_long(self) -> bool:
        return self._handler.silence_ms() > self._timeout.ms

    def _renew(self) -> None:
        """Close kazoo's session, if it can be, and begin another; again after a pause if kazoo cannot do it now.

        kazoo raises WriterNotClosedException when its thread is still busy with a server that does not answer.
        """
        self._renewals_wanted += 1
        if self._renewal is None or self._renewal.done():
            self._renewal = self._tasks.spawn("zookeeper-renewal", self._begin_again, OnDeath.RESTART)

    async def _begin_again(self) -> None:
        while self._renewals_wanted and not self._closing:
            wanted = self._renewals_wanted
            await asyncio.to_thread(self._restart_client)
            self._renewals_wanted -= wanted

    def _restart_client(self) -> None:
        """Stop kazoo and let it ask for the condemned session once more.

        ZooKeeper may not have read the request to close it: only its answer that there is no such session proves that
        the ephemeral znodes are gone. kazoo makes a new session then; an old one that is alive is closed again.
        """
        self._client.stop()
        self._client._session_id, self._client._session_passwd = self._condemned, self._password
        self._client.start_async()
