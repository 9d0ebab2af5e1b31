"""Election of the controller: the first to create `/controller`, who increments `/controller_epoch` with it.

Kafka's registerControllerAndIncrementControllerEpoch (KafkaZkClient.scala).
"""

import logging
from typing import NamedTuple

from odradek.world.clock import Clock
from odradek.zk_schema.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    SetData,
    Stat,
    Store,
)
from odradek.zk_schema.znodes.controller import (
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    INITIAL_CONTROLLER_EPOCH,
    ControllerRegistration,
    decode_controller_epoch,
    encode_controller_epoch,
)
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

NO_CONTROLLER = -1
EPOCH_MAX = 2**31 - 1
RAISED_EPOCH_MAX = EPOCH_MAX // 2
"""Highest epoch that what brokers have obeyed raises `/controller_epoch` to: enough are left for every election there
will be."""


class CurrentController(NamedTuple):
    """The content of `/controller`."""

    broker_id: int
    """NO_CONTROLLER when the znode is missing or cannot be read."""
    session_id: int
    """The session that it lives with; 0 when it is missing."""
    zxid: int = 0
    """Id of the transaction that has made it."""


class Elected(NamedTuple):
    """An election that was won."""

    epoch: int
    epoch_version: int
    """Version of `/controller_epoch`: what every write of this controller checks."""


async def current_controller(store: Store) -> CurrentController:
    """Read `/controller` and watch it, whether it is there or not."""
    while True:
        if await store.exists(CONTROLLER_PATH, watch=True) is None:
            return CurrentController(NO_CONTROLLER, 0)
        try:
            data, stat = await store.get(CONTROLLER_PATH)
        except NoNode:
            continue
        try:
            return CurrentController(ControllerRegistration.decode(data).broker_id, stat.ephemeral_owner, stat.czxid)
        except BadZnode as bad:
            log.error("/controller cannot be read: %s", bad)
            return CurrentController(NO_CONTROLLER, stat.ephemeral_owner, stat.czxid)


async def elect(store: Store, clock: Clock, broker_id: int, epoch_seen: int = 0) -> Elected | None:
    """Try once; None when somebody else is the controller, or was quicker.

    The epoch is later than `epoch_seen`, the latest that this broker knows of, even if ZooKeeper has an older one:
    brokers obey nobody in an epoch before the latest that they know, and Kafka's refuse such a controller until they
    are restarted. An `epoch_seen` above RAISED_EPOCH_MAX, which any client may have sent, is ignored. Raises
    ConnectionLost when the outcome is unknown: `recognize` tells it later. Raises BadZnode when `/controller_epoch`
    cannot be read, so that no epoch would be safe, or is the last one that requests can carry, NotAuthorized when an
    access list forbids to write it.
    """
    epoch, written = await read_epoch(store)
    if epoch < epoch_seen <= RAISED_EPOCH_MAX:
        log.warning(
            "/controller_epoch is %d and was %d before: it was deleted, or ZooKeeper was restored", epoch, epoch_seen
        )
        epoch = epoch_seen
    if epoch >= EPOCH_MAX:
        raise BadZnode(
            CONTROLLER_EPOCH_PATH, encode_controller_epoch(epoch), "the controller epoch cannot be raised any further"
        )
    registration = ControllerRegistration(broker_id, clock.now_ms())
    try:
        _, stat = await store.multi(
            [
                Create(CONTROLLER_PATH, registration.encode(), ephemeral=True),
                SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(epoch + 1), written.version),
            ]
        )
    except MultiFailed as failed:
        if not isinstance(failed.cause, NodeExists | BadVersion):
            raise failed.cause from None
        log.info("broker %d was not elected: %s", broker_id, failed)
        return None
    assert isinstance(stat, Stat), stat
    return Elected(epoch + 1, stat.version)


async def recognize(store: Store, current: CurrentController, last_epoch: int) -> Elected | None:
    """Look why `/controller` is of our own session though we are not the controller: a lost answer, or a resignation?

    An epoch later than `last_epoch`, the last one that we were elected in, is ours if one transaction has written both;
    if not, somebody was elected since `current` was read. Otherwise the znode is a left-over: it is deleted, if it is
    still ours, and None returned.
    """
    epoch, written = await read_epoch(store)
    if epoch > last_epoch and written.mzxid == current.zxid:
        return Elected(epoch, written.version)
    await delete_if_ours(store)
    return None


async def delete_if_ours(store: Store) -> None:
    """Delete `/controller` if it lives with this session, unless somebody was elected meanwhile: what is read of
    ZooKeeper may be old (Kafka's KafkaZkClient.deleteController). Raises StoreError."""
    _, epoch_written = await store.get(CONTROLLER_EPOCH_PATH)
    current = await current_controller(store)
    if current.session_id != store.session_id:
        return
    try:
        await store.multi([Check(CONTROLLER_EPOCH_PATH, epoch_written.version), Delete(CONTROLLER_PATH)])
    except MultiFailed as failed:
        if not isinstance(failed.cause, NoNode | BadVersion):
            raise


async def read_epoch(store: Store) -> tuple[int, Stat]:
    """Return the epoch and what is known of its znode, which is created if need be. Raises BadZnode."""
    while True:
        try:
            data, stat = await store.get(CONTROLLER_EPOCH_PATH)
            return decode_controller_epoch(data), stat
        except NoNode:
            pass
        try:
            await store.create(CONTROLLER_EPOCH_PATH, encode_controller_epoch(INITIAL_CONTROLLER_EPOCH))
        except NodeExists:
            continue
