"""Deleting topics: stop their replicas everywhere, then remove the znodes (Kafka's TopicDeletionManager).

`/admin/delete_topics/x` is the order and stays until all is done, so the next controller resumes. A topic with a
replica that cannot be reached waits ("halted"). One that is being reassigned does not wait (in Kafka it does): brokers
treat a topic that is to be deleted as deleted, so its new replicas would never be in sync.
"""

import logging
from collections.abc import Collection, Iterable

from odradek.controller import partition_machine, replica_machine
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import PartitionPhase, Replica, ReplicaPhase
from odradek.controller.controller_store import ControllerStore
from odradek.controller.decoded_znodes import decode_topic
from odradek.controller.events import ReassignmentAsked, StopReplicaAnswered
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import ANY_VERSION, Check, ConnectionLost, Create, Delete, MultiFailed
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.configs import topic_config_path
from odradek.zk_schema.znodes.topics import partitions_path, topic_path

log = logging.getLogger(__name__)

DELETE_ATTEMPTS_MAX = 10


async def initialize(active: ActiveController) -> None:
    """Find out, at failover and before the state machines start, which topics are to go, and which must wait."""
    state = active.state
    marked = await _marked(active)
    state.topics_to_delete |= marked
    for topic in marked:
        if any(not state.is_online(replica.broker, replica.partition) for replica in state.replicas_of(topic)):
            state.deletion_halted.add(topic)


async def take_up_marked(active: ActiveController) -> None:
    """Take up topics that were marked."""
    active.state.topics_to_delete |= await _marked(active)
    await resume(active)


async def _marked(active: ActiveController) -> set[str]:
    """Read which topics are to be deleted; marks that mean nothing are removed."""
    marked = await active.store.topics_to_delete()
    # An unknown topic that exists was created a moment ago: it is deleted as soon as it is known here.
    unknown = {topic for topic in marked - active.state.topics if not await active.store.exists(topic_path(topic))}
    marked &= active.state.topics | unknown
    if unknown:
        log.warning("topics %s are to be deleted but do not exist: their marks are removed", sorted(unknown))
    if not active.config.delete_topic_enable:
        log.warning("topics %s are not deleted: delete.topic.enable is false", sorted(marked))
        unknown = marked
    await active.store.forget_deletion(unknown)
    return marked - unknown


async def unhalt(active: ActiveController, topics: Iterable[str]) -> None:
    """Let the deletion of these topics go on, if it waited ("halted") for what has happened now."""
    waiting = set(topics) & active.state.topics_to_delete
    if waiting:
        active.state.deletion_halted -= waiting
        await resume(active)


async def resume(active: ActiveController, topics: Collection[str] | None = None) -> None:
    """Take the deletion of these topics (None: of all that are marked) as far as it can go now."""
    state = active.state
    for topic in sorted(state.topics_to_delete if topics is None else state.topics_to_delete & set(topics)):
        await active.pause()
        phases = {state.replica_phase(replica) for replica in state.replicas_of(topic)}
        if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
            if topic not in state.deletion_halted:
                await _finish(active, topic)
        elif ReplicaPhase.DELETION_STARTED not in phases and topic not in state.deletion_halted:
            await _begin(active, topic)


async def _finish(active: ActiveController, topic: str) -> None:
    if not await _delete_znodes(active.store, topic, active.state.topic_ids.get(topic)):
        log.error(
            "the znodes of topic %s cannot be deleted, somebody else creates some there: tried again when one of its "
            "brokers starts", topic,
        )  # fmt: skip
        active.state.deletion_halted.add(topic)
        return
    moving = any(partition.topic == topic for partition in active.state.reassigning)
    active.state.remove_topic(topic)
    log.info("topic %s is deleted", topic)
    if moving:  # an order by znode would stay there for ever, and tools give no other one meanwhile
        active.soon(ReassignmentAsked())


