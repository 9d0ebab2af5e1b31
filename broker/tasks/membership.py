"""This broker's place in the cluster: its registration, and what follows when the session that holds it ends (C2, C16)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from odradek.broker.identity import Identity
from odradek.broker.replication.manager import ReplicaManager
from odradek.broker.tasks.shutdown import sleep
from odradek.world.clock import Clock
from odradek.zk_schema.store import Connected, Expired, Store, StoreError, StoreEvent, Suspended

log = logging.getLogger(__name__)

RETRY_MS = 1000.0


class Membership:
    """Registers the broker, and again after each expired session.

    `register` writes `/brokers/ids/<id>` in the present session and returns the broker epoch. While the session is
    gone another broker may lead what we led, so nothing is led here until a controller says so to our new registration.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        identity: Identity,
        replicas: ReplicaManager,
        register: Callable[[], Awaitable[int]],
    ) -> None:
        self._store, self._clock, self._identity, self._replicas = store, clock, identity, replicas
        self._register = register
        self._session_id = 0
        self._joining: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Register for the first time. Raises StoreError and what `register` raises for an id that is taken."""
        self._identity.broker_epoch = await self._register()
        self._session_id = self._store.session_id
        self._store.subscribe(self._on_event)
        log.info("broker %d is registered, epoch %d", self._identity.broker_id, self._identity.broker_epoch)

    def leave(self) -> None:
        """Do not register again: the broker is stopping."""
        if self._joining is not None:
            self._joining.cancel()
        self._session_id = -1

    def _on_event(self, event: StoreEvent) -> None:
        if self._session_id == -1:
            return
        if isinstance(event, Suspended):
            log.warning("ZooKeeper is away: serving what can be served without it")
        elif isinstance(event, Expired):
            led = self._replicas.fence()
            log.warning("the ZooKeeper session has expired: %d partitions are not led here any more", len(led))
        elif isinstance(event, Connected):
            if event.session_id == self._session_id:
                log.info("ZooKeeper is back, in the same session")
            elif self._joining is None:
                self._joining = asyncio.get_running_loop().create_task(self._rejoin(), name="rejoin")

    async def _rejoin(self) -> None:
        try:
            while True:
                session_id = self._store.session_id
                try:
                    epoch = await self._register()
                except StoreError as error:
                    log.warning("cannot register broker %d: %s; trying on", self._identity.broker_id, error)
                    await sleep(self._clock, RETRY_MS)
                    continue
                self._identity.broker_epoch, self._session_id = epoch, session_id
                log.info("broker %d is registered again, epoch %d", self._identity.broker_id, epoch)
                if self._store.session_id in (0, session_id):
                    return
        finally:
            self._joining = None
