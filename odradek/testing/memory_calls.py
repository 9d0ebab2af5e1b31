"""The calls of a client of the in-memory ZooKeeper: what each does at the server when it arrives."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from odradek.zk_schema.store import (
    ANY_VERSION,
    Create,
    Delete,
    MultiFailed,
    NoNode,
    Operation,
    OperationResult,
    SetData,
    Stat,
    Store,
    StoreError,
    check_size,
    create_parents,
)

if TYPE_CHECKING:
    from odradek.testing.memory_ensemble import Member
    from odradek.testing.memory_zookeeper import MemoryZooKeeper

T = TypeVar("T")


class Request:
    """A call under way: `ask` carries it out at the server in the session that it was made in."""

    def __init__(
        self, path: str, session_id: int, ask: Callable[[], object], answer: "asyncio.Future[object]", writes: bool
    ) -> None:
        self.path = path
        self.session_id = session_id
        self.ask = ask
        self.answer = answer
        self.writes = writes
        self.arrived = False

    def carry_out(self) -> Callable[[], None]:
        """Carry it out; returns how to give its answer."""
        try:
            value = self.ask()
        except StoreError as error:
            return partial(self.fail, error)
        return partial(self.succeed, value)

    def fail(self, error: StoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self, value: object) -> None:
        if not self.answer.done():
            self.answer.set_result(value)


class MemoryCalls(Store):
    """`Store`'s calls, carried out in the session in which they were made; `MemoryStore` lets them travel."""

    _server: "MemoryZooKeeper"
    member: "Member"
    """The server of the ensemble that it is connected to, or was last."""

    async def _call(self, path: str, ask: Callable[[], T], *, writes: bool = False) -> T:
        """Have `ask` called at the server; return or raise what it does. Raises ConnectionLost, SessionExpired."""
        raise NotImplementedError

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        def ask() -> tuple[bytes, Stat]:
            node = self.member.tree.node(path)
            if watch:
                self.member.watches.data[path].add(session_id)
            return node.data, node.stat()

        session_id = self.session_id
        return await self._call(path, ask)

    async def get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        if not paths:
            return []
        kept = list(paths)

        def ask() -> list[tuple[bytes, Stat] | None]:
            return [None if node is None else (node.data, node.stat()) for node in map(self.member.tree.get, kept)]

        return await self._call(kept[0], ask)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def ask() -> Stat | None:
            node = self.member.tree.get(path)
            if watch:
                self.member.watches.data[path].add(session_id)
            return node.stat() if node else None

        session_id = self.session_id
        return await self._call(path, ask)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return (await self.children_and_stat(path, watch=watch))[0]

    async def children_and_stat(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        def ask() -> tuple[list[str], Stat]:
            node = self.member.tree.node(path)
            if watch:
                self.member.watches.children[path].add(session_id)
            return sorted(node.children), node.stat()

        session_id = self.session_id
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
        check_size(*operations)
        kept, session_id = list(operations), self.session_id
        return await self._call(kept[0].path, lambda: self._server.commit(kept, session_id), writes=True)

    async def _one(self, operation: Operation) -> OperationResult:
        check_size(operation)

        def ask() -> OperationResult:
            try:
                return self._server.commit([operation], session_id)[0]
            except MultiFailed as failed:
                raise failed.cause from None

        session_id = self.session_id
        return await self._call(operation.path, ask, writes=True)
