"""View of a cluster in ZooKeeper: who is registered and who is the controller, kept up to date by watches."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    NoNode,
    SessionExpired,
    Stat,
    Store,
    StoreEvent,
    WatchFired,
)
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, broker_ids, broker_path
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH, ControllerRegistration
from odradek.zk_schema.znodes.json_data import BadZnode

NO_CONTROLLER = -1


class ClusterView(NamedTuple):
    """A look at ZooKeeper."""

    registered: dict[int, Stat]
    """Stats of the registrations, by broker id."""
    controller_id: int = NO_CONTROLLER


class Watcher:
    """Looks at ZooKeeper whenever something changes there, and tells what it sees."""

    def __init__(self, store: Store, tell: Callable[[ClusterView], None]) -> None:
        self._store = store
        self._tell = tell
        self._changed = asyncio.Event()
        store.subscribe(self._on_event)

    async def run(self) -> None:
        """Keep the view up to date until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._store.until_connected()
                self._tell(await look(self._store, watch=True))
            except (ConnectionLost, SessionExpired):
                continue
            await self._changed.wait()

    def _on_event(self, event: StoreEvent) -> None:
        if isinstance(event, WatchFired | Connected):
            self._changed.set()


async def look(store: Store, *, watch: bool = False) -> ClusterView:
    """Read the view now; with `watch`, a later change fires a watch. Raises StoreError."""
    if await store.exists(BROKER_IDS_PATH, watch=watch) is None:
        return ClusterView({})
    names = await store.children(BROKER_IDS_PATH, watch=watch)
    ids = sorted(broker_ids(names))
    stats = await asyncio.gather(*(store.exists(broker_path(broker_id)) for broker_id in ids))
    registered = {broker_id: stat for broker_id, stat in zip(ids, stats, strict=True) if stat is not None}
    return ClusterView(registered, await _controller_id(store, watch))


async def _controller_id(store: Store, watch: bool) -> int:
    await store.exists(CONTROLLER_PATH, watch=watch)
    try:
        data, _ = await store.get(CONTROLLER_PATH)
    except NoNode:
        return NO_CONTROLLER
    try:
        return ControllerRegistration.decode(data).broker_id
    except BadZnode:  # a broker that understands it no better stands for election itself
        return NO_CONTROLLER
