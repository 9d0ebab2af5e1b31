"""A client of the in-memory ZooKeeper: its session, what is under way, and its one queue of answers and events."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from odradek.world.clock import Clock, Timer
from odradek.world.durations import Durations
from odradek.zk_schema.store import (
    ANY_VERSION,
    Connected,
    ConnectionLost,
    Create,
    Delete,
    Expired,
    MultiFailed,
    NoNode,
    Operation,
    OperationResult,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    StoreEvent,
    Suspended,
    WatchFired,
    create_parents,
    wake,
)

if TYPE_CHECKING:
    from odradek.testing.memory_zookeeper import MemoryZooKeeper

T = TypeVar("T")

LEAST_DISTANCE_MS = 0.001
"""Between two messages of one client, so that they keep their order."""


class Request:
    """A call under way: `ask` carries it out at the server in the session that it was made in."""

    def __init__(self, path: str, session_id: int, ask: Callable[[], object], answer: "asyncio.Future[object]") -> None:
        self.path = path
        self.session_id = session_id
        self.ask = ask
        self.answer = answer

    def fail(self, error: StoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self, value: object) -> None:
        if not self.answer.done():
            self.answer.set_result(value)


Delivery = WatchFired | Callable[[], None]
"""What lies in a client's queue: an event, or an answer ready to be given."""


class MemoryStore:
    """`Store` on a MemoryZooKeeper. Made by `MemoryZooKeeper.connect()`."""

    def __init__(self, server: "MemoryZooKeeper", clock: Clock, session_timeout_ms: int) -> None:
        self._server = server
        self._clock = clock
        self.latency = Durations()
        self._session_timeout_ms = session_timeout_ms
        self._session_id = 0
        self._connected = False
        self._started: asyncio.Future[None] | None = None
        self._closed = False
        self._listeners: list[Callable[[StoreEvent], None]] = []
        self._waiting: list[asyncio.Future[int]] = []
        self._under_way: dict[int, Request] = {}
        self._unsent: list[Request] = []
        self._queue: deque[Delivery] = deque()
        self._condemned: list[int] = []
        self._expiry: Timer | None = None
        self._answers_to_lose = 0
        self._last_arrival_ms = 0.0
        self.link_up = True
        self.suspended = False
        self.silences = 0
        """Times that it was cut off: tells an old silence from a new one."""

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
        wake(self._waiting, None)
        self._cancel_expiry()
        self._server.forget(self)

    async def until_connected(self) -> int:
        if self._connected:
            return self._session_id
        if self._closed:
            raise ConnectionLost("/")
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return await waiting

    # Calls.

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        def ask() -> tuple[bytes, Stat]:
            node = self._server.tree.node(path)
            if watch:
                self._server.watch_data(path, session_id)
            return node.data, node.stat()

        session_id = self._session_id
        return await self._call(path, ask)

    async def get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        if not paths:
            return []
        tree, kept = self._server.tree, list(paths)

        def ask() -> list[tuple[bytes, Stat] | None]:
            return [None if node is None else (node.data, node.stat()) for node in map(tree.get, kept)]

        return await self._call(kept[0], ask)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def ask() -> Stat | None:
            node = self._server.tree.get(path)
            if watch:
                self._server.watch_data(path, session_id)
            return node.stat() if node else None

        session_id = self._session_id
        return await self._call(path, ask)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        def ask() -> list[str]:
            node = self._server.tree.node(path)
            if watch:
                self._server.watch_children(path, session_id)
            return sorted(node.children)

        session_id = self._session_id
        return await self._call(path, ask)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        operation = Create(path, data, ephemeral, sequential)
        try:
            made = await self._one(operation)
        except NoNode:
            if not parents:
                raise
            await create_parents(self, path)
            made = await self._one(operation)
        assert isinstance(made, str), made
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = await self._one(SetData(path, data, version))
        assert isinstance(stat, Stat), stat
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        kept, session_id = list(operations), self._session_id
        return await self._call(kept[0].path, lambda: self._server.commit(kept, session_id))

    async def _one(self, operation: Operation) -> OperationResult:
        def ask() -> OperationResult:
            try:
                return self._server.commit([operation], session_id)[0]
            except MultiFailed as failed:
                raise failed.cause from None

        session_id = self._session_id
        return await self._call(operation.path, ask)

    async def _call(self, path: str, ask: Callable[[], T]) -> T:
        if not self._connected:
            expired = self._started is not None and not self._session_id and not self._closed
            raise SessionExpired(path) if expired else ConnectionLost(path)
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        request = Request(path, self._session_id, ask, answer)
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
        try:
            value = request.ask()
        except StoreError as error:
            refused = error
            self._put(lambda: request.fail(refused), request)
        else:
            self._put(lambda: request.succeed(value), request)

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

    def cut(self, unnoticed_ms: float) -> None:
        """Let nothing pass any more (the link or the server is down); the client notices after `unnoticed_ms`."""
        self.silences += 1
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
        self._expiry = self._clock.call_later(self._session_timeout_ms, self._expire)

    def mend(self) -> None:
        """Messages pass again."""
        if not self.reachable:
            return
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
        if self._closed or self._connected or not self.reachable or self._started is None:
            return
        while self._condemned:
            self._server.end_session(self._condemned.pop())
        if self._session_id and not self._server.has_session(self._session_id):
            self._expire()
        self._cancel_expiry()
        if not self._session_id:
            self._session_id = self._server.begin_session(self)
        self._connected = True
        self._emit(Connected(self._session_id))
        wake(self._waiting, self._session_id)
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

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _fail_all(self, error: type[StoreError]) -> None:
        under_way, self._under_way = list(self._under_way.values()), {}
        self._unsent.clear()
        for request in under_way:
            request.fail(error(request.path))
