"""Topics and partitions that somebody created in ZooKeeper.

Kafka's processTopicChange and processPartitionModifications.
"""

import logging
import random
from collections.abc import Iterable

from odradek.controller.elections import Strategy
from odradek.controller.failover import add_topic
from odradek.controller.state import PartitionPhase, Replica, ReplicaPhase, TopicPartition
from odradek.controller.tenure import Tenure

log = logging.getLogger(__name__)


async def look(tenure: Tenure, randomness: random.Random) -> None:
    """New topics get their first leaders; ones that vanished without the controller are forgotten."""
    state = tenure.state
    topics = await tenure.store.topics()
    for topic in state.topics - topics:
        log.warning("topic %s was removed from ZooKeeper", topic)
        state.remove_topic(topic)
    for topic, found in (await tenure.store.assignments(topics - state.topics)).items():
        await add_topic(tenure, topic, found, randomness)
        await _create(tenure, state.partitions_of(topic))


async def look_at(tenure: Tenure, topic: str) -> None:
    """A topic's assignment was written: create the partitions that are not known yet.

    What is known is not changed by it: only a reassignment moves replicas. While the topic is being deleted, new
    partitions are taken out of ZooKeeper again.
    """
    state = tenure.state
    found = (await tenure.store.assignments([topic])).get(topic)
    if found is None or topic not in state.topics:
        return
    known = state.assignments[topic]
    added = {index: assignment for index, assignment in found.partitions.items() if index not in known}
    if not added:
        return
    if topic in state.topics_to_delete:
        log.warning("topic %s is being deleted: no partitions are added", topic)
        await tenure.store.set_assignment(topic, state.topic_ids.get(topic), known)
        return
    known.update(added)
    await _create(tenure, [TopicPartition(topic, index) for index in sorted(added)])


async def _create(tenure: Tenure, partitions: Iterable[TopicPartition]) -> None:
    """First leaders of partitions that are in the state but have no phase yet (onNewPartitionCreation)."""
    new = list(partitions)
    replicas = [Replica(partition, broker) for partition in new for broker in tenure.state.replicas(partition)]
    tenure.move_partitions(new, PartitionPhase.NEW)
    await tenure.move_replicas(replicas, ReplicaPhase.NEW)
    await tenure.bring_online(new, Strategy.OFFLINE_PARTITION)
    await tenure.move_replicas(replicas, ReplicaPhase.ONLINE)
