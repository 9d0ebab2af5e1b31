"""Replicas that the cluster does not count on any more, found when a broker comes back.

A replica that was reassigned while its broker was dead is told so by nobody: the controller has sent StopReplica once
and has let it go. Its log would take room for ever, and keep the next topic of that name from this broker. Kafka's
brokers in ZooKeeper mode leave it where it is; those in KRaft mode delete it (ReplicaManager.handleStrayReplicas).

Only what ZooKeeper says is evidence, read after our own registration, so that nothing older than that is read: a
partition whose replicas are others is deleted, as StopReplica would have, unless its ISR counts on this broker
(somebody edited the assignment, or a controller died while it cancelled a move); the log of a topic whose name has
another topic id now is set aside as `-stray`, for people to look at. What ZooKeeper does not name stays as it is.
"""

import asyncio
import logging
from enum import Enum
from functools import partial

from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.protocol.errors import KafkaError
from odradek.protocol.primitives import ZERO_UUID
from odradek.zk_schema.lost_answers import in_any_session
from odradek.zk_schema.store import NoNode, Store, StoreError
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import PartitionState, TopicAssignment, state_path, topic_path

log = logging.getLogger(__name__)

CALLS_IN_FLIGHT = 500


class Stray(Enum):
    """Reason why a log is a stray replica."""

    REASSIGNED = "its replicas are on other brokers"
    OTHER_TOPIC = "its topic has another id now"


async def remove_stray_replicas(store: Store, broker_id: int, logs: LogManager) -> None:
    """Let go of the strays among all logs, when the broker has registered and before it takes requests.

    Without ZooKeeper this waits for it: nobody looks again before the next start. What may not be read stays; a
    directory that fails goes offline.
    """
    topics = sorted({one.topic for one in logs.all_logs()})
    assignments: dict[str, TopicAssignment] = {}
    try:
        for begin in range(0, len(topics), CALLS_IN_FLIGHT):
            some = topics[begin : begin + CALLS_IN_FLIGHT]
            found = await asyncio.gather(*(_assignment(store, topic) for topic in some))
            assignments |= {topic: one for topic, one in zip(some, found, strict=True) if one is not None}
    except StoreError as error:
        log.warning("stray replicas are not searched for until the next start: %s", error)
        return
    for replica_log in logs.all_logs():
        assignment = assignments.get(replica_log.topic)
        if assignment is None:
            log.warning("%s: ZooKeeper does not have its topic; it is left as it is", replica_log)
            continue
        topic_id = logs.topic_id(replica_log.topic, replica_log.partition)
        stray = stray_reason(replica_log, topic_id, assignment, broker_id)
        if stray is Stray.REASSIGNED and await _is_counted_on(store, broker_id, replica_log):
            log.warning(
                "%s: it is not assigned to this broker, but may be in the ISR; it is left as it is", replica_log
            )
        elif stray is not None:
            _let_go(logs, replica_log, stray)


async def _assignment(store: Store, topic: str) -> TopicAssignment | None:
    """Read a topic's assignment; None when there is none, or none that can be read. Raises StoreError."""
    try:
        data, _ = await in_any_session(store, partial(store.get, topic_path(topic)))
        return TopicAssignment.decode(topic, data)
    except (NoNode, BadZnode):
        return None


async def _is_counted_on(store: Store, broker_id: int, replica_log: Log) -> bool:
    """Tell whether the partition's ISR holds this broker, or may do so, because it cannot be read."""
    topic, partition = replica_log.topic, replica_log.partition
    try:
        data, _ = await in_any_session(store, partial(store.get, state_path(topic, partition)))
        return broker_id in PartitionState.decode(topic, partition, data).isr
    except NoNode:
        return False
    except (BadZnode, StoreError) as error:
        log.warning("the ISR of %s-%d cannot be read: %s", topic, partition, error)
        return True


def stray_reason(replica_log: Log, topic_id: bytes, assignment: TopicAssignment, broker_id: int) -> Stray | None:
    """Return why the log is a stray, None when it is not, or when that cannot be said. Zeros: an id that is unknown."""
    if assignment.topic_id is not None and topic_id not in (ZERO_UUID, assignment.topic_id):
        return Stray.OTHER_TOPIC
    held = assignment.partitions.get(replica_log.partition)
    if held is None or broker_id in {*held.replicas, *held.adding, *held.removing}:
        return None
    return Stray.REASSIGNED


def _let_go(logs: LogManager, replica_log: Log, stray: Stray) -> None:
    topic, partition = replica_log.topic, replica_log.partition
    try:
        if stray is Stray.REASSIGNED:
            log.warning("%s is a stray replica, %s: it is deleted", replica_log, stray.value)
            logs.delete(topic, partition)
        else:
            path = logs.set_aside_stray(topic, partition)
            log.warning("%s is a stray replica, %s: it is kept as %s", replica_log, stray.value, path)
    except KafkaError as error:  # its directory is offline now
        log.error("%s is a stray replica and stays: %s", replica_log, error)
