"""Restart after an unclean stop: a broker that may have lost the end of a log first leaves that partition's ISR.

Power failed, the old session has just ended, and with it perhaps the controller. If we registered in that moment, the
next controller would find us alive, in the ISR and maybe leading, and elect nobody: acknowledged records that our disk
has lost would be gone, though others have them. So we wait until a controller has seen that we were away and has taken
us out of each ISR that has another registered member. Where nobody else is left there is nobody better than us. Topics
that are being deleted do not count: nobody wants their records, and a controller leaves their ISRs as they are. A log
that is not there at all has lost its end like any other: its disk was replaced, or its name was not on the disk yet.
While a log directory is missing, or when one is back that was away, none of the logs is trusted: what another directory
has of a partition may be a copy from before.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence

from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock, sleep
from odradek.zk_schema.store import ConnectionLost, NoNode, SessionExpired, Store, StoreError
from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, broker_ids
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import TOPICS_PATH, PartitionState, TopicAssignment, state_path, topic_path

log = logging.getLogger(__name__)

LOOK_EVERY_MS = 100.0
CALLS_IN_FLIGHT = 500
STATES_PER_CALL = 100
"""Partitions whose states are read with one request: thousands of small ones take as long as loading the logs."""
CONTROLLER_PATIENCE_MS = 10_000
"""Time for a controller to act after our old session has ended; then we go on, as Kafka does at once."""


async def wait_until_out_of_isr(
    store: Store, clock: Clock, broker_id: int, partitions: Sequence[PartitionKey], session_timeout_ms: int
) -> None:
    """Return when none of these partitions, whose logs were not closed, counts on us beside another live broker.

    Time without ZooKeeper does not count: a controller may have been cut off from it, too.
    """
    waiting, patience_ms = list(partitions), session_timeout_ms + CONTROLLER_PATIENCE_MS
    give_up_at_ms = clock.monotonic_ms() + patience_ms
    told = False
    while True:
        try:
            waiting = await _counting_on(store, broker_id, waiting)
        except (ConnectionLost, SessionExpired) as error:
            log.info("the ISRs cannot be read: %s", error)
            await store.until_connected()
            give_up_at_ms = clock.monotonic_ms() + patience_ms
        except StoreError as error:
            log.info("the ISRs cannot be read: %s", error)
        if not waiting:
            return
        if clock.monotonic_ms() >= give_up_at_ms:
            log.warning(
                "no controller has removed this broker from the ISR of %d partitions: starting all the same",
                len(waiting),
            )
            return
        if not told:
            log.info(
                "after an unclean stop: waiting until this broker is out of the ISR of %d partitions", len(waiting)
            )
            told = True
        await sleep(clock, LOOK_EVERY_MS)


async def missing_replicas(store: Store, broker_id: int, held: Collection[PartitionKey]) -> list[PartitionKey]:
    """Return the partitions that are assigned to this broker and not among those that it holds. Raises StoreError."""
    topics = await store.children(TOPICS_PATH)
    found: list[PartitionKey] = []
    for begin in range(0, len(topics), CALLS_IN_FLIGHT):
        some = topics[begin : begin + CALLS_IN_FLIGHT]
        for assigned in await asyncio.gather(*(_assigned(store, topic, broker_id) for topic in some)):
            found += [partition for partition in assigned if partition not in held]
    return found


async def _assigned(store: Store, topic: str, broker_id: int) -> list[PartitionKey]:
    """Return the partitions of a topic that are assigned to the broker; none when the topic is gone or unreadable."""
    try:
        data, _ = await store.get(topic_path(topic))
        partitions = TopicAssignment.decode(topic, data).partitions
    except (NoNode, BadZnode):
        return []
    return [(topic, index) for index, one in partitions.items() if broker_id in one.replicas]


async def _counting_on(store: Store, broker_id: int, partitions: Sequence[PartitionKey]) -> list[PartitionKey]:
    """Return those `partitions` whose ISR holds this broker and another registered one. Raises StoreError.

    Topics that are marked for deletion are left out.
    """
    registered = broker_ids(await store.children(BROKER_IDS_PATH))
    others = registered - {broker_id}
    to_delete = set(await store.children(DELETE_TOPICS_PATH))
    partitions = [partition for partition in partitions if partition[0] not in to_delete]
    found: list[PartitionKey] = []
    for begin in range(0, len(partitions) if others else 0, STATES_PER_CALL):
        some = partitions[begin : begin + STATES_PER_CALL]
        states = await store.get_each([state_path(*partition) for partition in some])
        for partition, state in zip(some, states, strict=True):
            isr = () if state is None else _isr(*partition, state[0])
            if broker_id in isr and not others.isdisjoint(isr):
                found.append(partition)
    return found


def _isr(topic: str, index: int, data: bytes) -> tuple[int, ...]:
    """Return the ISR of a partition; empty when its znode is unreadable."""
    try:
        return PartitionState.decode(topic, index, data).isr
    except BadZnode:
        return ()
