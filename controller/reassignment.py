"""Moving replicas (KIP-455; Kafka's onPartitionReassignment): the new ones join first, the old ones leave when all
target replicas are in the ISR.

The assignment znode holds the intermediate state (adding, removing), so a new controller goes on from there.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from odradek.controller import partition_machine, replica_machine
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import Assignment, LeaderAndIsr, PartitionPhase, Replica, ReplicaPhase, Topic
from odradek.controller.controller_store import lost_race, slices
from odradek.controller.events import ReassignmentAsked
from odradek.controller.partition_machine import Strategy
from odradek.controller.topic_admin import zookeeper_refusals
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import Delete, Operation, SetData, StoreError
from odradek.zk_schema.znodes.admin import REASSIGN_PARTITIONS_PATH, decode_reassignment, encode_reassignment
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

SLICE = 1000
"""Partitions that are looked at before others have their turn."""
LEFT_OVERS_MAX = 1_000_000
"""Most brokers times partitions at which a new controller tells each broker all partitions that it should not have:
300 brokers and 100,000 partitions make 30 million entries. Above it, a broker finds them itself when it comes back."""

Outcome = tuple[ErrorCode, str | None]
DONE: Outcome = (ErrorCode.NONE, None)
NO_PARTITION: Outcome = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
NOTHING_TO_CANCEL: Outcome = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")


async def reassign(
    active: ActiveController, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Outcome]:
    """Begin to move partitions to new replicas; None cancels what is under way. Return errors and messages."""
    outcomes: dict[TopicPartition, Outcome] = {}
    accepted: dict[TopicPartition, Assignment] = {}
    for partition, target in targets.items():
        refusal = _refusal(active, partition, target)
        if refusal is not None:
            outcomes[partition] = refusal
            continue
        current = active.state.assignment(partition)
        accepted[partition] = current.reassigned_to(current.origin if target is None else target)
    # The latest order holds: an earlier one in the znode for the same partition is void.
    await _forget_in_znode(active, accepted)
    for partition, assignment in accepted.items():
        outcomes[partition] = await _advance(active, partition, assignment)
    return outcomes


def _refusal(
    active: ActiveController, partition: TopicPartition, target: Sequence[int] | None, *, by_znode: bool = False
) -> Outcome | None:
    """Say why an order cannot be carried out, in Kafka's order of checks: what is asked, then whether it exists.

    An order in the znode (`by_znode`) stands there until it is done, so it may wait for a broker that is away.
    """
    state = active.state
    current = state.assignment(partition)
    if target is None:
        if not current.reassigning or state.being_deleted(partition):
            return NOTHING_TO_CANCEL
        return _refuse_loss(active, partition, current.origin)
    if not target:
        return _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        return _invalid(f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if min(target) < 0:
        return _invalid(f"Invalid broker id in replica list: {list(target)}")
    dead = [broker for broker in current.reassigned_to(target).adding if not state.is_live(broker)]
    if dead and not by_znode:
        return _invalid(
            f"Replica assignment has brokers that are not alive: {dead}, live brokers: {sorted(state.live_broker_ids)}"
        )
    if not current.replicas or state.being_deleted(partition) or partition not in state.leader_and_isr:
        return NO_PARTITION
    return _refuse_loss(active, partition, target)


def _refuse_loss(active: ActiveController, partition: TopicPartition, target: Sequence[int]) -> Outcome | None:
    """Refuse to delete the last replicas in sync, which a move under way has added (as KRaft does); None: allowed."""
    current = active.state.leader_and_isr.get(partition)
    kept = active.state.assignment(partition).reassigned_to(target).replicas
    if current is None or set(kept) & set(current.isr):
        return None
    return _invalid(f"Records would be lost: of the replicas {list(kept)} none is in sync, only {list(current.isr)}.")


def _invalid(why: str) -> Outcome:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why


def under_way(
    active: ActiveController, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, Assignment]:
    """Return the reassignments that are under way among some partitions (None: all)."""
    asked = active.state.reassigning if partitions is None else partitions
    found = {partition: active.state.assignment(partition) for partition in asked}
    return {partition: assignment for partition, assignment in sorted(found.items()) if assignment.reassigning}


async def obey_znode(active: ActiveController) -> None:
    """Obey `/admin/reassign_partitions`, which tools before 2.6 write; each entry leaves it when done or refused."""
    store = active.store
    if not await store.exists(REASSIGN_PARTITIONS_PATH, watch=True):
        return
    znode = await store.get(REASSIGN_PARTITIONS_PATH)
    if znode is None:
        active.soon(ReassignmentAsked())
        return
    try:
        asked = {TopicPartition(*p): target for p, target in decode_reassignment(znode[0]).items()}
    except BadZnode as bad:
        log.error("/admin/reassign_partitions cannot be read and is deleted: %s", bad)
        asked = {}
    if not asked:  # no partition would ever take the znode with it, and tools wait for it to go
        await store.write_until_done(Delete(REASSIGN_PARTITIONS_PATH, znode[1].version))
        active.soon(ReassignmentAsked())
        return
    refused = []
    for partition, target in asked.items():
        current = active.state.assignment(partition)
        wanted = current.reassigned_to(target)
        if wanted == current and current.reassigning and not active.state.being_deleted(partition):
            continue  # under way, also while one of its brokers is not there
        refusal = _refusal(active, partition, target, by_znode=True)
        if refusal is not None:
            log.warning("%s is not reassigned: %s %s", partition, refusal[0].name, refusal[1])
            refused.append(partition)
        elif await _advance(active, partition, wanted) != DONE:
            refused.append(partition)
    await _forget_in_znode(active, refused)


async def resume_all(active: ActiveController) -> None:
    """Go on, at failover, with what earlier controllers began."""
    await obey_znode(active)
    await resume_with(active, active.state.brokers)
    await _delete_left_overs(active)


async def _delete_left_overs(active: ActiveController) -> None:
    """Tell brokers to delete the partitions that are assigned to others, if they have them.

    An earlier controller may have died before it could say so. Only what ZooKeeper assigns to others counts: nobody
    deletes what is merely unknown, nor what the ISR counts on (somebody may have edited the assignment by hand).
    """
    state, batch = active.state, active.batch()
    if len(state.brokers) * len(state.leader_and_isr) > LEFT_OVERS_MAX:
        return
    for some in slices(list(state.leader_and_isr.items()), SLICE):
        for partition, current in some:
            replicas = state.replicas(partition)
            if replicas:
                kept = {*replicas, *current.isr, current.leader}
                batch.stop_replica([b for b in state.brokers if b not in kept], partition, delete=True)
        await active.yield_to_others()
    await active.send(batch)


async def resume_with(active: ActiveController, brokers: Iterable[int]) -> None:
    """Go on with the reassignments that wait for one of these brokers, which have come."""
    there = set(brokers)
    for partition in sorted(active.state.reassigning):
        assignment = active.state.assignment(partition)
        if there & set(assignment.target):
            await _advance(active, partition, assignment)


async def complete_where_caught_up(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """Complete those reassignments of some partitions that were waiting for a new ISR, or for a leader."""
    for partition in sorted(active.state.reassigning.intersection(partitions)):
        assignment = active.state.assignment(partition)
        if _caught_up(active, partition, assignment):
            await _advance(active, partition, assignment)


def _caught_up(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> bool:
    return set(assignment.target) <= set(active.state.leader_and_isr[partition].isr)


async def _advance(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> Outcome:
    """Take a reassignment as far as it can go now; refused when the partition is gone, when its topic is to be deleted,
    or when ZooKeeper does not take it.

    Brokers that have deleted their replicas of such a topic would create them again, and nobody would order to delete
    them once more.
    """
    state = active.state
    if partition not in state.leader_and_isr or state.being_deleted(partition):
        return NO_PARTITION
    written = await _write_down(active, partition, assignment)
    if written != DONE:
        return written
    state.reassigning.add(partition)
    if assignment.reassigning and not _caught_up(active, partition, assignment):
        await _begin(active, partition, assignment)
    else:
        await _complete(active, partition, assignment)
    return DONE


async def _write_down(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> Outcome:
    """Write an order to ZooKeeper, adopt it, and stop replicas that an earlier order was adding and this one is not."""
    state = active.state
    current = state.assignment(partition)
    if current == assignment:
        return DONE
    stored = await _store_assignment(active, partition, assignment)
    if stored != DONE:
        return stored
    state.assign(partition, assignment)
    unwanted = [broker for broker in current.replicas if broker not in assignment.replicas]
    await _stop(active, partition, unwanted)
    return DONE


async def _begin(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> None:
    """Tell all replicas, old and new, the assignment under a new leader epoch; the new ones start to copy.

    If the leader is a replica that an earlier order has added and this one does not want, another one is elected (Kafka
    elects none).
    """
    state = active.state
    leader, isr = state.leader_and_isr[partition].leader, state.leader_and_isr[partition].isr
    if leader not in assignment.replicas and state.online_among(set(isr).intersection(assignment.replicas), partition):
        partition_machine.move(active, [partition], PartitionPhase.OFFLINE)
        await partition_machine.bring_online(active, [partition], Strategy.OFFLINE_PARTITION)
    await _tell_under_new_epoch(active, partition, assignment)
    new = [
        replica
        for broker in assignment.adding
        if state.replica_phase(replica := Replica(partition, broker)) is ReplicaPhase.NON_EXISTENT
    ]
    await replica_machine.move(active, new, ReplicaPhase.NEW)


async def _complete(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> None:
    """Give leadership to one of the target replicas, which are all in sync now, then remove the others."""
    state = active.state
    await replica_machine.move(
        active, [Replica(partition, broker) for broker in assignment.adding], ReplicaPhase.ONLINE
    )
    final = Assignment(assignment.target)
    state.assign(partition, final)  # the election and the requests to brokers are about this one
    leader = state.leader_and_isr[partition].leader
    if leader in final.replicas and state.is_online(leader, partition):
        await _tell_under_new_epoch(active, partition, final)
    else:
        failed = await partition_machine.bring_online(active, [partition], Strategy.REASSIGN_PARTITION)
        if failed:  # no replica that is to stay can lead now, and until one can, none may go
            state.assign(partition, assignment)
            return
    await _stop(active, partition, assignment.removing)
    await _store_assignment(active, partition, final)
    state.reassigning.discard(partition)
    await _forget_in_znode(active, [partition])
    await active.send_metadata([partition])
    log.info("%s is on brokers %s now", partition, list(final.replicas))


async def _stop(active: ActiveController, partition: TopicPartition, brokers: Sequence[int]) -> None:
    """Take replicas out of the ISR, stop them and delete them.

    Nobody waits for the answer: a broker that is away lets go of the replica when it comes back
    (broker/cluster/stray_replicas.py), and one that is there does so, at the latest, when the next controller names the
    replicas without it (broker/replication/controller_requests.py).
    """
    if not brokers:
        return
    replicas = [Replica(partition, broker) for broker in brokers]
    await replica_machine.take_offline(active, replicas, why="ReassignPartition")
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        await replica_machine.move(active, replicas, phase)


async def _tell_under_new_epoch(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> None:
    """Tell every replica the list of replicas. The leader and the ISR stay as they are, but replicas that an earlier
    order has added leave the ISR, if its controller died before it could stop them."""
    while True:
        current = (await active.store.leader_and_isr([partition]))[partition]
        if current is None or current.controller_epoch > active.state.controller_epoch:
            active.log_failure(partition, "reassignment", f"its state is {current}")
            return
        isr = current.isr
        if assignment.reassigning and current.leader in assignment.replicas:
            isr = tuple(broker for broker in isr if broker in assignment.replicas)
        wanted = current.led_by(current.leader, isr)._replace(controller_epoch=active.state.controller_epoch)
        result = (await active.store.update_leader_and_isr({partition: wanted}))[partition]
        if isinstance(result, LeaderAndIsr):
            break
        if not lost_race(result):
            active.log_failure(partition, "reassignment", str(result))
            return
    active.state.leader_and_isr[partition] = result
    active.log_change(partition, current, result, "ReassignPartition")
    batch = active.batch()
    batch.leader_and_isr(assignment.origin, partition)
    batch.leader_and_isr(assignment.adding, partition, is_new=True)
    await active.send(batch)


async def _store_assignment(active: ActiveController, partition: TopicPartition, assignment: Assignment) -> Outcome:
    """Write one partition's replicas, and keep whatever else the topic's znode holds. Refused when the partition is not
    in it, or when ZooKeeper refuses the write, say because it is too large."""
    topic_id = active.state.topic_ids.get(partition.topic)

    def change(found: Topic) -> Topic | None:
        # A tool from before 2.8 has written it without the id.
        if found.topic_id not in (None, topic_id) or partition.partition not in found.partitions:
            return None
        return Topic(topic_id, {**found.partitions, partition.partition: assignment})

    try:
        with zookeeper_refusals():
            written = await active.store.change_assignment(partition.topic, change)
    except KafkaError as refused:
        active.log_failure(partition, "reassignment", refused.message)
        return refused.code, refused.message
    if written is None:
        active.log_failure(partition, "reassignment", "it is not in ZooKeeper any more")
        return NO_PARTITION
    return DONE


async def _forget_in_znode(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """Take partitions out of `/admin/reassign_partitions`; the last one takes the znode with it."""
    gone, store = set(partitions), active.store
    while gone:
        znode = await store.get(REASSIGN_PARTITIONS_PATH)
        if znode is None:
            return
        data, stat = znode
        try:
            asked = decode_reassignment(data)
        except BadZnode:
            return  # obey_znode says so, and deletes it
        left = {partition: target for partition, target in asked.items() if TopicPartition(*partition) not in gone}
        if len(left) == len(asked):
            return
        change: Operation = Delete(REASSIGN_PARTITIONS_PATH, stat.version)
        if left:
            change = SetData(REASSIGN_PARTITIONS_PATH, encode_reassignment(left), stat.version)
        (result,) = await store.write_each([change])
        if isinstance(result, StoreError) and lost_race(result):
            continue  # a tool has added partitions to the order
        if not left:
            active.soon(ReassignmentAsked())
        return
