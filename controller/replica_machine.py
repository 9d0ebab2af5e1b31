"""Phases of replicas, and how they are taken from one to another (Kafka's ReplicaStateMachine).

Only going offline writes to ZooKeeper: the replica leaves the ISR, and the leadership if it had it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import ClusterState, LeaderAndIsr, PartitionPhase, Replica, ReplicaPhase
from odradek.controller.controller_store import lost_race, slices
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.topics import NO_LEADER

SLICE = 200
"""Replicas that are handled in one go, in some milliseconds, before other tasks have their turn."""

VALID_PREVIOUS: Mapping[ReplicaPhase, frozenset[ReplicaPhase]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.OFFLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}


def may_become(state: ClusterState, replica: Replica, target: ReplicaPhase) -> bool:
    return state.replica_phase(replica) in VALID_PREVIOUS[target]


async def start(active: ActiveController) -> None:
    """Give each replica, at failover, the phase that follows from the live brokers.

    A replica on a dead broker counts as having failed to be deleted, to be on the safe side.
    """
    state = active.state
    for replica in state.all_replicas():
        await active.pause()
        is_online = state.is_online(replica.broker, replica.partition)
        state.replica_phases[replica] = ReplicaPhase.ONLINE if is_online else ReplicaPhase.DELETION_INELIGIBLE


async def tell_what_was_found(
    active: ActiveController, found: Mapping[TopicPartition, LeaderAndIsr], elected: Collection[TopicPartition]
) -> None:
    """Tell live brokers their replicas, at failover, and take the others out of the ISRs.

    Each replica is told once. The elections of this controller have told theirs; replicas of a partition whose ISR
    shrinks are told when it has shrunk; those of a partition whose state is still as it was `found` are told here. All
    metadata was sent before.
    """
    state = active.state
    offline: list[Replica] = []
    shrinking: set[TopicPartition] = set()
    for replica, phase in state.replica_phases.items():
        await active.pause()
        if phase is not ReplicaPhase.ONLINE:
            offline.append(replica)
            current = state.leader_and_isr.get(replica.partition)
            if current is not None and replica.broker in current.isr:
                shrinking.add(replica.partition)
    await _tell_unchanged(active, found, lambda partition: partition not in shrinking)
    await take_offline(active, offline, elected)
    await _tell_unchanged(active, found, lambda partition: partition in shrinking)  # where the ISR stayed as it was


async def _tell_unchanged(
    active: ActiveController, found: Mapping[TopicPartition, LeaderAndIsr], wanted: Callable[[TopicPartition], bool]
) -> None:
    """Tell live brokers of their replicas whose partition's state is the very one that was `found`.

    The controller epoch of a state does not tell that it is old: where somebody has set `/controller_epoch` back, an
    old state need not have an earlier epoch than ours.
    """
    state, batch = active.state, active.batch()
    for (partition, broker), phase in state.replica_phases.items():
        await active.pause()
        if phase is not ReplicaPhase.ONLINE or not wanted(partition):
            continue
        current = state.leader_and_isr.get(partition)
        if current is not None and current is found.get(partition):
            batch.leader_and_isr([broker], partition, metadata=False)
    await active.send(batch)


async def move(active: ActiveController, replicas: Iterable[Replica], target: ReplicaPhase) -> None:
    """Take replicas into any phase but OFFLINE, and tell their brokers; a replica that may not enter it stays as it is,
    which is logged."""
    assert target is not ReplicaPhase.OFFLINE, "a replica goes offline by way of ZooKeeper"
    state, batch = active.state, active.batch()
    for replica in list(replicas):
        await active.pause()
        if may_become(state, replica, target) and not _would_demote(state, replica, target):
            _tell(state, replica, target, batch)
            _enter(state, replica, target)
        else:
            reason = f"the replica on broker {replica.broker} is {state.replica_phase(replica).value}"
            active.log_failure(replica.partition, f"replica {target.value}", reason)
    await active.send(batch)


def _would_demote(state: ClusterState, replica: Replica, target: ReplicaPhase) -> bool:
    """Tell whether a replica that leads would become a new one, which is illegal."""
    current = state.leader_and_isr.get(replica.partition)
    return target is ReplicaPhase.NEW and current is not None and current.leader == replica.broker


def _tell(state: ClusterState, replica: Replica, target: ReplicaPhase, batch: RequestBatch) -> None:
    partition, broker = replica
    if target is ReplicaPhase.DELETION_STARTED:
        batch.stop_replica([broker], partition, delete=True)
    elif partition in state.leader_and_isr:
        if target is ReplicaPhase.NEW:
            batch.leader_and_isr([broker], partition, is_new=True)
        elif target is ReplicaPhase.ONLINE and state.replica_phase(replica) is not ReplicaPhase.NEW:
            batch.leader_and_isr([broker], partition)


def _enter(state: ClusterState, replica: Replica, target: ReplicaPhase) -> None:
    if target is ReplicaPhase.NON_EXISTENT:
        state.assign(replica.partition, state.assignment(replica.partition).without(replica.broker))
        state.replica_phases.pop(replica, None)
    else:
        state.replica_phases[replica] = target


async def take_offline(
    active: ActiveController, replicas: Iterable[Replica], elected: Collection[TopicPartition] = (), why: str = ""
) -> None:
    """Stop replicas, take them out of the ISRs, and tell the others; `why` is noted where their brokers do not go.

    The ISR of a topic that is to be deleted stays as it is: nobody needs it any more. Where an election has just been
    held, in one of the partitions `elected`, it has taken the replicas out already, and the brokers were told.
    """
    state, batch = active.state, active.batch()
    by_broker: dict[int, list[TopicPartition]] = {}
    for replica in replicas:
        await active.pause()
        partition, broker = replica
        if not may_become(state, replica, ReplicaPhase.OFFLINE):
            continue
        current = state.leader_and_isr.get(partition)
        has_left = current is not None and partition in elected and broker not in current.isr
        if current is not None and not has_left and not state.being_deleted(partition):
            by_broker.setdefault(broker, []).append(partition)
            continue
        batch.stop_replica([broker], partition, delete=False)
        state.replica_phases[replica] = ReplicaPhase.OFFLINE
        if not has_left:
            batch.update_metadata([partition])
    for broker, partitions in by_broker.items():
        for some in slices(partitions, SLICE):
            for partition in some:
                batch.stop_replica([broker], partition, delete=False)
            await _shrink(active, broker, some, batch, why or f"OfflineReplica {broker}")
            if batch.is_full:
                await active.send(batch)
    await active.send(batch)


async def _shrink(
    active: ActiveController, broker: int, partitions: Sequence[TopicPartition], batch: RequestBatch, why: str
) -> None:
    """Take one broker out of ISRs; one that is not in an ISR any more is offline without a write.

    The first attempt trusts `ClusterState`, since its writes expect the version that is known (see `present_states`).
    """
    state = active.state
    remaining, from_zookeeper = list(partitions), False
    while remaining:
        found = await active.present_states(remaining, from_zookeeper=from_zookeeper)
        remaining, chosen = [], {}
        for partition, current in found.items():
            await active.pause()
            later = current is not None and current.controller_epoch > state.controller_epoch
            if current is not None and not later and broker in current.isr:
                written = current.without(broker, state.replicas(partition))
                chosen[partition] = written._replace(controller_epoch=state.controller_epoch)
            elif not from_zookeeper:
                remaining.append(partition)
            elif current is None:
                active.log_failure(partition, why, "its state znode does not exist")
            elif later:
                epoch = current.controller_epoch
                active.log_failure(partition, why, f"its state was written by a later controller, epoch {epoch}")
            else:
                unchanged = current._replace(controller_epoch=state.controller_epoch)
                _adopt_offline(state, Replica(partition, broker), unchanged, batch)
        results = await active.store.update_leader_and_isr(chosen)
        for partition, result in results.items():
            await active.pause()
            if isinstance(result, LeaderAndIsr):
                _adopt_offline(state, Replica(partition, broker), result, batch)
                active.log_change(partition, found[partition], result, why)
            elif lost_race(result) or not from_zookeeper:
                remaining.append(partition)
            else:
                active.log_failure(partition, why, str(result))
        from_zookeeper = True


def _adopt_offline(state: ClusterState, replica: Replica, written: LeaderAndIsr, batch: RequestBatch) -> None:
    """Take in a state that ZooKeeper has, in whose ISR the replica is not; the other replicas are told of it."""
    partition, broker = replica
    state.replica_phases[replica] = ReplicaPhase.OFFLINE
    state.leader_and_isr[partition] = written
    if written.leader == NO_LEADER and state.phase(partition) is PartitionPhase.ONLINE:
        state.partition_phases[partition] = PartitionPhase.OFFLINE  # so that a leader is elected once there can be one
    batch.leader_and_isr([other for other in state.replicas(partition) if other != broker], partition)
