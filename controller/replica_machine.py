"""Phases of replicas, and the plans that take them from one to another (FEATURES C9; ReplicaStateMachine.scala).

Only going offline writes to ZooKeeper: the replica leaves the ISR, and the leadership if it had it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.controller.elections import Leadership, without_replica
from odradek.controller.requests import RequestBatch
from odradek.controller.state import ClusterState, Replica, ReplicaPhase, TopicPartition

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


def move(state: ClusterState, replicas: Iterable[Replica], target: ReplicaPhase, batch: RequestBatch) -> list[Replica]:
    """Into a phase, adding what its broker must hear to `batch`; returns those for which it would be illegal.

    Going OFFLINE is `begin_offline`, the writes, then `adopt_offline`.
    """
    assert target is not ReplicaPhase.OFFLINE, "a replica goes offline by way of ZooKeeper"
    refused = []
    for replica in replicas:
        if may_become(state, replica, target) and not _would_demote(state, replica, target):
            _tell(state, replica, target, batch)
            _enter(state, replica, target)
        else:
            refused.append(replica)
    return refused


def _would_demote(state: ClusterState, replica: Replica, target: ReplicaPhase) -> bool:
    """A replica that is created cannot be the leader already."""
    leadership = state.leaderships.get(replica.partition)
    return target is ReplicaPhase.NEW and leadership is not None and leadership.leader == replica.broker


def _tell(state: ClusterState, replica: Replica, target: ReplicaPhase, batch: RequestBatch) -> None:
    partition, broker = replica
    if target is ReplicaPhase.DELETION_STARTED:
        batch.stop_replica([broker], partition, delete=True)
    elif partition in state.leaderships:
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


@dataclass(slots=True)
class IsrRemovals:
    """Replicas of one broker that go offline: what to write, and what needs no write."""

    broker: int
    to_write: dict[TopicPartition, Leadership] = field(default_factory=dict)
    unchanged: dict[TopicPartition, Leadership] = field(default_factory=dict)
    """Not in the ISR any more (or never): only told."""
    failed: dict[TopicPartition, str] = field(default_factory=dict)


def begin_offline(state: ClusterState, replicas: Iterable[Replica], batch: RequestBatch) -> list[Replica]:
    """Tell the brokers that still live to stop fetching; returns the replicas for which it is legal."""
    legal = [replica for replica in replicas if may_become(state, replica, ReplicaPhase.OFFLINE)]
    for partition, broker in legal:
        batch.stop_replica([broker], partition, delete=False)
    return legal


def plan_removals(state: ClusterState, broker: int, found: Mapping[TopicPartition, Leadership | None]) -> IsrRemovals:
    """From what ZooKeeper says (None: no state znode)."""
    plan = IsrRemovals(broker)
    for partition, current in found.items():
        if current is None:
            plan.failed[partition] = "its state znode does not exist"
        elif current.controller_epoch > state.controller_epoch:
            plan.failed[partition] = f"its state was written by a later controller, epoch {current.controller_epoch}"
        elif broker in current.isr:
            written = without_replica(current, broker)
            plan.to_write[partition] = written._replace(controller_epoch=state.controller_epoch)
        else:
            plan.unchanged[partition] = current._replace(controller_epoch=state.controller_epoch)
    return plan


def adopt_offline(state: ClusterState, replica: Replica, leadership: Leadership | None, batch: RequestBatch) -> None:
    """ZooKeeper has it (None: there is no ISR to leave): the other replicas hear of the smaller ISR."""
    partition, broker = replica
    state.replica_phases[replica] = ReplicaPhase.OFFLINE
    if leadership is None:
        batch.update_metadata([partition])
    else:
        state.leaderships[partition] = leadership
        batch.leader_and_isr([other for other in state.replicas(partition) if other != broker], partition)


def initial_phase(state: ClusterState, replica: Replica) -> ReplicaPhase:
    """At failover. One on a dead broker counts as having failed to be deleted, to be on the safe side."""
    online = state.is_online(replica.broker, replica.partition)
    return ReplicaPhase.ONLINE if online else ReplicaPhase.DELETION_INELIGIBLE