async def _delete_znodes(store: ControllerStore, topic: str, topic_id: bytes | None) -> bool:
    """Delete the partitions, then topic, settings and mark in one transaction: a half-done one is resumed whole.

    Each write checks that the mark is still there: if not, the deletion was done and its answer lost, and a topic that
    has the name now is another one. Return False after DELETE_ATTEMPTS_MAX: somebody else keeps creating znodes there.
    """
    mark = delete_topic_path(topic)
    for attempt in range(DELETE_ATTEMPTS_MAX):
        if not await store.exists(mark):
            znode = await store.get(topic_path(topic))
            found = None if znode is None else decode_topic(topic, znode[0])
            if found is None or found.topic_id != topic_id:
                return True
            await store.write_until_done(Create(mark))  # somebody took it away, when the replicas were gone
        names = await store.children(partitions_path(topic))
        marked = Check(mark, ANY_VERSION)
        for paths in (
            [f"{partitions_path(topic)}/{name}/state" for name in names],
            [f"{partitions_path(topic)}/{name}" for name in names],
            [partitions_path(topic)],
        ):
            await store.write_each([Delete(path) for path in paths], given=[marked])
        there = [path for path in (topic_path(topic), topic_config_path(topic)) if await store.exists(path)]
        if attempt:  # something was in the way
            for path in there:
                await store.write_each([Delete(below) for below in await _below(store, path)], given=[marked])
        try:
            await store.write([Delete(path) for path in (*there, mark)])
        except (ConnectionLost, MultiFailed) as again:
            log.info("deleting topic %s once more: %s", topic, again)
        else:
            return True
    return False


async def _below(store: ControllerStore, path: str) -> list[str]:
    """Return the paths of all znodes below one, children before their parents."""
    found: list[str] = []
    for name in await store.children(path):
        child = f"{path}/{name}"
        found += [*await _below(store, child), child]
    return found


async def _begin(active: ActiveController, topic: str) -> None:
    """Begin a deletion, or begin it again with the replicas that are left."""
    state = active.state
    partitions = list(state.partitions_of(topic))
    existing = [partition for partition in partitions if state.phase(partition) is not PartitionPhase.NON_EXISTENT]
    if existing:
        log.info("deleting topic %s", topic)
        partition_machine.move(active, existing, PartitionPhase.OFFLINE)
        partition_machine.move(active, existing, PartitionPhase.NON_EXISTENT)
    # Brokers stop serving it before its replicas go.
    await active.send_metadata(partitions)
    left = [r for r in state.replicas_of(topic) if state.replica_phase(r) is not ReplicaPhase.DELETION_SUCCESSFUL]
    alive = [replica for replica in left if state.is_online(replica.broker, replica.partition)]
    dead = [replica for replica in left if not state.is_online(replica.broker, replica.partition)]
    await replica_machine.take_offline(active, left)
    await replica_machine.move(active, dead, ReplicaPhase.DELETION_INELIGIBLE)
    if dead:
        state.deletion_halted.add(topic)
    await replica_machine.move(active, alive, ReplicaPhase.DELETION_STARTED)


async def note_stopped(active: ActiveController, event: StopReplicaAnswered) -> None:
    """Take note of what a broker has stopped, or failed to."""
    if not active.is_present(event.broker, event.request.broker_epoch):
        return
    refused = event.response.error_code != ErrorCode.NONE
    errors = {(e.topic_name, e.partition_index): e.error_code for e in event.response.partition_errors}
    deleted, failed = [], []
    for topic in event.request.topic_states:
        for partition in topic.partition_states:
            replica = Replica(TopicPartition(topic.topic_name, partition.partition_index), event.broker)
            if not partition.delete_partition or not _is_deleting(active, replica):
                continue
            if refused or errors.get(replica.partition, ErrorCode.NONE) != ErrorCode.NONE:
                failed.append(replica)
            else:
                deleted.append(replica)
    await replica_machine.move(active, deleted, ReplicaPhase.DELETION_SUCCESSFUL)
    await replicas_failed(active, failed)
    if deleted:  # no other topic has come further, and there may be a thousand
        await resume(active, {replica.partition.topic for replica in deleted})


def _is_deleting(active: ActiveController, replica: Replica) -> bool:
    return active.state.replica_phase(replica) is ReplicaPhase.DELETION_STARTED


async def replicas_failed(active: ActiveController, replicas: Collection[Replica]) -> None:
    """Let the deletion of these replicas' topics wait until a broker comes back, as they are out of reach."""
    state = active.state
    begun = [replica for replica in replicas if _is_deleting(active, replica)]
    await replica_machine.move(active, begun, ReplicaPhase.DELETION_INELIGIBLE)
    halted = {replica.partition.topic for replica in replicas} & state.topics_to_delete
    if halted:
        log.info("deletion of topics %s waits for brokers to come back", sorted(halted))
        state.deletion_halted |= halted
