"""`KazooStore`: the calls of a `Store`, made with kazoo. Connection and session are in session.py."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from kazoo.exceptions import EXCEPTIONS, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import (
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat

from odradek.zk_schema.kazoo_store.client import acl_of
from odradek.zk_schema.kazoo_store.session import KazooSession
from odradek.zk_schema.kazoo_store.values import create_error, multi_results, stat_of
from odradek.zk_schema.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    NoNode,
    Operation,
    OperationResult,
    SetData,
    Stat,
    Unsupported,
    check_size,
    create_parents,
)

READ_FAILED = -1
"""Type of the answer for a znode that could not be read."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Request for the data and stats of `paths`, without watches; they need not be of one moment.

    It is ZooKeeper's type 22, since 3.6, which kazoo does not have. A controller that takes over reads a znode for each
    partition of the cluster. One request for each, on its way through kazoo's thread, takes ten times the processor.
    """

    paths: list[str]

    type: ClassVar[int] = 22

    def serialize(self) -> bytearray:
        data = bytearray()
        for path in self.paths:
            data += multiheader_struct.pack(GetData.type, False, -1) + write_string(path) + b"\0"
        data += multiheader_struct.pack(-1, True, -1)
        return data

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[tuple[bytes, Any] | None]:
        """Return (data, stat) of each, None where there is no znode. Raises kazoo's exceptions of what else went wrong:
        UnimplementedError for the empty answer of a server that does not know the request."""
        if offset == len(data):
            raise UnimplementedError
        found: list[tuple[bytes, Any] | None] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == READ_FAILED:
                error = EXCEPTIONS[int_struct.unpack_from(data, offset)[0]]
                offset += int_struct.size
                if error is not NoNodeError:
                    raise error
                found.append(None)
            else:
                content, offset = read_buffer(data, offset)
                found.append((content or b"", ZnodeStat._make(stat_struct.unpack_from(data, offset))))
                offset += stat_struct.size
            header, offset = MultiHeader.deserialize(data, offset)
        return found


def read_many(client: Any, paths: list[str]) -> Any:
    """Send a MultiRead by a client of kazoo's; return the IAsyncResult of its answer."""
    answer = client.handler.async_result()
    client._call(MultiRead(paths), answer)
    return answer


class KazooStore(KazooSession):
    """A client of one ZooKeeper, made as its `KazooSession` is. Every path stands below the chroot."""

    _reads_many = True
    """True unless the server is known to be older than 3.6."""

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        full = self._full(path)
        ask = partial(self._client.get_async, full, watch=self._on_watch if watch else None)
        noted = partial(self._watched.existing, full) if watch else None
        data, stat = await self._ask(path, ask, noted)
        return data or b"", stat_of(stat)

    async def get_each(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        if self._reads_many and paths:
            try:
                found = await self._ask(paths[0], partial(read_many, self._client, [*map(self._full, paths)]))
            except Unsupported:
                self._reads_many = False
            else:
                return [None if one is None else (one[0], stat_of(one[1])) for one in found]
        return await asyncio.gather(*(self._get_or_none(path) for path in paths))

    async def _get_or_none(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return await self.get(path)
        except NoNode:
            return None

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        full = self._full(path)
        ask = partial(self._client.exists_async, full, watch=self._on_watch if watch else None)
        stat = await self._ask(path, ask, partial(self._watched.existing_or_not, full) if watch else None)
        return None if stat is None else stat_of(stat)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return (await self.children_and_stat(path, watch=watch))[0]

    async def children_and_stat(self, path: str, *, watch: bool = False) -> tuple[list[str], Stat]:
        full, on_watch = self._full(path), self._on_watch if watch else None
        ask = partial(self._client.get_children_async, full, watch=on_watch, include_data=True)
        names, stat = await self._ask(path, ask, partial(self._watched.children, full) if watch else None)
        return names, stat_of(stat)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        check_size(Create(path, data))
        full, acl = self._full(path), acl_of(self._link, path)
        # Kafka's znodes without content hold null, which to its brokers is not the same as no bytes: its controller
        # gives out no producer ids where /latest_producer_id_block holds no bytes.
        ask = partial(self._client.create_async, full, data or None, acl, ephemeral=ephemeral, sequence=sequential)
        try:
            made = await self._ask(path, ask)
        except NoNode as error:
            if not parents:
                raise create_error(error, path) from error
            await create_parents(self, path)
            made = await self._ask(path, ask)
        return str(made)[len(self._chroot) :]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        check_size(SetData(path, data))
        return stat_of(await self._ask(path, partial(self._client.set_async, self._full(path), data, version)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(path, partial(self._client.delete_async, self._full(path), version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        check_size(*operations)
        transaction = self._client.transaction()
        for operation in operations:
            path = self._full(operation.path)
            match operation:
                case Create():
                    acl = acl_of(self._link, operation.path)
                    transaction.create(path, operation.data, acl, operation.ephemeral, operation.sequential)
                case SetData():
                    transaction.set_data(path, operation.data, operation.version)
                case Delete():
                    transaction.delete(path, operation.version)
                case Check():
                    transaction.check(path, operation.version)
        return multi_results(operations, await self._ask(operations[0].path, transaction.commit_async), self._chroot)

    def _full(self, path: str) -> str:
        return (self._chroot or "/") if path == "/" else self._chroot + path
