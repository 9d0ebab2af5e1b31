"""A new controller's first act: read everything, tell everybody, elect what needs a leader, resume what was begun.

Kafka's onControllerFailover. Watches are set by the very reads, so nothing that happens meanwhile is missed.
"""

import logging
import random

from odradek.controller import partition_machine, preferred_election, reassignment, replica_machine, topic_deletion
from odradek.controller.cluster_store import Topic
from odradek.controller.elections import Strategy
from odradek.controller.events import LeadersToBalance
from odradek.controller.state import PartitionPhase, ReplicaPhase
from odradek.controller.tenure import Tenure
from odradek.controller.topic_admin import new_topic_id
from odradek.zk_schema.store import Create
from odradek.zk_schema.znodes.cluster import FEATURE_PATH, FinalizedFeatures
from odradek.zk_schema.znodes.notifications import ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH

log = logging.getLogger(__name__)

FIRST_BALANCE_DELAY_MS = 5000.0


async def take_over(tenure: Tenure, randomness: random.Random) -> None:
    """`randomness` makes ids for topics that are older than topic ids."""
    await _drop_notifications(tenure)
    await tenure.store.znodes.settle(Create(FEATURE_PATH, FinalizedFeatures().encode()))
    await _read_cluster(tenure, randomness)
    await topic_deletion.initialize(tenure)
    # Brokers refuse a leader that they do not know to be alive: the live brokers come first. With them all partitions,
    # for a broker that is made a coordinator takes a partition that it has never heard of for one that may still come.
    await tenure.tell_everything()
    await _start_replicas(tenure)
    await start_partitions(tenure)
    log.info("controller of epoch %d: %d brokers, %d topics", tenure.state.controller_epoch, *_counts(tenure))
    await reassignment.resume_all(tenure)
    await topic_deletion.resume(tenure)
    await preferred_election.obey_znode(tenure)
    if tenure.config.auto_leader_rebalance_enable:
        tenure.later(FIRST_BALANCE_DELAY_MS, LeadersToBalance())


def _counts(tenure: Tenure) -> tuple[int, int]:
    return len(tenure.state.brokers), len(tenure.state.topics)


async def _drop_notifications(tenure: Tenure) -> None:
    """Whatever they say is in what will be read now."""
    for path in (LOG_DIR_EVENT_PATH, ISR_CHANGE_PATH):
        names = await tenure.store.znodes.children(path, watch=True)
        await tenure.store.delete_all([f"{path}/{name}" for name in names])


async def _read_cluster(tenure: Tenure, randomness: random.Random) -> None:
    state, store = tenure.state, tenure.store
    for broker_id, broker in (await store.brokers()).items():
        tenure.connect(broker_id, broker)
    topics = await store.topics()
    for topic, found in (await store.assignments(topics)).items():
        await add_topic(tenure, topic, found, randomness)
    partitions = list(state.partitions())
    for partition, leadership in (await store.leaderships(partitions)).items():
        if leadership is not None:
            state.leaderships[partition] = leadership


async def add_topic(tenure: Tenure, topic: str, found: Topic, randomness: random.Random) -> None:
    """Take a topic into the state; one without an id gets one first."""
    topic_id, partitions = found
    if topic_id is None:
        topic_id = new_topic_id(randomness)
        await tenure.store.set_assignment(topic, topic_id, partitions)
    tenure.state.add_topic(topic, topic_id)
    tenure.state.assignments[topic] = partitions
    tenure.state.reassigning.update(
        partition for partition in tenure.state.partitions_of(topic) if tenure.state.assignment(partition).reassigning
    )


async def _start_replicas(tenure: Tenure) -> None:
    state = tenure.state
    replicas = list(state.all_replicas())
    for replica in replicas:
        state.replica_phases[replica] = replica_machine.initial_phase(state, replica)
    online = [replica for replica in replicas if state.replica_phase(replica) is ReplicaPhase.ONLINE]
    offline = [replica for replica in replicas if state.replica_phase(replica) is not ReplicaPhase.ONLINE]
    await tenure.move_replicas(online, ReplicaPhase.ONLINE)
    await tenure.take_offline(offline)


async def start_partitions(tenure: Tenure) -> None:
    for partition in tenure.state.partitions():
        tenure.state.partition_phases[partition] = partition_machine.initial_phase(tenure.state, partition)
    await elect_where_needed(tenure)


async def elect_where_needed(tenure: Tenure, topic: str | None = None) -> None:
    """Leaders for new and offline partitions (of one topic, or of all) that are not being deleted."""
    state = tenure.state
    waiting = [
        partition
        for partition, phase in state.partition_phases.items()
        if phase in (PartitionPhase.NEW, PartitionPhase.OFFLINE)
        and not state.being_deleted(partition)
        and topic in (None, partition.topic)
    ]
    await tenure.bring_online(waiting, Strategy.OFFLINE_PARTITION)
