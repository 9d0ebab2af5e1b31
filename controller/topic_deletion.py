"""Deleting topics: stop their replicas everywhere, then remove the znodes (Kafka's TopicDeletionManager).

`/admin/delete_topics/x` is the order and stays until all is done, so the next controller resumes. A topic with a
replica that cannot be reached, or in the middle of a reassignment, waits ("halted").
"""

import logging
from collections.abc import Iterable

from odradek.controller.events import StopReplicaAnswered
from odradek.controller.state import PartitionPhase, Replica, ReplicaPhase, TopicPartition
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode

log = logging.getLogger(__name__)


async def initialize(tenure: Tenure) -> None:
    """At failover, before the machines start: which topics are to go, and which of them must wait."""
    state = tenure.state
    marked = await _marked(tenure)
    state.topics_to_delete |= marked
    for topic in marked:
        offline = any(not state.is_online(replica.broker, replica.partition) for replica in state.replicas_of(topic))
        if offline or _reassigning(tenure, topic):
            state.deletion_halted.add(topic)


async def look(tenure: Tenure) -> None:
    """Topics were marked."""
    marked = await _marked(tenure)
    tenure.state.deletion_halted.update(topic for topic in marked if _reassigning(tenure, topic))
    tenure.state.topics_to_delete |= marked
    await resume(tenure)


async def _marked(tenure: Tenure) -> set[str]:
    """The topics to delete; marks that mean nothing are removed."""
    marked = await tenure.store.topics_to_delete()
    unknown = marked - tenure.state.topics
    if unknown:
        log.warning("topics %s are to be deleted but do not exist", sorted(unknown))
    if not tenure.config.delete_topic_enable:
        log.warning("topics %s are not deleted: delete.topic.enable is false", sorted(marked))
        unknown = marked
    await tenure.store.forget_deletion(unknown)
    return marked - unknown


def _reassigning(tenure: Tenure, topic: str) -> bool:
    return any(partition.topic == topic for partition in tenure.state.reassigning)


async def resume_topics(tenure: Tenure, topics: Iterable[str]) -> None:
    """What some of them waited for has happened."""
    waiting = set(topics) & tenure.state.topics_to_delete
    if waiting:
        tenure.state.deletion_halted -= waiting
        await resume(tenure)


async def resume(tenure: Tenure) -> None:
    """Take every topic to be deleted as far as it can go now."""
    state = tenure.state
    for topic in sorted(state.topics_to_delete):
        phases = {state.replica_phase(replica) for replica in state.replicas_of(topic)}
        if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
            if topic not in state.deletion_halted:
                await _finish(tenure, topic)
        elif ReplicaPhase.DELETION_STARTED not in phases and topic not in state.deletion_halted:
            await _begin(tenure, topic)


async def _finish(tenure: Tenure, topic: str) -> None:
    if not await tenure.store.delete_topic(topic):
        log.error("the znodes of topic %s cannot be deleted", topic)
        tenure.state.deletion_halted.add(topic)
        return
    tenure.state.remove_topic(topic)
    log.info("topic %s is deleted", topic)


async def _begin(tenure: Tenure, topic: str) -> None:
    """Or begin again, with the replicas that are left."""
    state = tenure.state
    partitions = list(state.partitions_of(topic))
    if topic not in state.deletion_begun:
        log.info("deleting topic %s", topic)
        tenure.move_partitions(partitions, PartitionPhase.OFFLINE)
        tenure.move_partitions(partitions, PartitionPhase.NON_EXISTENT)
        state.deletion_begun.add(topic)
    # Brokers stop serving it before its replicas go.
    await tenure.tell(partitions)
    left = [r for r in state.replicas_of(topic) if state.replica_phase(r) is not ReplicaPhase.DELETION_SUCCESSFUL]
    alive = [replica for replica in left if state.is_online(replica.broker, replica.partition)]
    dead = [replica for replica in left if not state.is_online(replica.broker, replica.partition)]
    await tenure.take_offline(left)
    await tenure.move_replicas(dead, ReplicaPhase.DELETION_INELIGIBLE)
    if dead:
        state.deletion_halted.add(topic)
    await tenure.move_replicas(alive, ReplicaPhase.DELETION_STARTED)


async def answered(tenure: Tenure, event: StopReplicaAnswered) -> None:
    """A broker has stopped replicas, or failed to."""
    refused = event.response.error_code != ErrorCode.NONE
    errors = {(e.topic_name, e.partition_index): e.error_code for e in event.response.partition_errors}
    deleted, failed = [], []
    for topic in event.request.topic_states:
        for partition in topic.partition_states:
            replica = Replica(TopicPartition(topic.topic_name, partition.partition_index), event.broker)
            if not partition.delete_partition or not _is_deleting(tenure, replica):
                continue
            if refused or errors.get(replica.partition, ErrorCode.NONE) != ErrorCode.NONE:
                failed.append(replica)
            else:
                deleted.append(replica)
    await tenure.move_replicas(deleted, ReplicaPhase.DELETION_SUCCESSFUL)
    await replicas_failed(tenure, failed)
    if deleted:
        await resume(tenure)


def _is_deleting(tenure: Tenure, replica: Replica) -> bool:
    return tenure.state.replica_phase(replica) is ReplicaPhase.DELETION_STARTED


async def replicas_failed(tenure: Tenure, replicas: Iterable[Replica]) -> None:
    """Replicas of topics to be deleted are out of reach: their topics wait until a broker comes back."""
    state = tenure.state
    begun = [replica for replica in replicas if _is_deleting(tenure, replica)]
    await tenure.move_replicas(begun, ReplicaPhase.DELETION_INELIGIBLE)
    halted = {replica.partition.topic for replica in replicas} & state.topics_to_delete
    if halted:
        log.info("deletion of topics %s waits for brokers to come back", sorted(halted))
        state.deletion_halted |= halted
