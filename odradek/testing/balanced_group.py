"""Group that is balanced in ZooKeeper, as its znodes tell it: for the demo and for tests.

with BalancedGroup("127.0.0.1:2181", "boards", "flights") as group:
    group.owners()              # {0: "boards_a", 1: "boards_b"}
"""

import asyncio
from types import TracebackType

from odradek.client.loop_thread import LoopThread
from odradek.client.zookeeper.subscriptions import consumer_of
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.store import NoNode, Store, children_if_any
from odradek.zk_schema.znodes.consumers import (
    consumer_ids_path,
    decode_offset,
    decode_owner,
    offset_path,
    offsets_path,
    owner_path,
    owners_path,
)

SESSION_TIMEOUT_MS = CONNECT_TIMEOUT_MS = 10_000


class BalancedGroup:
    """Looks at one topic of a group, in a session of its own. Every method waits for ZooKeeper; raises StoreError."""

    def __init__(self, zookeeper: str, group: str, topic: str) -> None:
        self._zookeeper, self._group, self._topic = zookeeper, group, topic
        self._thread: LoopThread
        self._store: Store

    def __enter__(self) -> "BalancedGroup":
        self._thread = LoopThread("odradek-balanced-group")
        self._thread.run(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.run(self._store.close())
        self._thread.stop()

    def members(self) -> list[str]:
        """List the ids of registered members, sorted. The dead are among them until ZooKeeper has missed them."""
        return self._thread.run(children_if_any(self._store, consumer_ids_path(self._group)))

    def owners(self) -> dict[int, str]:
        """Partition → id of the member that owns it; partitions that nobody owns just now are missing."""
        return self._thread.run(self._owners())

    def offsets(self) -> dict[int, int]:
        """Partition → next offset to consume, as it was last committed. Raises BadZnode too."""
        return self._thread.run(self._offsets())

    async def _open(self) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        store = KazooStore(self._zookeeper, clock, session_timeout_ms=SESSION_TIMEOUT_MS, make_chroot=False)
        self._store = store
        await store.start(CONNECT_TIMEOUT_MS)

    async def _owners(self) -> dict[int, str]:
        partitions = sorted(map(int, await children_if_any(self._store, owners_path(self._group, self._topic))))
        found = await asyncio.gather(*(self._owner(one) for one in partitions))
        return {partition: owner for partition, owner in zip(partitions, found, strict=True) if owner is not None}

    async def _owner(self, partition: int) -> str | None:
        try:
            data, _ = await self._store.get(owner_path(self._group, self._topic, partition))
        except NoNode:
            return None
        return consumer_of(decode_owner(data))

    async def _offsets(self) -> dict[int, int]:
        partitions = sorted(map(int, await children_if_any(self._store, offsets_path(self._group, self._topic))))
        found = await asyncio.gather(*(self._store.get(offset_path(self._group, self._topic, p)) for p in partitions))
        return {
            partition: decode_offset(self._group, self._topic, partition, data)
            for partition, (data, _) in zip(partitions, found, strict=True)
        }
