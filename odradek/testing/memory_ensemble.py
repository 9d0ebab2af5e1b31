"""Servers of an in-memory ZooKeeper's ensemble, each of which shows its clients the tree as far as it has come.

What ZooKeeper 3.9 promises, and no more than that: transactions come to every server in one order; a client is answered
its own write, and whatever it asks behind that, when its server has come so far; it is told of a change by its watch
before it can read it; and it never goes to a server that shows less than it has seen already.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.testing.memory_tree import Change, Tree
from odradek.world.clock import Clock
from odradek.zk_schema.store import Operation, WatchFired, WatchKind, parent

Tell = Callable[[int, WatchFired], object]


class Watches:
    """Watches of sessions on znodes and on their children."""

    def __init__(self) -> None:
        self.data: dict[str, set[int]] = defaultdict(set)
        self.children: dict[str, set[int]] = defaultdict(set)

    def fire(self, change: Change, tell: Tell) -> None:
        """Use up the watches that a change fires: `tell(session_id, event)` for each."""
        watching = self.data.pop(change.path, set())
        if change.kind is WatchKind.DELETED:
            watching |= self.children.pop(change.path, set())
        for session_id in sorted(watching):
            tell(session_id, WatchFired(change.kind, change.path))
        if change.kind is not WatchKind.CHANGED:
            above = parent(change.path)
            for session_id in sorted(self.children.pop(above, ())):
                tell(session_id, WatchFired(WatchKind.CHILDREN, above))

    def take(self, session_id: int) -> "Watches":
        """Take out those of one session."""
        taken = Watches()
        for watches, into in ((self.data, taken.data), (self.children, taken.children)):
            for path in [path for path, watching in watches.items() if session_id in watching]:
                watches[path].discard(session_id)
                into[path].add(session_id)
        return taken

    def add(self, others: "Watches") -> None:
        """Add those of a session that comes from another server."""
        for watches, more in ((self.data, others.data), (self.children, others.children)):
            for path, watching in more.items():
                watches[path] |= watching


class Step(NamedTuple):
    """Something that a server which lags is still to do: take up a transaction, or answer."""

    act: Callable[[], object]
    zxid: int = 0
    changes: Sequence[Change] = ()


class Member:
    """A server. As long as it keeps up, its tree is the leader's own."""

    def __init__(self, leaders: Tree, clock: Clock, tell: Tell) -> None:
        self._leaders, self._clock, self._tell = leaders, clock, tell
        self.tree = leaders
        self.watches = Watches()
        self._behind: deque[Step] = deque()
        self._lag_ms = 0.0
        self._lags = 0
        """Times that it has lagged, or caught up."""

    @property
    def keeps_up(self) -> bool:
        return self.tree is self._leaders

    def lag(self, lag_ms: float) -> None:
        """Take up each transaction so long after it was committed, from now on, until `catch_up`."""
        assert self.keeps_up, "it lags already"
        self.tree, self._lag_ms = self._leaders.copy(), lag_ms
        self._lags += 1

    def catch_up(self) -> None:
        """Take up at once all that is behind, and keep up again. Harmless when it does."""
        self._lags += 1
        while self._behind:
            self._behind.popleft().act()
        self.tree = self._leaders

    def follow(self, operations: Sequence[Operation], session_id: int, now_ms: int, changes: Sequence[Change]) -> None:
        """Show a transaction that the leader has committed."""
        if self.keeps_up:
            self._fire(changes)
        else:
            self._later(Step(lambda: self._take_up(operations, session_id, now_ms), self._leaders.last_zxid, changes))

    def _take_up(self, operations: Sequence[Operation], session_id: int, now_ms: int) -> None:
        self._fire(self.tree.commit(operations, session_id, now_ms)[1])

    def _fire(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.watches.fire(change, self._tell)

    def when_shown(self, act: Callable[[], object]) -> None:
        """Call `act` when it shows all that is committed by now: at once if it keeps up."""
        if self.keeps_up:
            act()
        else:
            self._later(Step(act))

    def _later(self, step: Step) -> None:
        lags = self._lags

        def due() -> None:
            if lags == self._lags:
                self._behind.popleft().act()

        self._behind.append(step)
        self._clock.call_later(self._lag_ms, due)

    def take_over(self, session_id: int, former: "Member") -> None:
        """Take over a session's watches; it is told at once of what has changed before this server's time."""
        watches = former.watches.take(session_id)
        for step in former._behind:
            if step.zxid <= self.tree.last_zxid:
                for change in step.changes:
                    watches.fire(change, self._tell)
        self.watches.add(watches)
