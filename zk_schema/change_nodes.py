"""Sequential znodes by which whoever has changed something in ZooKeeper tells every broker what to read again.

Source: ZkNodeChangeNotificationListener of Kafka 3.9.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.lost_answers import create_if_missing, in_any_session
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Create,
    MultiFailed,
    NoNode,
    Operation,
    SessionExpired,
    Store,
    StoreEvent,
    WatchFired,
    children_made,
    create_parents,
)
from odradek.zk_schema.znodes.notifications import CHANGE_EXPIRATION_MS, has_sequence_number, sequence_number

log = logging.getLogger(__name__)

READ_AT_ONCE: Final = 500
"""Znodes that are asked for together."""

Name = TypeVar("Name")
Result = TypeVar("Result")


class Told(NamedTuple):
    """A change node: its path, and what its writer has put into it."""

    path: str
    data: bytes


class ChangesMissed(Exception):  # noqa: N818 - what happened
    """Raised when changes were deleted before this process has read them: nobody knows what they named."""


class ChangeNodes:
    """Change nodes below one path, which is created when it is missing. Loop-thread only.

    ZooKeeper numbers them by how many znodes it has created below the path, and tells that count, in the path's stat,
    together with the names. So it is noticed when somebody has deleted some as too old (Kafka's brokers do so by their
    own clocks), and a number that was made up by hand is not taken for one of ZooKeeper's.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.path = path
        self._store = store
        self._born = 0
        """Id of the transaction that created the path."""
        self._seen = 0
        """Count of znodes created below the path that count as read: the number of the next one."""

    async def begin(self) -> None:
        """Begin to watch, passing over the znodes that are there; to be called before everything is read."""
        await self._watch()

    async def news(self) -> list[Told]:
        """Watch on, and read the change nodes that have come since, in their order; old ones are deleted.

        Raises ChangesMissed when some cannot be read any more; then the others count as seen, too.
        """
        born, seen = self._born, self._seen
        names = await self._watch()
        new = [f"{self.path}/{name}" for name in names if sequence_number(name) >= seen]
        if self._born != born or self._seen - seen != len(new):
            raise ChangesMissed(f"{self.path}: {seen} were seen, {self._seen} were made, {len(new)} of them are there")
        try:
            told = [Told(path, (await self._store.get(path))[0]) for path in new]
        except NoNode as error:
            raise ChangesMissed(f"{self.path}: one was deleted before it could be read") from error
        await self._delete_old(names)
        return told

    async def _watch(self) -> list[str]:
        """Watch the path; return the names there, by their numbers. All that were created until now count as seen."""
        try:
            names, stat = await self._store.children_and_stat(self.path, watch=True)
        except NoNode:
            await create_if_missing(self._store, self.path)
            names, stat = await self._store.children_and_stat(self.path, watch=True)
        self._born, self._seen = stat.czxid, children_made(stat, len(names))
        numbered = [name for name in names if has_sequence_number(name) and sequence_number(name) < self._seen]
        return sorted(numbered, key=sequence_number)

    async def _delete_old(self, names: Sequence[str]) -> None:
        """Delete changes that even slow brokers have read by now, by ZooKeeper's clock: ours may be wrong.

        The last one stays until there is another: its number tells Kafka's brokers that there was one.
        """
        try:
            _, last = await self._store.get(f"{self.path}/{names[-1]}")
        except (IndexError, NoNode):
            return
        for name in names[:-1]:
            try:
                _, stat = await self._store.get(f"{self.path}/{name}")
                if stat.created_ms + CHANGE_EXPIRATION_MS >= last.created_ms:
                    return  # they are in order: the others are younger
                await self._store.delete(f"{self.path}/{name}")
            except NoNode:
                continue


class ChangeFollower(Generic[Result]):
    """Keeps a copy of something in ZooKeeper current, as change nodes tell. Loop-thread only.

    `load` reads everything, and begins with `ChangeNodes.begin`; `read_changed` reads what `ChangeNodes.news` names.
    Everything is read again after a lost connection, after ChangesMissed, and when the task has died, as nobody knows
    what it had read.
    """

    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        paths: Collection[str],
        load: Callable[[], Awaitable[Result]],
        read_changed: Callable[[], Awaitable[object]],
        what: str,
    ) -> None:
        """`paths` are those that the change nodes are below. `what` names the task, and in the log what it reads."""
        self._store, self._tasks, self._paths, self._what = store, tasks, paths, what
        self._load, self._read_changed = load, read_changed
        self._due = asyncio.Event()
        self._read_everything = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Result:
        """Read everything, in whichever session that succeeds, and return it; from then on follow the changes."""
        self._store.subscribe(self._on_event)
        loaded = await in_any_session(self._store, self._load)
        self._task = self._tasks.spawn(self._what, self._follow, OnDeath.RESTART)
        return loaded

    def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()

    def _on_event(self, event: StoreEvent) -> None:
        if isinstance(event, WatchFired) and event.path in self._paths:
            self._due.set()
        elif isinstance(event, Connected):
            self._read_everything = True
            self._due.set()

    async def _follow(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                if self._read_everything:
                    self._read_everything = False
                    await self._load()
                else:
                    await self._read_changed()
            except ChangesMissed as error:
                log.warning("%s are all read again: %s", self._what, error)
                self._read_everything = True
                self._due.set()
            except (ConnectionLost, SessionExpired) as error:
                self._read_everything = True  # the next Connected begins again
                log.warning("%s cannot be read: %s", self._what, error)
            except Exception:
                self._read_everything = True
                self._due.set()
                raise


async def read_each(
    names: Iterable[Name], read: Callable[[Name], Awaitable[Result]]
) -> AsyncIterator[tuple[Name, Result]]:
    """Read znodes, `READ_AT_ONCE` at a time; yield each name, in their order, with what `read` returned."""
    left = list(names)
    while left:
        some, left = left[:READ_AT_ONCE], left[READ_AT_ONCE:]
        for name, found in zip(some, await asyncio.gather(*map(read, some)), strict=True):
            yield name, found


async def write_and_tell(store: Store, writes: Sequence[Operation], prefix: str, data: bytes) -> None:
    """Write znodes and the change node that tells of them, all or nothing; missing parents are made.

    Kafka's brokers write the one and then the other (AdminZkClient, AclAuthorizer, DelegationTokenManagerZk): when one
    dies in between, the others do not hear of the change until they read everything anew. Raises what `writes` alone
    would.
    """
    operations = (*writes, Create(prefix, data, sequential=True))
    for parents_made in range(len(operations) + 1):
        try:
            await store.multi(operations)
        except MultiFailed as failed:
            operation = operations[failed.index]
            parent_missing = isinstance(operation, Create) and isinstance(failed.cause, NoNode)
            if not parent_missing or parents_made == len(operations):
                raise failed.cause from None
            await create_parents(store, operation.path)
        else:
            return
