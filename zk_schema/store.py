"""ZooKeeper as this program sees it: reads, writes, one-shot watches and one ordered stream of events.

Two things implement `Store`: `kazoo_store.KazooStore` (a real ZooKeeper) and `MemoryStore` in odradek/testing.
Both pass one contract suite, tests/zk_schema/test_store_contract.py.

Order. ZooKeeper promises that one client sees answers and watch events in the order in which the server made them.
The store keeps it for coroutines that await a call directly: whoever awaits an answer runs before the listeners of an
event that came after it, and after those of an event that came before it. Under `asyncio.gather` the awaiting code
runs a few steps later than that.

Session. The events of one store form this pattern:

    Connected(a) (Suspended Connected(a))* Suspended Expired Connected(b) …

`Suspended` comes as soon as the connection is known to be lost; whoever leads something goes on (the session may live),
but every call fails with ConnectionLost until `Connected`. Watches survive `Suspended`: what changed meanwhile is
delivered after `Connected`. `Expired` comes when ZooKeeper says so, or when the store was away for as long as the
session lasts, whichever is first; after it the ephemeral nodes and the watches of that session count as gone, and the
next `Connected` always carries a session id never seen before.
"""

# ruff: noqa: N818 (the errors have ZooKeeper's own names)

import asyncio
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from odradek.world.durations import Durations

ANY_VERSION = -1
"""Expected version that fits every znode."""
WRITE_BYTES_MAX = 1_000_000
"""Most bytes of paths and data in one write. ZooKeeper closes the connection of whoever sends more than its
jute.maxbuffer (1,048,575), and again when the broker tries once more."""


class StoreError(Exception):
    """A refusal of ZooKeeper, or the reason why it could not be asked. `path` is the znode in question."""

    reason = "ZooKeeper error"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NoNode(StoreError):
    """The znode, or the parent of one to be created, does not exist."""

    reason = "no such znode"


class NodeExists(StoreError):
    reason = "znode exists already"


class BadVersion(StoreError):
    """The expected version is not the znode's: somebody else was quicker."""

    reason = "znode has another version"


class NotEmpty(StoreError):
    reason = "znode has children"


class NoChildrenForEphemerals(StoreError):
    reason = "an ephemeral znode cannot have children"


class Unsupported(StoreError):
    """The server does not know such a request."""

    reason = "not supported by the server"


class NotAuthorized(StoreError):
    """ZooKeeper's access list for the znode forbids it."""

    reason = "not authorized"


class TooLarge(StoreError):
    """Refusal of a write that ZooKeeper would not read to its end: it is not sent."""

    reason = f"more than the {WRITE_BYTES_MAX} bytes that ZooKeeper takes at once"


class ZooKeeperLoginRefused(StoreError):
    """ZooKeeper does not believe who we say we are: a wrong user or password."""

    reason = "ZooKeeper refuses the login"


class ZooKeeperWantsALogin(StoreError):
    """ZooKeeper serves only clients that have logged in (its `enforce.auth.enabled`); it has closed the session."""

    reason = "ZooKeeper wants a login (zookeeper.sasl.jaas.config)"


class SessionExpired(StoreError):
    """The session is gone: the call was not carried out, or (if already under way) perhaps was."""

    reason = "the ZooKeeper session has expired"


class ConnectionLost(StoreError):
    """Loss of the connection. A write that was already under way may or may not have been carried out."""

    reason = "no connection to ZooKeeper"


class NoSuchHost(ConnectionLost):
    """Failure of the first connection, because no address is known for the servers' names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("/")
        self.names = tuple(names)

    def __str__(self) -> str:
        return f"no address is known for {', '.join(self.names)}"


class MultiFailed(StoreError):
    """Failure of a multi, of which nothing was done: the operation at `index` failed, and `cause` is its error."""

    def __init__(self, index: int, cause: StoreError) -> None:
        super().__init__(cause.path)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"operation {self.index}: {self.cause}"


class Stat(NamedTuple):
    """Facts that ZooKeeper keeps beside a znode's data."""

    version: int
    """Number of changes of the data: what conditional writes compare."""
    czxid: int
    """Transaction that created it; for a broker's registration it is the broker epoch."""
    mzxid: int
    """Transaction that last changed its data."""
    ephemeral_owner: int
    """Session that it lives with; 0 for a persistent znode."""
    children_version: int
    created_ms: int
    modified_ms: int


