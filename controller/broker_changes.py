"""Brokers that come, go, or come back as another life of themselves (Kafka's processBrokerChange).

Only ZooKeeper says so: a registration whose session expired is gone, one with another czxid is a bounced broker, dead
and new at once.
"""

import logging
from collections.abc import Iterable

from odradek.controller import reassignment, topic_deletion
from odradek.controller.failover import elect_where_needed
from odradek.controller.state import PartitionPhase, Replica, ReplicaPhase
from odradek.controller.tenure import Tenure

log = logging.getLogger(__name__)


async def look(tenure: Tenure) -> None:
    """Compare the registrations with the state and act on the differences."""
    found, known = await tenure.store.brokers(), tenure.state.brokers
    new = sorted(found.keys() - known.keys())
    dead = sorted(known.keys() - found.keys())
    bounced = sorted(b for b in found.keys() & known.keys() if found[b].epoch != known[b].epoch)
    updated = sorted(
        b
        for b in found.keys() & known.keys()
        if found[b].epoch == known[b].epoch and found[b].registration != known[b].registration
    )
    if new or dead or bounced or updated:
        log.info("brokers: new %s, dead %s, bounced %s, updated %s", new, dead, bounced, updated)
    for broker_id in (*bounced, *dead):
        tenure.disconnect(broker_id)
    for broker_id in new:
        tenure.connect(broker_id, found[broker_id])
    if new:
        await _started(tenure, new)
    if bounced:
        await _failed(tenure, bounced)
        for broker_id in bounced:
            tenure.connect(broker_id, found[broker_id])
        await _started(tenure, bounced)
    if dead:
        await _failed(tenure, dead)
    if updated:
        for broker_id in updated:
            tenure.connect(broker_id, found[broker_id])
        await tenure.tell([])


async def _started(tenure: Tenure, brokers: list[int]) -> None:
    """They learn the whole cluster and their replicas; offline partitions may have a leader again."""
    state = tenure.state
    for broker_id in brokers:
        state.offline_directories.pop(broker_id, None)
    await tenure.tell([], state.brokers.keys() - set(brokers))
    await tenure.tell_everything(brokers)
    replicas = state.replicas_on(brokers)
    await tenure.move_replicas(
        [replica for replica in replicas if not state.being_deleted(replica.partition)], ReplicaPhase.ONLINE
    )
    await elect_where_needed(tenure)
    await reassignment.resume_with(tenure, brokers)
    await topic_deletion.resume_topics(tenure, {replica.partition.topic for replica in replicas})


async def _failed(tenure: Tenure, brokers: list[int]) -> None:
    state = tenure.state
    for broker_id in brokers:
        state.offline_directories.pop(broker_id, None)
        state.shutting_down.discard(broker_id)
    await replicas_lost(tenure, state.replicas_on(brokers))


async def replicas_lost(tenure: Tenure, replicas: Iterable[Replica]) -> None:
    """Elect leaders in place of lost ones, then take the lost replicas out of the ISRs (onReplicasBecomeOffline)."""
    state = tenure.state
    lost = list(replicas)
    to_delete = [replica for replica in lost if state.being_deleted(replica.partition)]
    serving = [replica for replica in lost if not state.being_deleted(replica.partition)]
    tenure.move_partitions(state.without_live_leader(), PartitionPhase.OFFLINE)
    await elect_where_needed(tenure)
    await tenure.take_offline(serving)
    await topic_deletion.replicas_failed(tenure, to_delete)
    if not serving:
        # No request told anybody so far that a broker is gone.
        await tenure.tell([])
