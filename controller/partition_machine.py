"""Phases of partitions, and the plans that take them from one to another (FEATURES C9; PartitionStateMachine.scala).

Pure: a plan is made from the state and from what ZooKeeper says now; `adopt` takes in what ZooKeeper accepted. What may
be told to brokers is in the state only after that, so no broker hears of a leader that ZooKeeper does not know.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from odradek.controller.elections import (
    Leadership,
    Strategy,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    first_leadership,
)
from odradek.controller.state import ClusterState, PartitionPhase, TopicPartition

VALID_PREVIOUS: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}


def may_become(state: ClusterState, partition: TopicPartition, target: PartitionPhase) -> bool:
    return state.phase(partition) in VALID_PREVIOUS[target]


def move(state: ClusterState, partitions: Iterable[TopicPartition], target: PartitionPhase) -> list[TopicPartition]:
    """Into a phase that needs no election; returns those for which it would be illegal, which stay."""
    assert target is not PartitionPhase.ONLINE, "a partition goes online by an election"
    refused = []
    for partition in partitions:
        if not may_become(state, partition, target):
            refused.append(partition)
        elif target is PartitionPhase.NON_EXISTENT:
            state.partition_phases.pop(partition, None)
        else:
            state.partition_phases[partition] = target
    return refused


@dataclass(slots=True)
class Elections:
    """Step one of going online: what to write, and for whom there is nobody."""

    strategy: Strategy
    before: dict[TopicPartition, Leadership] = field(default_factory=dict)
    """What ZooKeeper said when the choice was made; its version is what the write expects."""
    to_write: dict[TopicPartition, Leadership] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)


def first_states(state: ClusterState, partitions: Iterable[TopicPartition]) -> Elections:
    """New partitions: state znodes to be created."""
    plan = Elections(Strategy.OFFLINE_PARTITION)
    for partition in partitions:
        replicas = state.replicas(partition)
        chosen = first_leadership(replicas, state.online_among(replicas, partition), state.controller_epoch)
        if chosen is None:
            plan.failed[partition] = f"none of the assigned replicas {list(replicas)} is live"
        else:
            plan.to_write[partition] = chosen
    return plan


def plan_elections(
    state: ClusterState,
    strategy: Strategy,
    found: Mapping[TopicPartition, Leadership | None],
    unclean_topics: Collection[str] = (),
) -> Elections:
    """Choose leaders from what ZooKeeper says (None: there is no state znode).

    `unclean_topics` allow an election outside the ISR (OfflinePartition strategy only).
    """
    plan = Elections(strategy)
    for partition, current in found.items():
        if current is None:
            plan.failed[partition] = "its state znode does not exist"
        elif current.controller_epoch > state.controller_epoch:
            plan.failed[partition] = f"its state was written by a later controller, epoch {current.controller_epoch}"
        else:
            chosen = _elect(state, strategy, partition, current, partition.topic in unclean_topics)
            if chosen is None:
                plan.failed[partition] = (
                    f"Failed to elect leader for partition {partition} under strategy {strategy.value}"
                )
            else:
                plan.before[partition] = current
                plan.to_write[partition] = chosen._replace(controller_epoch=state.controller_epoch)
    return plan


def _elect(
    state: ClusterState, strategy: Strategy, partition: TopicPartition, current: Leadership, unclean_allowed: bool
) -> Leadership | None:
    assignment = state.assignment(partition)
    live = state.online_among((*assignment.replicas, *current.isr), partition)
    match strategy:
        case Strategy.OFFLINE_PARTITION:
            return elect_offline(current, assignment.replicas, live, unclean_allowed=unclean_allowed)
        case Strategy.REASSIGN_PARTITION:
            return elect_reassigned(current, assignment.target, live)
        case Strategy.PREFERRED_REPLICA:
            return elect_preferred(current, assignment.replicas, live)
        case Strategy.CONTROLLED_SHUTDOWN:
            there = state.online_among(assignment.replicas, partition, or_shutting_down=True)
            return elect_for_shutdown(current, assignment.replicas, there, state.shutting_down)


def recipients(state: ClusterState, strategy: Strategy, partition: TopicPartition) -> list[int]:
    """Brokers that are told of an election by LeaderAndIsr; UpdateMetadata goes to all."""
    replicas = state.replicas(partition)
    if strategy is Strategy.REASSIGN_PARTITION or strategy is Strategy.PREFERRED_REPLICA:
        return list(replicas)
    or_shutting_down = strategy is Strategy.CONTROLLED_SHUTDOWN
    online = state.online_among(replicas, partition, or_shutting_down=or_shutting_down)
    return [broker for broker in replicas if broker in online]


def adopt(state: ClusterState, partition: TopicPartition, written: Leadership) -> None:
    """ZooKeeper has it: the partition is online with this leader."""
    assert may_become(state, partition, PartitionPhase.ONLINE), (partition, state.phase(partition))
    state.leaderships[partition] = written
    state.partition_phases[partition] = PartitionPhase.ONLINE


def initial_phase(state: ClusterState, partition: TopicPartition) -> PartitionPhase:
    """At failover: what a partition is by its state znode and the live brokers."""
    leadership = state.leaderships.get(partition)
    if leadership is None:
        return PartitionPhase.NEW
    return PartitionPhase.ONLINE if state.is_online(leadership.leader, partition) else PartitionPhase.OFFLINE
