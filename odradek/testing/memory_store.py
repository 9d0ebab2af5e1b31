"""A client of the in-memory ZooKeeper: its session, what is under way, and its one queue of answers and events."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from odradek.testing.memory_calls import MemoryCalls, Request
from odradek.world.clock import Clock, Timer
from odradek.world.durations import Durations
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Expired,
    SessionExpired,
    StoreError,
    StoreEvent,
    Suspended,
    WatchFired,
    wake,
)

if TYPE_CHECKING:
    from odradek.testing.memory_ensemble import Member
    from odradek.testing.memory_zookeeper import MemoryZooKeeper

T = TypeVar("T")

LEAST_DISTANCE_MS = 0.001
"""Between two messages of one client, so that they keep their order."""


Delivery = WatchFired | Callable[[], None]
"""What lies in a client's queue: an event, or an answer ready to be given."""


class MemoryStore(MemoryCalls):
    """`Store` on a MemoryZooKeeper. Made by `MemoryZooKeeper.connect()`."""

    def __init__(self, server: "MemoryZooKeeper", clock: Clock, session_timeout_ms: int) -> None:
        self._server = server
        self.member = server.members[0]
        """The server of the ensemble that it is connected to, or was last."""
        self._clock = clock
        self.latency = Durations()
        self._session_timeout_ms = session_timeout_ms
        self._session_id = 0
        self._connected = False
        self._started: asyncio.Future[None] | None = None
        self._closed = False
        self._listeners: list[Callable[[StoreEvent], None]] = []
        self._waiting: list[asyncio.Future[int]] = []
        self._waiting_in_session: list[asyncio.Future[int]] = []
        self._under_way: dict[int, Request] = {}
        self._unsent: list[Request] = []
        self._queue: deque[Delivery] = deque()
        self._condemned: list[int] = []
        self._expiry: Timer | None = None
        self._answers_to_lose = 0
        self._held: set[int] = set()
        """Requests that have arrived, and are answered when `member` has come so far."""
        self._attempts = 0
        self._last_arrival_ms = 0.0
        self.link_up = True
        self.suspended = False
        self.silences = 0
        """Times that it was cut off: tells an old silence from a new one."""
        self._silent_since_ms: float | None = None
        """Time at which the server was last heard of, while nothing passes: from then on the session's time counts."""

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._session_timeout_ms

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def reachable(self) -> bool:
        """Tell whether messages pass between it and the server."""
        return self.link_up and self._server.serving

    @property
    def silent(self) -> bool:
        """Tell whether the server hears nothing of it."""
        return self.suspended or not self.link_up

    def subscribe(self, listener: Callable[[StoreEvent], None]) -> None:
        # In the subscriber's own context, whoever caused the event: brokers in one process are told apart by theirs.
        context = copy_context()
        self._listeners.append(lambda event: context.run(listener, event))

    def lose_next_answer(self) -> None:
        """The next call is carried out, but the connection breaks before its answer arrives, and comes back at once."""
        self._answers_to_lose += 1

    def move(self) -> None:
        """Have it lose its connection and come back at once, to whichever server of the ensemble will have it."""
        self._lose_connection()
        self._clock.call_soon(self._reconnect)

    async def start(self, timeout_ms: float) -> None:
        started = self._started = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_ms, self._give_up_starting)
        self._clock.call_soon(self._reconnect)
        try:
            await started
        finally:
            timer.cancel()

    def _give_up_starting(self) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_exception(ConnectionLost("/"))

    async def close(self) -> None:
        if self._closed:
            return
        self.vanish()
        if self._session_id and self.reachable:
            self._server.end_session(self._session_id)
        self.leave_sessions()

    def leave_sessions(self) -> None:
        """Let whatever session the client had end after its timeout; harmless for one that has ended."""
        for session_id in (self._session_id, *self._condemned):
            self._server.let_expire(session_id, self._session_timeout_ms)
        self._condemned.clear()
        self._session_id = 0

    def vanish(self) -> None:
        """Have no event, answer or reconnection from now on, as when the client's process dies."""
        self._closed = True
        self._connected = False
        self._queue.clear()
        self._fail_all(ConnectionLost)
        wake(self._waiting, ConnectionLost)
        wake(self._waiting_in_session, ConnectionLost)
        self._cancel_expiry()
        self._server.forget(self)

    async def until_connected(self, session_id: int | None = None) -> int:
        if self._closed:
            raise ConnectionLost("/")
        if session_id not in (None, self._session_id):
            raise SessionExpired("/")
        if self._connected:
            return self._session_id
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        (self._waiting if session_id is None else self._waiting_in_session).append(waiting)
        return await waiting

    # Calls.

    async def _call(self, path: str, ask: Callable[[], T], *, writes: bool = False) -> T:
        if not self._connected:
            expired = self._started is not None and not self._session_id and not self._closed
            raise SessionExpired(path) if expired else ConnectionLost(path)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        request = Request(path, self._session_id, ask, answer, writes)
        self._under_way[id(request)] = request
        asked_s = self._clock.perf_counter()
        self._travel(lambda: self._arrive(request))
        try:
            return await answer  # type: ignore[return-value]
        finally:
            self.latency.add(self._clock.perf_counter() - asked_s)

    # Requests on their way there, answers and events on their way back.

    def _travel(self, arrive: Callable[[], None]) -> None:
        latency_ms = self._server.draw_latency_ms()
        if not latency_ms:
            self._clock.call_soon(arrive)
            return
        now_ms = self._clock.monotonic_ms()
        self._last_arrival_ms = max(now_ms + latency_ms, self._last_arrival_ms + LEAST_DISTANCE_MS)
        self._clock.call_later(self._last_arrival_ms - now_ms, arrive)

    def _arrive(self, request: Request) -> None:
        if id(request) not in self._under_way:
            return
        if not self.reachable:
            self._unsent.append(request)
            return
        if not self._server.has_session(request.session_id):
            self.learn_of_expiry()
            return
        request.arrived = True
        if request.writes:
            give = request.carry_out()
            self._when_shown(lambda: self._put(give, request), request)
        elif self._held:
            self._when_shown(lambda: self._put(request.carry_out(), request), request)
        else:
            self._put(request.carry_out(), request)

    def _when_shown(self, act: Callable[[], None], request: Request) -> None:
        """Act when the server shows what is committed by now, unless the connection breaks before."""

        def shown() -> None:
            self._held.discard(id(request))
            if id(request) in self._under_way and self._server.has_session(request.session_id):
                act()

        self._held.add(id(request))
        self.member.when_shown(shown)

    def carry_out_unheard(self, draw: Callable[[int], int]) -> None:
        """Carry out the first `draw(count)` of the requests that are on their way to the server; none is answered."""
        coming = [one for one in self._under_way.values() if not one.arrived]
        for request in coming[: draw(len(coming))]:
            if request.writes and self._server.has_session(request.session_id):
                request.carry_out()

    def _put(self, give: Callable[[], None], request: Request) -> None:
        def arrive() -> None:
            self._under_way.pop(id(request), None)
            give()

        if self._answers_to_lose:
            self._answers_to_lose -= 1
            self._lose_connection()
            self._clock.call_soon(self._reconnect)
            return
        self._queue.append(arrive)
        self._travel(self._deliver)

    def receive_event(self, event: WatchFired) -> None:
        """The server tells it of a watch that was used up."""
        if self._closed:
            return
        self._queue.append(event)
        self._travel(self._deliver)

    def _deliver(self) -> None:
        if not self._queue or not self._connected or not self.reachable:
            return
        delivery = self._queue.popleft()
        if isinstance(delivery, WatchFired):
            self._emit(delivery)
        else:
            delivery()

    def _emit(self, event: StoreEvent) -> None:
        # One turn later, so that coroutines which got an earlier answer in this turn run first.
        self._clock.call_soon(lambda: self._tell(event))

    def _tell(self, event: StoreEvent) -> None:
        if not self._closed:
            for listener in self._listeners:
                listener(event)

    # The connection.

    def stand_still(self) -> None:
        """Suspend its process: from now on the server is not heard."""
        self.suspended = True
        self._fall_silent()

    def go_on(self) -> None:
        """Let its process go on. While the server is away the time that it stood still counts as silence."""
        self.suspended = False
        if self.reachable:
            self._silent_since_ms = None
            self.look_at_connection()

    def _fall_silent(self) -> None:
        self.silences += 1
        if self._silent_since_ms is None:
            self._silent_since_ms = self._clock.monotonic_ms()

    def cut(self, unnoticed_ms: float) -> None:
        """Let nothing pass any more (the link or the server is down); the client notices after `unnoticed_ms`."""
        self._fall_silent()
        silence = self.silences
        if unnoticed_ms:
            self._clock.call_later(unnoticed_ms, lambda: self._notice(silence))
        else:
            self._lose_connection()

    def _notice(self, silence: int) -> None:
        if silence == self.silences and not self.reachable:
            self._lose_connection()

    def _lose_connection(self) -> None:
        if not self._connected:
            return
        self._connected = False
        self._queue = deque(item for item in self._queue if isinstance(item, WatchFired))
        self._emit(Suspended())
        self._fail_all(ConnectionLost)
        now_ms = self._clock.monotonic_ms()
        silent_ms = 0.0 if self._silent_since_ms is None else now_ms - self._silent_since_ms
        self._expiry = self._clock.call_later(max(self._session_timeout_ms - silent_ms, 0.0), self._expire)

    def mend(self) -> None:
        """Messages pass again."""
        if not self.reachable:
            return
        if not self.suspended:
            self._silent_since_ms = None
        if not self._connected:
            self._clock.call_soon(self._reconnect)
            return
        self.look_at_connection()
        unsent, self._unsent = self._unsent, []
        for request in unsent:
            self._arrive(request)
        for _ in range(len(self._queue)):
            self._clock.call_soon(self._deliver)

    def learn_of_expiry(self) -> None:
        """The server ended its session while it could be reached: the connection breaks, and the next try tells why."""
        if self.reachable and not self._closed:
            self._lose_connection()
            self._clock.call_soon(self._reconnect)

    def look_at_connection(self) -> None:
        """The two have not heard of each other: when the session has ended meanwhile, the server has closed it."""
        if self._session_id and not self._server.has_session(self._session_id):
            self._clock.call_soon(self.learn_of_expiry)

    def _reconnect(self) -> None:
        if not self._may_connect:
            return
        while self._condemned:
            self._server.end_session(self._condemned.pop())
        if self._session_id and not self._server.has_session(self._session_id):
            self._expire()
        self._attempts += 1
        attempt, member = self._attempts, self._server.seat(self)
        if self._session_id:
            self._connect(member)
        else:  # its beginning is a transaction, which the server has to come to
            member.when_shown(lambda: self._connect(member) if attempt == self._attempts else None)

    @property
    def _may_connect(self) -> bool:
        return not (self._closed or self._connected or self._started is None) and self.reachable

    def _connect(self, member: "Member") -> None:
        if not self._may_connect:
            return
        assert self._started is not None
        self.member = member
        self._cancel_expiry()
        if not self._session_id:
            self._session_id = self._server.begin_session(self)
        self._connected = True
        self._emit(Connected(self._session_id))
        wake(self._waiting, self._session_id)
        wake(self._waiting_in_session, self._session_id)
        if not self._started.done():
            self._started.set_result(None)
        for _ in range(len(self._queue)):
            self._clock.call_soon(self._deliver)

    def _expire(self) -> None:
        """The session counts as gone: ZooKeeper said so, or it was away for as long as the session lasts."""
        self._cancel_expiry()
        if self._session_id:
            self._condemned.append(self._session_id)
            self._session_id = 0
            self._queue.clear()
            self._emit(Expired())
            wake(self._waiting_in_session, SessionExpired)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _fail_all(self, error: type[StoreError]) -> None:
        under_way, self._under_way = list(self._under_way.values()), {}
        self._unsent.clear()
        self._held.clear()
        for request in under_way:
            request.fail(error(request.path))
