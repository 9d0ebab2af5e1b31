"""A ZooKeeper in this process, for tests, the simulator and the embedded test cluster.

`MemoryZooKeeper` is the server, `connect()` gives clients. A request travels one turn of the loop, is carried out at
once as a whole, and its answer travels back in one queue per client together with the watch events: ZooKeeper's order.
It may be an ensemble, whose servers (memory_ensemble) show what is committed sooner or later.
Faults are asked for by the test: `partition`, `heal`, `expire_session`, `lose_next_answer`, `stop`, `restart`,
`suspend`, `resume`, `draw_latency_ms`; of an ensemble `lead_anew`, and each member's `lag` and `catch_up`.
Everything happens on the clock's loop; nothing here looks at real time.
"""

from collections.abc import Callable, Sequence

from odradek.testing.memory_ensemble import Member
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_tree import Change, Tree
from odradek.world.clock import Clock
from odradek.zk_schema.store import Delete, Operation, OperationResult, WatchFired

DEFAULT_SESSION_TIMEOUT_MS = 6000


class MemoryZooKeeper:
    """The server side: tree, sessions, watches. `members`: servers, of which the first never lags."""

    def __init__(self, clock: Clock, *, session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS, members: int = 1) -> None:
        self.clock = clock
        self.tree = Tree()
        """Tree as the leader of the ensemble has it."""
        self.members = [Member(self.tree, clock, self._tell) for _ in range(members)]
        self.choose_member: Callable[[Sequence[Member]], Member] = lambda fit: fit[0]
        """Called when a client connects, with the servers that it may go to."""
        self.serving = True
        self.draw_latency_ms: Callable[[], float] = lambda: 0.0
        """How long a request or an answer travels; one client's arrive in the order in which they were sent."""
        self.committed: Callable[[Sequence[Change]], object] = lambda changes: None
        """Called after each transaction with what it has changed."""
        self._session_timeout_ms = session_timeout_ms
        self._last_session_id = 0
        self._sessions: dict[int, MemoryStore] = {}
        self._clients: list[MemoryStore] = []

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
        client.stand_still()
        self._expire_unless_heard(client)

    def resume(self, client: MemoryStore) -> None:
        """Let a suspended client go on: with its session, or it finds its connection closed.

        It learns of the end behind the answers and events of before.
        """
        client.go_on()

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

    def lead_anew(self, carried_out: Callable[[int], int]) -> None:
        """The leader of the ensemble dies: every client is cut off until `restart`, when another one leads. Of the
        requests that a client has on the way, `carried_out(count)` are carried out, though nobody hears of it."""
        for client in list(self._clients):
            client.carry_out_unheard(carried_out)
        for member in self.members:
            member.catch_up()
        self.stop()

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
        for member in self.members:
            member.watches.take(session_id)
        self.commit([Delete(path) for path in self.tree.ephemerals(session_id)], session_id)

    def forget(self, client: MemoryStore) -> None:
        """The client is gone for good; its session, if it has one, goes on."""
        if client in self._clients:
            self._clients.remove(client)

    def commit(self, operations: Sequence[Operation], session_id: int) -> list[OperationResult]:
        """Carry out one transaction; fire the watches that it uses up. Raises MultiFailed."""
        now_ms = self.clock.now_ms()
        results, changes = self.tree.commit(operations, session_id, now_ms)
        for member in self.members:
            member.follow(operations, session_id, now_ms, changes)
        self.committed(changes)
        return results

    def seat(self, client: MemoryStore) -> Member:
        """Choose the server that a client connects to: none that shows less than its session has seen."""
        seen = client.member.tree.last_zxid if client.session_id else 0
        member = self.choose_member([one for one in self.members if one.tree.last_zxid >= seen])
        if member is not client.member and client.session_id:
            member.take_over(client.session_id, client.member)
        return member

    def _tell(self, session_id: int, event: WatchFired) -> None:
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
