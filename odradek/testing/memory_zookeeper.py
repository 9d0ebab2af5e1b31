"""A ZooKeeper in this process, for tests, the simulator and the embedded test cluster.

`MemoryZooKeeper` is the server, `connect()` gives clients. A request travels one turn of the loop, is carried out at
once as a whole, and its answer travels back in one queue per client together with the watch events: ZooKeeper's order.
Faults are asked for by the test: `partition`, `heal`, `expire_session`, `lose_next_answer`, `stop`, `restart`,
`suspend`, `resume`, `draw_latency_ms`.
Everything happens on the clock's loop; nothing here looks at real time.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_tree import Change, Tree
from odradek.world.clock import Clock
from odradek.zk_schema.store import Delete, Operation, OperationResult, WatchFired, WatchKind, parent

DEFAULT_SESSION_TIMEOUT_MS = 6000


class MemoryZooKeeper:
    """The server side: tree, sessions, watches."""

    def __init__(self, clock: Clock, *, session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> None:
        self.clock = clock
        self.tree = Tree()
        self.serving = True
        self.draw_latency_ms: Callable[[], float] = lambda: 0.0
        """How long a request or an answer travels; one client's arrive in the order in which they were sent."""
        self.committed: Callable[[Sequence[Change]], object] = lambda changes: None
        """Called after each transaction with what it has changed."""
        self._session_timeout_ms = session_timeout_ms
        self._last_session_id = 0
        self._sessions: dict[int, MemoryStore] = {}
        self._clients: list[MemoryStore] = []
        self._data_watches: dict[str, set[int]] = defaultdict(set)
        self._child_watches: dict[str, set[int]] = defaultdict(set)

    def connect(self, *, session_timeout_ms: int | None = None, clock: Clock | None = None) -> MemoryStore:
        """Make a client, without a session before its `start()`. `clock`: its own; the server's unless one is given."""
        client = MemoryStore(self, clock or self.clock, session_timeout_ms or self._session_timeout_ms)
        self._clients.append(client)
        return client

    # What a test does to it.

    def expire_session(self, session_id: int) -> None:
        """End a session as if its client had been silent for too long; a reachable client learns of it at once."""
        client = self._sessions[session_id]
        self.end_session(session_id)
        client.learn_of_expiry()

    def partition(self, client: MemoryStore, *, unnoticed_ms: float = 0) -> None:
        """Cut a client off. It notices `unnoticed_ms` later; until then its calls get no answer.

        The server ends its session when it has been silent for the session timeout.
        """
        client.link_up = False
        client.cut(unnoticed_ms)
        self._expire_unless_heard(client)

    def heal(self, client: MemoryStore) -> None:
        """Let a client through again: it comes back to its session, or is told that it has none any more."""
        client.link_up = True
        client.mend()

    def suspend(self, client: MemoryStore) -> None:
        """The client's process stands still (the clock of the client as well, which is the caller's affair): the server
        hears nothing of it and ends its session after the session timeout."""
        client.suspended = True
        client.silences += 1
        self._expire_unless_heard(client)

    def resume(self, client: MemoryStore) -> None:
        """Let a suspended client go on: with its session, or it finds its connection closed.

        It learns of the end behind the answers and events of before.
        """
        client.suspended = False
        client.look_at_connection()

    def crash(self, client: MemoryStore) -> None:
        """The client's process dies: it does nothing any more, and its session ends after the session timeout."""
        client.link_up = False
        client.vanish()
        client.leave_sessions()

    def let_expire(self, session_id: int, timeout_ms: float) -> None:
        """End a session that nobody holds after its timeout, which begins anew when the server is away."""

        def expire() -> None:
            if self.serving:
                self.end_session(session_id)
            else:
                self.let_expire(session_id, timeout_ms)

        self.clock.call_later(timeout_ms, expire)

    def stop(self, *, unnoticed_ms: float = 0) -> None:
        """The server goes away: every client is cut off, and no session ends while it is away. It may stand still
        instead, so that its clients get no answer and notice `unnoticed_ms` later."""
        self.serving = False
        for client in list(self._clients):
            client.cut(unnoticed_ms)

    def restart(self) -> None:
        """Bring the server back with all its data.

        Sessions have their whole timeout again, as after a restart of a real one.
        """
        self.serving = True
        for client in list(self._clients):
            client.mend()
            if client.silent:
                self._expire_unless_heard(client)

    def _expire_unless_heard(self, client: MemoryStore) -> None:
        def expire() -> None:
            if self.serving and client.silent and client.silences == silence:
                self.end_session(session_id)

        session_id, silence = client.session_id, client.silences
        self.clock.call_later(client.session_timeout_ms, expire)

    # What its clients ask of it.

    def begin_session(self, client: MemoryStore) -> int:
        self._last_session_id += 1
        self._sessions[self._last_session_id] = client
        return self._last_session_id

    def has_session(self, session_id: int) -> bool:
        return session_id in self._sessions

    def end_session(self, session_id: int) -> None:
        """Forget its watches and delete its ephemeral znodes. Harmless when it has ended already."""
        if self._sessions.pop(session_id, None) is None:
            return
        for watches in (self._data_watches, self._child_watches):
            for watching in watches.values():
                watching.discard(session_id)
        self.commit([Delete(path) for path in self.tree.ephemerals(session_id)], session_id)

    def forget(self, client: MemoryStore) -> None:
        """The client is gone for good; its session, if it has one, goes on."""
        if client in self._clients:
            self._clients.remove(client)

    def commit(self, operations: Sequence[Operation], session_id: int) -> list[OperationResult]:
        """Carry out one transaction; fire the watches that it uses up. Raises MultiFailed."""
        results, changes = self.tree.commit(operations, session_id, self.clock.now_ms())
        for change in changes:
            self._fire(change)
        self.committed(changes)
        return results

    def watch_data(self, path: str, session_id: int) -> None:
        self._data_watches[path].add(session_id)

    def watch_children(self, path: str, session_id: int) -> None:
        self._child_watches[path].add(session_id)

    def _fire(self, change: Change) -> None:
        watching = self._data_watches.pop(change.path, set())
        if change.kind is WatchKind.DELETED:
            watching |= self._child_watches.pop(change.path, set())
        self._tell(watching, WatchFired(change.kind, change.path))
        if change.kind is not WatchKind.CHANGED:
            above = parent(change.path)
            self._tell(self._child_watches.pop(above, set()), WatchFired(WatchKind.CHILDREN, above))

    def _tell(self, session_ids: set[int], event: WatchFired) -> None:
        for session_id in sorted(session_ids):
            self._sessions[session_id].receive_event(event)

    # For tests that look at it from outside.

    def paths(self, below: str = "/") -> list[str]:
        """List every path at or below one, sorted."""
        found, to_visit = [], [below]
        while to_visit:
            path = to_visit.pop()
            found.append(path)
            to_visit += [f"{path.rstrip('/')}/{name}" for name in self.tree.node(path).children]
        return sorted(found)

    def data(self, path: str) -> bytes:
        """Return the data of a znode. Raises NoNode."""
        return self.tree.node(path).data
