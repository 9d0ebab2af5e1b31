"""Registration of a broker: the ephemeral znode /brokers/ids/[id], one living holder for each id.

Before it registers, a broker creates the topmost znodes that are missing and asks for the cluster's id, and perhaps for
its own. A registration that is in the way is one of three things (`judge`): made by this very session, the answer lost;
left by an earlier session of the same broker, at whose end ZooKeeper will remove it; or that of another living broker.
"""

import asyncio
import random
from collections.abc import Collection
from dataclasses import replace
from enum import Enum
from typing import Final

from odradek.world.clock import Clock
from odradek.zk_schema.lost_answers import create_ephemeral, create_if_missing, repeated
from odradek.zk_schema.store import (
    BadVersion,
    Connected,
    ConnectionLost,
    Expired,
    NodeExists,
    NoNode,
    SessionExpired,
    Stat,
    Store,
    StoreEvent,
    WatchFired,
    WatchKind,
)
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH
from odradek.zk_schema.znodes.brokers import (
    BROKER_IDS_PATH,
    BROKER_SEQUENCE_ID_PATH,
    BrokerRegistration,
    Endpoint,
    broker_ids,
    broker_path,
)
from odradek.zk_schema.znodes.cluster import (
    CLUSTER_ID_PATH,
    PRODUCER_ID_BLOCK_PATH,
    decode_cluster_id,
    encode_cluster_id,
    new_cluster_id,
)
from odradek.zk_schema.znodes.configs import ENTITY_TYPES, entity_type_path
from odradek.zk_schema.znodes.consumers import CONSUMERS_PATH
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import CONFIG_CHANGES_PATH, ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH
from odradek.zk_schema.znodes.topics import TOPICS_PATH

TOPMOST_PATHS: Final = (
    CONSUMERS_PATH,
    BROKER_IDS_PATH,
    TOPICS_PATH,
    CONFIG_CHANGES_PATH,
    DELETE_TOPICS_PATH,
    BROKER_SEQUENCE_ID_PATH,
    ISR_CHANGE_PATH,
    PRODUCER_ID_BLOCK_PATH,
    LOG_DIR_EVENT_PATH,
    *(entity_type_path(entity_type) for entity_type in ENTITY_TYPES),
)
"""Persistent znodes that every broker creates, if missing, before it does anything else (Kafka's PersistentZkPaths)."""
EXPIRY_MARGIN_MS: Final = 2500
"""Time after its timeout when a session has surely ended: ZooKeeper ends them at whole ticks (2000 ms by default)."""


async def create_topmost_paths(store: Store) -> None:
    """Create those of TOPMOST_PATHS that are missing; those that exist are left alone."""
    await asyncio.gather(*(create_if_missing(store, path) for path in TOPMOST_PATHS))


async def get_or_create_cluster_id(store: Store, randomness: random.Random) -> str:
    """Return the cluster's id, which the first broker to ask makes. Raises BadZnode."""
    stat = await repeated(store, lambda: store.exists(CLUSTER_ID_PATH))
    if stat is None:
        await create_if_missing(store, CLUSTER_ID_PATH, encode_cluster_id(new_cluster_id(randomness)))
    data, _ = await repeated(store, lambda: store.get(CLUSTER_ID_PATH))
    return decode_cluster_id(data)


async def generate_broker_id(store: Store, reserved_broker_max_id: int) -> int:
    """Return an id that no broker had before, above `reserved.broker.max.id`: ZooKeeper counts the writes to
    /brokers/seqid.

    A lost answer costs one id.
    """
    await create_if_missing(store, BROKER_SEQUENCE_ID_PATH)
    stat = await repeated(store, lambda: store.set(BROKER_SEQUENCE_ID_PATH, b""))
    return reserved_broker_max_id + stat.version


class Holder(Enum):
    """Owner of the znode that has this broker's id."""

    OURSELVES = "this session"
    OUR_PAST = "an earlier session of this broker"
    ANOTHER = "another broker"


class BrokerIdInUse(Exception):  # noqa: N818 (a sentence for a person)
    """Refusal of a broker id that another broker, or our own earlier session, holds. The text names the holder."""

    def __init__(self, broker_id: int, holder: str, why: str) -> None:
        super().__init__(f"broker id {broker_id} is in use by a broker at {holder} ({why})")
        self.broker_id = broker_id
        self.holder = holder


class AddressTaken(Exception):  # noqa: N818 (a sentence for a person)
    """Refusal of addresses of which another broker has told the cluster that they are its own."""


async def refuse_taken_addresses(store: Store, broker_id: int, addresses: Collection[str]) -> None:
    """Raise AddressTaken if another registered broker has one of the `addresses`, which are texts of `host:port`.

    Clients and brokers who look for one of two with the same address find the other (Kafka's createBrokerInfo).
    """
    others = sorted(broker_ids(await store.children(BROKER_IDS_PATH)) - {broker_id})
    registered = await store.get_each([broker_path(other) for other in others])
    for other, found in zip(others, registered, strict=True):
        try:
            endpoints = () if found is None else BrokerRegistration.decode(other, found[0]).endpoints
        except BadZnode:
            continue
        taken = [endpoint.address for endpoint in endpoints if endpoint.address in addresses]
        if taken:
            raise AddressTaken(
                f"Configured end points {', '.join(taken)} in advertised listeners are already registered by broker "
                f"{other}"
            )


