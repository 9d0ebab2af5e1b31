"""ZooKeeper as the controller may use it: every write checks that nobody else was elected (FEATURES C4, C16).

A write is a multi whose first operation checks the version of `/controller_epoch`, so a deposed controller changes
nothing. Calls outlive a lost connection: they wait for the session to come back, and raise ControllerMoved when it
does not. A write whose answer was lost counts as a lost race: whoever asked reads again and decides again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.zk_schema.store import (
    Check,
    ConnectionLost,
    MultiFailed,
    NodeExists,
    NoNode,
    Operation,
    OperationResult,
    SessionExpired,
    Stat,
    Store,
    StoreError,
)

T = TypeVar("T")

OPERATIONS_PER_MULTI = 100
"""A state is some 150 bytes and ZooKeeper's limit for a transaction is 1 MB; more gains little and delays others."""
CALLS_IN_FLIGHT = 256


class ControllerMoved(Exception):  # noqa: N818 (it is news, not an error)
    """This broker is not the controller any more: its session is gone, or `/controller_epoch` has another version."""


class FencedStore:
    """One controller epoch's access to ZooKeeper."""

    def __init__(self, store: Store, epoch_path: str, epoch_version: int) -> None:
        """To be made in the session that won the election."""
        self._store = store
        self._fence = Check(epoch_path, epoch_version)
        self._session_id = store.session_id
        self._revoked = False
        self._news = asyncio.Event()

    def connection_changed(self) -> None:
        """Whoever subscribes to the store tells of Connected and Expired."""
        self._news.set()

    def revoke(self) -> None:
        """From now on every call raises ControllerMoved."""
        self._revoked = True
        self._news.set()

    # Reads.

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """None when there is no such znode; then no watch is left."""
        try:
            return await self._answered(lambda: self._store.get(path, watch=watch))
        except NoNode:
            return None

    async def get_all(self, paths: Sequence[str], *, watch: bool = False) -> list[tuple[bytes, Stat] | None]:
        """Pipelined, in the order of `paths`."""
        found: list[tuple[bytes, Stat] | None] = []
        for some in slices(paths, CALLS_IN_FLIGHT):
            found += await asyncio.gather(*(self.get(path, watch=watch) for path in some))
        return found

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Empty when there is no such znode; then no watch is left."""
        try:
            return await self._answered(lambda: self._store.children(path, watch=watch))
        except NoNode:
            return []

    async def exists(self, path: str, *, watch: bool = False) -> bool:
        return await self._answered(lambda: self._store.exists(path, watch=watch)) is not None

    # Writes.

    async def write_each(self, operations: Sequence[Operation]) -> list[OperationResult | StoreError]:
        """Independent writes, many in one transaction; of each its result or why it was refused.

        ConnectionLost as a result says that the outcome is unknown.
        """
        groups = await asyncio.gather(*(self._write_group(some) for some in slices(operations, OPERATIONS_PER_MULTI)))
        return [result for group in groups for result in group]

    async def write(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """One transaction. Raises MultiFailed (index into `operations`) and ConnectionLost (outcome unknown)."""
        await self._ready()
        try:
            return (await self._store.multi([self._fence, *operations]))[1:]
        except SessionExpired as gone:
            raise ControllerMoved(str(gone)) from gone
        except MultiFailed as failed:
            if failed.index == 0:
                raise ControllerMoved(str(failed)) from failed
            raise MultiFailed(failed.index - 1, failed.cause) from failed

    async def _write_group(self, operations: Sequence[Operation]) -> list[OperationResult | StoreError]:
        try:
            return list(await self.write(operations))
        except ConnectionLost as lost:
            return [lost] * len(operations)
        except MultiFailed as failed:
            if len(operations) == 1:
                return [failed.cause]
        alone = await asyncio.gather(*(self._write_group([operation]) for operation in operations))
        return [result for results in alone for result in results]

    async def settle(self, operation: Operation) -> None:
        """One write that is harmless when repeated, until it is done; so is NoNode (deleted), NodeExists (created)."""
        while True:
            (result,) = await self._write_group([operation])
            if isinstance(result, ConnectionLost):
                continue
            if isinstance(result, StoreError) and not isinstance(result, NoNode | NodeExists):
                raise result
            return

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            await self._ready()
            try:
                return await call()
            except ConnectionLost:
                continue
            except SessionExpired as gone:
                raise ControllerMoved(str(gone)) from gone

    async def _ready(self) -> None:
        while not self._revoked and not self._store.connected:
            self._news.clear()
            await self._news.wait()
        if self._revoked or self._store.session_id != self._session_id:
            raise ControllerMoved("the session in which this broker was elected is gone")


def slices(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """`items` in order, at most `size` in each."""
    return [items[start : start + size] for start in range(0, len(items), size)]
