"""Failover to a new controller: read everything, tell all brokers, elect missing leaders, resume what was begun.

It follows Kafka's onControllerFailover except for one thing: leaders are elected before dead replicas are taken out of
the ISRs, as is done when a broker dies. Clients wait only for leaders, and an election takes the dead replicas out of
its partition's ISR in the same write. The reads themselves set the watches, so no change meanwhile is missed.
"""

import logging
import random

from odradek.controller import (
    partition_machine,
    reassignment,
    refused_epochs,
    replica_machine,
    requested_elections,
    topic_changes,
    topic_deletion,
)
from odradek.controller.active_controller import ActiveController
from odradek.controller.events import LeadersToBalance
from odradek.zk_schema.store import Create
from odradek.zk_schema.znodes.cluster import FEATURE_PATH, FinalizedFeatures
from odradek.zk_schema.znodes.notifications import ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH

log = logging.getLogger(__name__)

FIRST_BALANCE_DELAY_MS = 5000.0


async def take_over(active: ActiveController, randomness: random.Random) -> None:
    """Take over the cluster. `randomness` makes ids for topics that are older than topic ids."""
    state = active.state
    await _drop_notifications(active)
    await active.store.write_until_done(Create(FEATURE_PATH, FinalizedFeatures().encode()))
    await _read_cluster(active, randomness)
    if refused_epochs.latest_epoch_written(active) > state.controller_epoch:
        await refused_epochs.leave_refused_epoch(active)
    await topic_deletion.initialize(active)
    # Brokers refuse a leader that they do not know to be alive, so they are told first which brokers are. They are told
    # of all partitions, too: a broker that becomes a coordinator takes an unknown partition for one yet to be created.
    await active.send_all_metadata()
    found = dict(state.leader_and_isr)
    await replica_machine.start(active)
    elected = await partition_machine.start(active)
    await replica_machine.tell_what_was_found(active, found, elected)
    log.info(
        "controller of epoch %d: %d brokers, %d topics", state.controller_epoch, len(state.brokers), len(state.topics)
    )
    await reassignment.resume_all(active)
    await topic_deletion.resume(active)
    await requested_elections.obey_znode(active)
    if active.config.auto_leader_rebalance_enable:
        active.later(FIRST_BALANCE_DELAY_MS, LeadersToBalance())


async def _drop_notifications(active: ActiveController) -> None:
    """Delete the notifications that were left: whatever they tell of is about to be read anyway."""
    for path in (LOG_DIR_EVENT_PATH, ISR_CHANGE_PATH):
        names = await active.store.children(path, watch=True)
        await active.store.delete_all([f"{path}/{name}" for name in names])


async def _read_cluster(active: ActiveController, randomness: random.Random) -> None:
    state, store = active.state, active.store
    for broker_id, broker in (await store.brokers({})).items():
        active.connect(broker_id, broker)
    topics = await store.topics()
    for topic, found in (await store.assignments(topics)).items():
        await topic_changes.add_topic(active, topic, found, randomness)
    partitions = list(state.partitions())
    for partition, current in (await store.leader_and_isr(partitions)).items():
        if current is not None:
            state.leader_and_isr[partition] = current
