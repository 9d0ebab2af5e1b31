"""Election of the controller: it is the first broker to create `/controller`, which raises `/controller_epoch`, too.

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
"""Highest value to which `/controller_epoch` is raised because brokers have obeyed a later controller. It leaves enough
epochs for every election there will be."""


class CurrentController(NamedTuple):
    """The content of `/controller`."""

    broker_id: int
    """NO_CONTROLLER when the znode is missing or cannot be read."""
    session_id: int
    """Session that the znode lives with; 0 when it is missing."""
    zxid: int = 0
    """Id of the transaction that created the znode."""


class Elected(NamedTuple):
    """An election that was won."""

    epoch: int
    epoch_version: int
    """Version of `/controller_epoch`, which every write of this controller checks."""


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
    """Try once to be elected. Return None when another broker is the controller already, or was quicker.

    The new epoch is later than `epoch_seen`, the latest that this broker knows of, even if ZooKeeper has an older one.
    Brokers obey no controller of an epoch before the latest that they know; Kafka's refuse it until they are restarted.
    An `epoch_seen` above RAISED_EPOCH_MAX is ignored, since any client may have sent it.

    Raises ConnectionLost when the outcome is unknown: `recognize` finds it out later. Raises BadZnode when
    `/controller_epoch` cannot be read, so that no epoch would be safe, or is the last one that requests can carry;
    NotAuthorized when an access list forbids writing it.
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
    """Find out why our session holds `/controller` though we are not active: was an answer lost, or have we resigned?

    An epoch later than `last_epoch`, the last one that we were elected in, is ours if the transaction that wrote it has
    created `/controller`, too. Else the znode is a left-over, or somebody was elected since `current` was read: it is
    deleted if it is still ours, and None is returned.
    """
    epoch, written = await read_epoch(store)
    if epoch > last_epoch and written.mzxid == current.zxid:
        return Elected(epoch, written.version)
    await delete_if_ours(store)
    return None


async def delete_if_ours(store: Store) -> None:
    """Delete `/controller` if it lives with this session. What a ZooKeeper server answers may be old, so the version of
    `/controller_epoch` is checked: it tells whether somebody was elected meanwhile (Kafka's
    KafkaZkClient.deleteController). Raises StoreError."""
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
    """Return the controller epoch and the stat of its znode, which is created if it is missing. Raises BadZnode."""
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
