"""Topics and partitions that somebody has created in ZooKeeper: the controller gives them leaders.

Kafka's processTopicChange and processPartitionModifications.
"""

import logging
import random
from collections.abc import Iterable, Mapping

from odradek.controller import partition_machine, replica_machine
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import PartitionPhase, Replica, ReplicaPhase, Topic
from odradek.controller.events import DeletionsChanged
from odradek.controller.partition_machine import Strategy
from odradek.controller.topic_admin import new_topic_id
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import NotAuthorized, TooLarge

log = logging.getLogger(__name__)

CREATED_AT_ONCE = 500
"""Partitions that are told to brokers together: these create their logs while the next partitions are written."""


async def take_up_topics(active: ActiveController, randomness: random.Random) -> None:
    """Elect the first leaders of new topics; forget topics that have vanished without the controller."""
    state = active.state
    topics = await active.store.topics()
    for topic in state.topics - topics:
        log.warning("topic %s was removed from ZooKeeper", topic)
        state.remove_topic(topic)
    await _take_up(active, await active.store.assignments(topics - state.topics), randomness)


async def take_up_partitions(active: ActiveController, topic: str, randomness: random.Random) -> None:
    """Create the partitions of a topic, whose assignment was written, that are not known yet.

    Known partitions stay as they are: only a reassignment moves replicas. While the topic is being deleted, new
    partitions are taken out of ZooKeeper again. Tools from before 2.8 write the assignment without the topic's id: it
    is put back, or the next controller would give the topic another one, under which brokers refuse their replicas
    (KAFKA-14190, which Kafka has left open).
    """
    state = active.state
    found = (await active.store.assignments([topic])).get(topic)
    if found is None:
        return
    if topic not in state.topics:  # it could not be read before
        await _take_up(active, {topic: found}, randomness)
        return
    if found.topic_id is None and topic in state.topic_ids:
        await _give_id(active, topic, found, state.topic_ids[topic])
    known = state.assignments[topic]
    added = {index: assignment for index, assignment in found.partitions.items() if index not in known}
    if not added:
        return
    if topic in state.topics_to_delete:
        log.warning("topic %s is being deleted: no partitions are added", topic)
        await active.store.change_assignment(topic, lambda now: _without_others(now, known))
        return
    known.update(added)
    await _create(active, [TopicPartition(topic, index) for index in sorted(added)])


def _without_others(found: Topic, known: Iterable[int]) -> Topic:
    wanted = set(known)
    return found._replace(partitions={index: held for index, held in found.partitions.items() if index in wanted})


async def add_topic(active: ActiveController, topic: str, found: Topic, randomness: random.Random) -> bool:
    """Take a topic into the state; one without an id gets one first, if it can. Return False if it is gone by then."""
    if found.topic_id is None:
        named = await _give_id(active, topic, found, new_topic_id(randomness))
        if named is None:
            return False
        found = named
    state = active.state
    state.add_topic(topic, found.topic_id)
    state.assignments[topic] = found.partitions
    state.reassigning.update(
        partition for partition in state.partitions_of(topic) if state.assignment(partition).reassigning
    )
    return True


async def _give_id(active: ActiveController, topic: str, found: Topic, topic_id: bytes) -> Topic | None:
    """Write the id of a topic that has none; return what ZooKeeper has then, None when the topic is gone.

    Where ZooKeeper refuses it (too large a znode, or an access list), the topic stays as it was `found`: brokers and
    clients serve one without an id by its name, and no other topic has to wait. (Kafka's controller tries for ever.)
    """
    try:
        return await active.store.change_assignment(
            topic, lambda now: now if now.topic_id is not None else now._replace(topic_id=topic_id)
        )
    except (NotAuthorized, TooLarge) as refused:
        log.error("topic %s has no topic id, and none can be written: %s", topic, refused)
        return found


async def _take_up(active: ActiveController, topics: Mapping[str, Topic], randomness: random.Random) -> None:
    """Create topics that are not known yet, many small ones together, since all brokers are told each time."""
    new: list[TopicPartition] = []
    for topic, found in topics.items():
        if await add_topic(active, topic, found, randomness):
            new += active.state.partitions_of(topic)
        if len(new) >= CREATED_AT_ONCE:
            await _create(active, new)
            new = []
    if new:
        await _create(active, new)
    if topics:
        # Some may have been marked for deletion while they were unknown here.
        active.soon(DeletionsChanged())


async def _create(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """Elect the first leaders of partitions that are in the state but have no phase yet (onNewPartitionCreation)."""
    new = list(partitions)
    replicas = [Replica(partition, broker) for partition in new for broker in active.state.replicas(partition)]
    partition_machine.move(active, new, PartitionPhase.NEW)
    await replica_machine.move(active, replicas, ReplicaPhase.NEW)
    await partition_machine.bring_online(active, new, Strategy.OFFLINE_PARTITION)
    await replica_machine.move(active, replicas, ReplicaPhase.ONLINE)
