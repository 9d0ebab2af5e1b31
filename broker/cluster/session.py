"""The broker's ZooKeeper session: registers, and when it expires stops leading and registers again.

It does the same when somebody has deleted its registration: to the controller it is dead, others lead what it led, and
it would tell clients that know no other broker, for ever, that it still leads. Apache Kafka does not notice.
"""

import asyncio
import logging
from collections.abc import Callable, Sized
from dataclasses import dataclass

from odradek.journal.journal import Journal
from odradek.world.tasks import OnDeath, Tasks
from odradek.zk_schema.registration import BrokerIdInUse, Registrar
from odradek.zk_schema.store import Connected, Expired, Store, StoreEvent, Suspended, WatchFired

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Identity:
    """Ids of a broker and its cluster. `broker_epoch`: the transaction id of its registration; -1 before the first."""

    broker_id: int
    cluster_id: str
    broker_epoch: int = -1
    session_over: bool = False
    """True when the session of that registration has ended, and there is no other registration yet."""

    @property
    def least_obeyed_epoch(self) -> int:
        """Smallest broker epoch whose requests of controllers are obeyed.

        While the session is over even those to our last registration are stale: others may lead by now.
        """
        return self.broker_epoch + 1 if self.session_over else self.broker_epoch


class BrokerSession:
    """Registers the broker, and again after each expired session.

    While the session is gone another broker may lead what we led, so nothing is led here until a controller says so to
    our new registration. `stop_leading` is called when the session has expired, and returns what was led; `lost`, with
    the reason, when another broker has taken our id meanwhile.
    """

    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        identity: Identity,
        registrar: Registrar,
        stop_leading: Callable[[], Sized],
        lost: Callable[[BrokerIdInUse], object],
        journal: Journal,
    ) -> None:
        self._store, self._tasks, self._identity, self._registrar = store, tasks, identity, registrar
        self._stop_leading, self._lost, self._journal = stop_leading, lost, journal
        self._session_id = 0
        self._rejoining: asyncio.Task[None] | None = None
        self._left = False

    async def join(self) -> None:
        """Register for the first time. Raises BrokerIdInUse."""
        await self._register()
        self._store.subscribe(self._on_event)
        self._look_after_registration()

    def leave(self) -> None:
        """Do not register again: the broker is stopping."""
        self._left = True
        if self._rejoining is not None:
            self._rejoining.cancel()

    async def _register(self) -> None:
        while self._session_id == 0 or self._session_id != self._store.session_id:
            self._identity.broker_epoch = await self._registrar.register()
            self._session_id = self._store.session_id
            self._identity.session_over = self._session_id == 0  # it may have ended while the answer was on its way
        log.info("broker %d is registered, epoch %d", self._identity.broker_id, self._identity.broker_epoch)
        self._note("registered", epoch=self._identity.broker_epoch)

    async def _is_registered(self) -> bool:
        """Tell whether the present session has registered us and our znode is there, which is watched from now on."""
        if self._session_id == 0 or self._session_id != self._store.session_id:
            return False
        if await self._registrar.is_registered():
            return True
        if not self._identity.session_over:
            self._over("deleted", "the registration of this broker is not in ZooKeeper any more")
            self._session_id = 0
        return False

    def _over(self, change: str, what: str) -> None:
        """Lead nothing: the last registration does not count any more."""
        self._identity.session_over = True
        led = len(self._stop_leading())
        self._note(change, led=led)
        log.warning("%s: %d partitions are not led here any more", what, led)

    def _note(self, change: str, **facts: int) -> None:
        self._journal.note("session", str(self._identity.broker_id), change=change, session=self._session_id, **facts)

    def _on_event(self, event: StoreEvent) -> None:
        if self._left:
            return
        if isinstance(event, Suspended):
            log.warning("ZooKeeper is unreachable: serving what can be served without it")
            self._note("away")
        elif isinstance(event, Expired):
            self._over("expired", "the ZooKeeper session has expired")
        elif isinstance(event, Connected):
            if event.session_id == self._session_id:
                log.warning("ZooKeeper is reachable again, in the same session")
                self._note("back")
            else:
                self._look_after_registration()
        elif isinstance(event, WatchFired) and event.path == self._registrar.registration.path:
            self._look_after_registration()

    def _look_after_registration(self) -> None:
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = self._tasks.spawn("register again", self._rejoin, OnDeath.RESTART)

    async def _rejoin(self) -> None:
        try:
            while not await self._is_registered():
                await self._register()
        except BrokerIdInUse as taken:
            self._lost(taken)