class WatchKind(Enum):
    """Ways in which a znode changes. `get` and `exists` see the first three, `children` DELETED and CHILDREN."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchFired(NamedTuple):
    """A watch was used up; the same (kind, path) is told once even when several reads asked for it."""

    kind: WatchKind
    path: str


class Connected(NamedTuple):
    session_id: int


class Suspended(NamedTuple):
    pass


class Expired(NamedTuple):
    pass


StoreEvent = WatchFired | Connected | Suspended | Expired


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the multi unless the znode exists and has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
OperationResult = str | Stat | None
"""The path for a Create, the new Stat for a SetData, None for the others."""


def check_size(*operations: Operation) -> None:
    """Check that ZooKeeper takes so much in one transaction. Raises TooLarge with the path of the largest operation."""
    if sum(map(_size, operations)) > WRITE_BYTES_MAX:
        raise TooLarge(max(operations, key=_size).path)


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path) + len(data)


class Store(Protocol):
    """A client of one ZooKeeper. Paths are absolute and know nothing of a chroot. Loop-thread only.

    Every call may raise ConnectionLost, SessionExpired and NotAuthorized besides what it names, every write TooLarge.
    """

    latency: Durations
    """Times that answers took to come."""

    @property
    def session_id(self) -> int:
        """The session's id; 0 when there is none."""

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that ZooKeeper granted; before the first connection, what was asked for."""

    @property
    def connected(self) -> bool:
        """Tell whether calls can be made: from Connected to the next Suspended or Expired."""

    async def start(self, timeout_ms: float) -> None:
        """Connect, and create the chroot. Raises ConnectionLost if that takes longer, and ZooKeeperLoginRefused."""

    async def close(self) -> None:
        """End the session: its ephemeral znodes go at once. No event follows. Harmless twice."""

    async def until_connected(self, session_id: int | None = None) -> int:
        """Return the session's id, as soon as `connected`. Raises ConnectionLost when the store is closed.

        With a `session_id` only of that session: raises SessionExpired as soon as it is gone.
        """

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        """Return data (b"" for none) and stat. Raises NoNode, and then leaves no watch."""

    async def get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Return data and stat of each, None where there is no such znode; in one request, so not for large ones."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Read the stat, None when the znode does not exist; a watch then waits for its creation."""

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the children's names, in no order. Raises NoNode, and then leaves no watch."""

    async def children_and_stat(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        """Return the children's names and the znode's stat, both of one moment; the rest as `children`."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a znode; return its path, with ten digits appended if `sequential`.

        `parents` makes missing parents, persistent and empty. Raises NodeExists, NoNode (the parent's path) and
        NoChildrenForEphemerals.
        """

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a znode's data if it has that version. Raises NoNode and BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode if it has that version. Raises NoNode, BadVersion and NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Carry out all operations in one transaction, or none: raises MultiFailed."""

    def subscribe(self, listener: Callable[[StoreEvent], None]) -> None:
        """Tell a listener every event from now on. It is called on the loop and must not raise."""


def children_made(stat: Stat, children: int) -> int:
    """Return how many children a znode with so many has ever had: the sequence number of its next one.

    ZooKeeper counts those that it makes, and shows twice that number less those that are there, in 32 bits.
    """
    return (stat.children_version + children & 0xFFFFFFFF) >> 1


async def get_if_any(store: Store, path: str) -> tuple[bytes, Stat] | None:
    """Return a znode's data and stat; None where there is no such znode. Raises as `Store` does."""
    try:
        return await store.get(path)
    except NoNode:
        return None


async def children_if_any(store: Store, path: str) -> list[str]:
    """Return the children's names in their order; none where there is no such znode. Raises as `Store` does."""
    try:
        return sorted(await store.children(path))
    except NoNode:
        return []


NOT_IN_NAMES: Final = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Slashes, control characters, surrogates, private use and specials."""


def is_znode_name(name: str) -> bool:
    """Tell whether ZooKeeper takes a name as one part of a path. Source: ZooKeeper's PathUtils.validatePath."""
    return name not in ("", ".", "..") and NOT_IN_NAMES.search(name) is None


def parent(path: str) -> str:
    """Return the path above: `/a` of `/a/b`; `/` of `/a`."""
    return path.rpartition("/")[0] or "/"


async def create_parents(store: Store, path: str) -> None:
    """Make the missing ancestors of `path`, persistent and empty."""
    above = parent(path)
    if above == "/":
        return
    try:
        await store.create(above)
    except NodeExists:
        return
    except NoNode:
        await create_parents(store, above)
        await create_parents(store, path)


def wake(waiting: "list[asyncio.Future[int]]", outcome: int | type[StoreError]) -> None:
    """Answer, in a store, those who wait in `until_connected`: with the session's id, or why they wait in vain."""
    for future in waiting:
        if future.done():
            continue
        if isinstance(outcome, int):
            future.set_result(outcome)
        else:
            future.set_exception(outcome("/"))
    waiting.clear()
