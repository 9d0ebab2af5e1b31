"""Sequential znodes by which whoever has changed something in ZooKeeper tells every broker what to read again.

Source: ZkNodeChangeNotificationListener of Kafka 3.9.
"""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.world.clock import Clock
from odradek.zk_schema.lost_answers import repeated
from odradek.zk_schema.store import NoNode, Store
from odradek.zk_schema.znodes.notifications import CHANGE_EXPIRATION_MS, sequence_number


class Told(NamedTuple):
    """A change node: its path, and what its writer has put into it."""

    path: str
    data: bytes


class ChangeNodes:
    """Change nodes below one path, which has to exist. Loop-thread only."""

    def __init__(self, store: Store, clock: Clock, path: str) -> None:
        self.path = path
        self._store, self._clock = store, clock
        self._seen = -1

    async def begin(self) -> None:
        """Watch, and pass over those that are there: to be called before everything is read."""
        names = await self._store.children(self.path, watch=True)
        self._seen = max(map(sequence_number, names), default=-1)

    async def news(self) -> list[Told]:
        """Watch on, and read those that have come since, in their order; old ones are deleted."""
        names = sorted(await self._store.children(self.path, watch=True), key=sequence_number)
        told = []
        for name in names:
            if sequence_number(name) > self._seen:
                self._seen = sequence_number(name)
                path = f"{self.path}/{name}"
                try:
                    told.append(Told(path, (await self._store.get(path))[0]))
                except NoNode:
                    continue  # somebody found it old enough to delete: whoever wrote it did so long ago
        await self._delete_old(names)
        return told

    async def _delete_old(self, names: Iterable[str]) -> None:
        now_ms = self._clock.now_ms()
        for name in names:
            try:
                _, stat = await self._store.get(f"{self.path}/{name}")
                if stat.created_ms + CHANGE_EXPIRATION_MS >= now_ms:
                    return  # they are in order: the others are younger
                await self._store.delete(f"{self.path}/{name}")
            except NoNode:
                continue


async def tell(store: Store, prefix: str, data: bytes) -> None:
    """Write a change node. Raises SessionExpired."""

    async def write() -> None:
        await store.create(prefix, data, sequential=True, parents=True)

    await repeated(store, write)
