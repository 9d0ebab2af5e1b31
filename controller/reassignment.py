"""Moving replicas (KIP-455; Kafka's onPartitionReassignment): the new ones join first, the old ones leave when all
target replicas are in the ISR (FEATURES C14).

The assignment znode holds the intermediate state (adding, removing), so a new controller goes on from there.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from odradek.controller import state_log, topic_deletion
from odradek.controller.elections import Leadership, Strategy
from odradek.controller.events import ReassignmentAsked
from odradek.controller.state import Assignment, Replica, ReplicaPhase, TopicPartition
from odradek.controller.tenure import Tenure, lost_race
from odradek.protocol.errors import ErrorCode
from odradek.zk_schema.store import Delete, SetData
from odradek.zk_schema.znodes.admin import REASSIGN_PARTITIONS_PATH, decode_reassignment, encode_reassignment
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

Outcome = tuple[ErrorCode, str | None]
DONE: Outcome = (ErrorCode.NONE, None)


async def reassign(
    tenure: Tenure, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Outcome]:
    """Begin to move partitions to new replicas; None cancels what is under way. Of each the error and a message."""
    outcomes: dict[TopicPartition, Outcome] = {}
    accepted: dict[TopicPartition, Assignment] = {}
    for partition, target in targets.items():
        refusal = _refusal(tenure, partition, target)
        if refusal is not None:
            outcomes[partition] = refusal
            continue
        current = tenure.state.assignment(partition)
        accepted[partition] = current.reassigned_to(current.origin if target is None else target)
    # The latest order holds, so one from the znode for the same partition is void.
    await _forget_in_znode(tenure, accepted)
    for partition, assignment in accepted.items():
        await _advance(tenure, partition, assignment)
        outcomes[partition] = DONE
    return outcomes


def _refusal(tenure: Tenure, partition: TopicPartition, target: Sequence[int] | None) -> Outcome | None:
    state = tenure.state
    current = state.assignment(partition)
    if not current.replicas or state.being_deleted(partition) or partition not in state.leaderships:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if target is None:
        return None if current.reassigning else (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    if not target:
        return _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if min(target) < 0:
        return _invalid(f"Invalid broker id in replica list: {list(target)}")
    dead = [broker for broker in current.reassigned_to(target).adding if not state.is_live(broker)]
    if dead:
        return _invalid(
            f"Replica assignment has brokers that are not alive: {dead}, live brokers: {sorted(state.live_broker_ids)}"
        )
    return None


def _invalid(why: str) -> Outcome:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why


def under_way(tenure: Tenure, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Assignment]:
    """The reassignments among some partitions (None: all)."""
    asked = tenure.state.reassigning if partitions is None else partitions
    found = {partition: tenure.state.assignment(partition) for partition in asked}
    return {partition: assignment for partition, assignment in sorted(found.items()) if assignment.reassigning}


async def obey_znode(tenure: Tenure) -> None:
    """`/admin/reassign_partitions`, of tools before 2.6; entries leave it as they are done or refused."""
    znodes = tenure.store.znodes
    if not await znodes.exists(REASSIGN_PARTITIONS_PATH, watch=True):
        return
    znode = await znodes.get(REASSIGN_PARTITIONS_PATH)
    if znode is None:
        tenure.soon(ReassignmentAsked())
        return
    try:
        asked = {TopicPartition(*p): target for p, target in decode_reassignment(znode[0]).items()}
    except BadZnode as bad:
        log.error("reassignment: %s", bad)
        await znodes.settle(Delete(REASSIGN_PARTITIONS_PATH))
        tenure.soon(ReassignmentAsked())
        return
    refused = []
    for partition, target in asked.items():
        refusal = _refusal(tenure, partition, target)
        if refusal is not None:
            log.warning("%s is not reassigned: %s %s", partition, *refusal)
            refused.append(partition)
            continue
        current = tenure.state.assignment(partition)
        wanted = current.reassigned_to(target)
        if wanted != current or not wanted.reassigning:
            await _advance(tenure, partition, wanted)
    await _forget_in_znode(tenure, refused)


async def resume_all(tenure: Tenure) -> None:
    """At failover."""
    await obey_znode(tenure)
    await resume_with(tenure, tenure.state.brokers)


async def resume_with(tenure: Tenure, brokers: Iterable[int]) -> None:
    """Brokers came: what waits for one of them goes on."""
    there = set(brokers)
    for partition in sorted(tenure.state.reassigning):
        assignment = tenure.state.assignment(partition)
        if there & set(assignment.target):
            await _advance(tenure, partition, assignment)


async def complete_if_caught_up(tenure: Tenure, partition: TopicPartition) -> None:
    """The ISR of a partition being moved has changed."""
    assignment = tenure.state.assignment(partition)
    if assignment.reassigning and _caught_up(tenure, partition, assignment):
        await _advance(tenure, partition, assignment)


def _caught_up(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> bool:
    return set(assignment.target) <= set(tenure.state.leaderships[partition].isr)


async def _advance(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    """As far as a reassignment can go now."""
    state = tenure.state
    if partition not in state.leaderships:
        return
    if partition.topic in state.topics_to_delete:
        state.deletion_halted.add(partition.topic)
    await _write_down(tenure, partition, assignment)
    state.reassigning.add(partition)
    if assignment.reassigning and not _caught_up(tenure, partition, assignment):
        await _begin(tenure, partition, assignment)
    else:
        await _complete(tenure, partition, assignment)


async def _write_down(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    """In ZooKeeper and here; replicas that an earlier order was adding and this one does not want are stopped."""
    state = tenure.state
    current = state.assignment(partition)
    if current == assignment:
        return
    await _store_assignment(tenure, partition, assignment)
    state.assign(partition, assignment)
    unwanted = [broker for broker in current.replicas if broker not in assignment.replicas]
    await _stop(tenure, partition, unwanted)


async def _begin(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    """All replicas, old and new, hear of the assignment under a new leader epoch; the new ones start to copy."""
    await _tell_under_new_epoch(tenure, partition, assignment)
    new = [
        replica
        for broker in assignment.adding
        if tenure.state.replica_phase(replica := Replica(partition, broker)) is ReplicaPhase.NON_EXISTENT
    ]
    await tenure.move_replicas(new, ReplicaPhase.NEW)


async def _complete(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    """The target replicas are in sync: the others go, after the leadership has left them."""
    state = tenure.state
    await tenure.move_replicas([Replica(partition, broker) for broker in assignment.adding], ReplicaPhase.ONLINE)
    final = Assignment(assignment.target)
    state.assign(partition, final)
    leader = state.leaderships[partition].leader
    if leader in final.replicas and state.is_online(leader, partition):
        await _tell_under_new_epoch(tenure, partition, final)
    else:
        await tenure.bring_online([partition], Strategy.REASSIGN_PARTITION)
    await _stop(tenure, partition, assignment.removing)
    await _store_assignment(tenure, partition, final)
    state.assign(partition, final)
    state.reassigning.discard(partition)
    await _forget_in_znode(tenure, [partition])
    await tenure.tell([partition])
    log.info("%s is on brokers %s now", partition, list(final.replicas))
    await topic_deletion.resume_topics(tenure, [partition.topic])


async def _stop(tenure: Tenure, partition: TopicPartition, brokers: Sequence[int]) -> None:
    """Out of the ISR, stopped and deleted. Nobody waits for the answer: a broker that is away lets go of the replica
    when it comes back (broker/cluster/stray_replicas.py)."""
    if not brokers:
        return
    replicas = [Replica(partition, broker) for broker in brokers]
    await tenure.take_offline(replicas)
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        await tenure.move_replicas(replicas, phase)


async def _tell_under_new_epoch(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    """So that every replica takes over the list of replicas; the ISR and the leader stay."""
    while True:
        current = (await tenure.store.leaderships([partition]))[partition]
        if current is None or current.controller_epoch > tenure.state.controller_epoch:
            state_log.change_failed(tenure.clock, partition, "reassignment", f"its state is {current}")
            return
        wanted = current.led_by(current.leader, current.isr)._replace(controller_epoch=tenure.state.controller_epoch)
        result = (await tenure.store.update_leaderships({partition: wanted}))[partition]
        if isinstance(result, Leadership):
            break
        if not lost_race(result):
            state_log.change_failed(tenure.clock, partition, "reassignment", str(result))
            return
    tenure.state.leaderships[partition] = result
    state_log.leadership_changed(tenure.clock, tenure.state, partition, current, result, "ReassignPartition")
    batch = tenure.batch()
    batch.leader_and_isr(assignment.origin, partition)
    batch.leader_and_isr(assignment.adding, partition, is_new=True)
    await tenure.send(batch)


async def _store_assignment(tenure: Tenure, partition: TopicPartition, assignment: Assignment) -> None:
    topic = partition.topic
    all_partitions = {**tenure.state.assignments[topic], partition.partition: assignment}
    await tenure.store.set_assignment(topic, tenure.state.topic_ids.get(topic), all_partitions)


async def _forget_in_znode(tenure: Tenure, partitions: Iterable[TopicPartition]) -> None:
    """Take partitions out of `/admin/reassign_partitions`; the last one takes the znode with it."""
    gone = set(partitions)
    znode = await tenure.store.znodes.get(REASSIGN_PARTITIONS_PATH) if gone else None
    if znode is None:
        return
    try:
        asked = decode_reassignment(znode[0])
    except BadZnode:
        return  # obey_znode says so, and deletes it
    left = {partition: target for partition, target in asked.items() if TopicPartition(*partition) not in gone}
    if not left:
        await tenure.store.znodes.settle(Delete(REASSIGN_PARTITIONS_PATH))
        tenure.soon(ReassignmentAsked())
    elif len(left) < len(asked):
        await tenure.store.znodes.settle(SetData(REASSIGN_PARTITIONS_PATH, encode_reassignment(left)))