def judge(found: BrokerRegistration, stat: Stat, own: BrokerRegistration, session_id: int) -> Holder:
    """Tell whose registration `found` is.

    The same endpoints on another session belong to an earlier session of this broker: two cannot listen there.
    """
    if stat.ephemeral_owner == session_id:
        return Holder.OURSELVES
    same = {endpoint.url for endpoint in found.endpoints} == {endpoint.url for endpoint in own.endpoints}
    return Holder.OUR_PAST if same else Holder.ANOTHER


class Registrar:
    """Registers one broker, at start-up and again after each expired session. One `register` at a time."""

    def __init__(self, store: Store, clock: Clock, registration: BrokerRegistration) -> None:
        self._store = store
        self._clock = clock
        self.registration = registration
        self._awaited: asyncio.Future[None] | None = None
        self._give_up_at_ms: float | None = None
        """Time at which the znode of our earlier session should be gone; None while none is in the way."""
        store.subscribe(self._on_event)

    async def register(self) -> int:
        """Return the broker epoch, which is the znode's czxid. Waits for a connection as long as that takes.

        Raises BrokerIdInUse; SessionExpired never: a new session is just another try.
        """
        self._give_up_at_ms = None
        while True:
            try:
                await self._store.until_connected()
                return await self._create()
            except NodeExists:
                if self._give_up_at_ms is None:
                    patience_ms = self._store.session_timeout_ms + EXPIRY_MARGIN_MS
                    self._give_up_at_ms = self._clock.monotonic_ms() + patience_ms
                await self._wait_or_refuse(self._give_up_at_ms)
            except SessionExpired:
                continue

    async def is_registered(self) -> bool:
        """Tell whether this session has its znode; the next WatchFired for its path says when to ask again."""
        path = self.registration.path
        try:
            stat = await repeated(self._store, lambda: self._store.exists(path, watch=True))
        except SessionExpired:
            return False
        return stat is not None and stat.ephemeral_owner == self._store.session_id

    def set_endpoints(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Change the endpoints to register; `update` writes them, or else the next `register`."""
        self.registration = replace(self.registration, endpoints=endpoints)

    async def update(self) -> None:
        """Write the registration anew if this session has registered already; if not, there will be a `register`."""
        try:
            await repeated(self._store, self._rewrite)
        except SessionExpired:
            return

    async def _rewrite(self) -> None:
        path = self.registration.path
        while True:
            try:
                _, stat = await self._store.get(path)
                if stat.ephemeral_owner == self._store.session_id:
                    current = replace(self.registration, timestamp_ms=self._clock.now_ms())
                    await self._store.set(path, current.encode(), stat.version)
            except BadVersion:
                continue
            except NoNode:
                return
            return

    async def _create(self) -> int:
        path = self.registration.path
        current = replace(self.registration, timestamp_ms=self._clock.now_ms())
        return (await create_ephemeral(self._store, path, current.encode())).czxid

    async def _wait_or_refuse(self, give_up_at_ms: float) -> None:
        """Return when the znode that is in the way may be gone; raises BrokerIdInUse when it will not go."""
        path = self.registration.path
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            data, stat = await self._store.get(path, watch=True)
        except (NoNode, ConnectionLost, SessionExpired):
            return
        if self._judge(data, stat) is Holder.OURSELVES:
            return
        left_ms = give_up_at_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            raise BrokerIdInUse(
                self.registration.broker_id,
                self.registration.holder,
                f"with our own addresses: session 0x{stat.ephemeral_owner:x} does not end",
            )
        timer = self._clock.call_later(left_ms, self._stop_waiting)
        await self._awaited
        timer.cancel()

    def _judge(self, data: bytes, stat: Stat) -> Holder:
        own = self.registration
        try:
            found = BrokerRegistration.decode(own.broker_id, data)
        except BadZnode as error:
            raise BrokerIdInUse(own.broker_id, "an unknown address", str(error)) from error
        holder = judge(found, stat, own, self._store.session_id)
        if holder is Holder.ANOTHER:
            raise BrokerIdInUse(own.broker_id, found.holder, f"session 0x{stat.ephemeral_owner:x}")
        return holder

    def _on_event(self, event: StoreEvent) -> None:
        gone = isinstance(event, WatchFired) and event == WatchFired(WatchKind.DELETED, self.registration.path)
        if isinstance(event, Connected):
            self._give_up_at_ms = None  # ZooKeeper may have been away itself, which gives all sessions a new timeout
        if gone or isinstance(event, Connected | Expired):
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
