"""Phases of partitions, and how they get their leaders (Kafka's PartitionStateMachine).

A partition goes online by an election: choose a leader from its state, write the new state if nobody else has written
meanwhile, adopt it, tell the brokers. If somebody has written, the state is read again. The elections are pure
functions at the end of this file: from the current state and the live brokers they make the next state, or None when
nobody may lead (Kafka's Election.scala).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import FIRST_LEADER_EPOCH, ClusterState, LeaderAndIsr, PartitionPhase
from odradek.controller.controller_store import lost_race, slices
from odradek.controller.first_states import create_first_states
from odradek.controller.request_batch import RequestBatch
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import ConnectionLost, NodeExists

SLICE = 200
"""Partitions that are handled in one go, in some milliseconds, before other tasks have their turn."""

VALID_PREVIOUS: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}


class Strategy(Enum):
    """Reason for an election, which decides how the leader is chosen (Kafka's PartitionLeaderElectionStrategy)."""

    OFFLINE_PARTITION = "OfflinePartition"
    REASSIGN_PARTITION = "ReassignPartition"
    PREFERRED_REPLICA = "PreferredReplica"
    CONTROLLED_SHUTDOWN = "ControlledShutdown"

    @property
    def name_in_kafka(self) -> str:
        """The name of Kafka's class, by which clients and tests know it."""
        return f"{self.value.removesuffix('Partition')}PartitionLeaderElectionStrategy"


def may_become(state: ClusterState, partition: TopicPartition, target: PartitionPhase) -> bool:
    return state.phase(partition) in VALID_PREVIOUS[target]


async def start(active: ActiveController) -> set[TopicPartition]:
    """Give each partition, at failover, the phase that follows from its state and the live brokers; elect leaders where
    there are none, and return the partitions that have got one."""
    state = active.state
    for partition in state.partitions():
        await active.pause()
        current = state.leader_and_isr.get(partition)
        if current is None:
            phase = PartitionPhase.NEW
        elif state.is_online(current.leader, partition):
            phase = PartitionPhase.ONLINE
        else:
            phase = PartitionPhase.OFFLINE
        state.partition_phases[partition] = phase
    return await elect_where_needed(active)


def move(active: ActiveController, partitions: Iterable[TopicPartition], target: PartitionPhase) -> None:
    """Move partitions to a phase that needs no election; one that may not go there stays as it is, which is logged."""
    assert target is not PartitionPhase.ONLINE, "a partition goes online by an election"
    state = active.state
    for partition in partitions:
        if not may_become(state, partition, target):
            active.log_failure(partition, target.value, f"it is {state.phase(partition).value}")
        elif target is PartitionPhase.NON_EXISTENT:
            state.partition_phases.pop(partition, None)
        else:
            state.partition_phases[partition] = target


async def elect_where_needed(active: ActiveController, topic: str | None = None) -> set[TopicPartition]:
    """Elect leaders for new and offline partitions (of one topic, or of all) that are not being deleted.

    Returns those that have a leader now, of which all brokers have been told.
    Kafka's triggerOnlinePartitionStateChange: called whenever there may be a leader where there was none, or none
    where there was one.
    """
    state = active.state
    waiting = []
    for partition, phase in state.partition_phases.items():
        await active.pause()
        wanted = phase in (PartitionPhase.NEW, PartitionPhase.OFFLINE) and topic in (None, partition.topic)
        if wanted and not state.being_deleted(partition):
            waiting.append(partition)
    failed = await bring_online(active, waiting, Strategy.OFFLINE_PARTITION)
    return set(waiting) - failed.keys()


async def bring_online(
    active: ActiveController, partitions: Iterable[TopicPartition], strategy: Strategy, *, unclean: bool = False
) -> dict[TopicPartition, str]:
    """Elect leaders, first ones or new ones, and tell the brokers; return the partitions that got none, and why.

    `unclean` allows leaders outside the ISR whatever the topics say (an administrator's explicit order).
    """
    state, batch = active.state, active.batch()
    new: list[TopicPartition] = []
    known: list[TopicPartition] = []
    for partition in partitions:
        await active.pause()
        if may_become(state, partition, PartitionPhase.ONLINE):
            (new if state.phase(partition) is PartitionPhase.NEW else known).append(partition)
    failed: dict[TopicPartition, str] = {}
    for some in slices(new, SLICE):
        failed_here, existing = await _create_states(active, some, batch)
        failed |= failed_here
        known += existing
    for some in slices(known, SLICE):
        failed |= await _elect(active, some, strategy, unclean, batch)
        if batch.is_full:  # the first begin to lead while the others are elected
            await active.send(batch)
    await active.send(batch)
    for partition, reason in failed.items():
        await active.pause()
        active.log_failure(partition, strategy.value, reason)
    return failed


async def _create_states(
    active: ActiveController, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> tuple[dict[TopicPartition, str], list[TopicPartition]]:
    """Give new partitions their first states; returns failures, and partitions that turn out to have one already."""
    state = active.state
    failed: dict[TopicPartition, str] = {}
    existing: list[TopicPartition] = []
    chosen: dict[TopicPartition, LeaderAndIsr] = {}
    for partition in partitions:
        await active.pause()
        replicas = state.replicas(partition)
        first = first_leader_and_isr(replicas, state.online_among(replicas, partition), state.controller_epoch)
        if first is None:
            failed[partition] = f"none of the assigned replicas {list(replicas)} is live"
        else:
            chosen[partition] = first
    while chosen:
        results = await create_first_states(active.store, chosen)
        chosen = {partition: chosen[partition] for partition, r in results.items() if isinstance(r, ConnectionLost)}
        for partition, result in results.items():
            await active.pause()
            if isinstance(result, LeaderAndIsr):
                _adopt(active, partition, None, result, "NewPartition")
                batch.leader_and_isr(result.isr, partition, is_new=True)
            elif isinstance(result, NodeExists):
                existing.append(partition)
            elif partition not in chosen:
                failed[partition] = str(result)
    return failed, existing


async def _elect(
    active: ActiveController,
    partitions: Sequence[TopicPartition],
    strategy: Strategy,
    unclean: bool,
    batch: RequestBatch,
) -> dict[TopicPartition, str]:
    """Elect leaders of partitions that have a state; return the partitions that got none, and why.

    The first attempt trusts `ClusterState`, since its writes expect the version that is known (see `present_states`).
    """
    failed: dict[TopicPartition, str] = {}
    remaining, from_zookeeper = list(partitions), False
    while remaining:
        found = await active.present_states(remaining, from_zookeeper=from_zookeeper)
        unclean_topics = await _unclean_topics(active, strategy, found, unclean)
        chosen: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = []
        for partition, current in found.items():
            await active.pause()
            verdict = choose(active.state, strategy, partition, current, partition.topic in unclean_topics)
            if isinstance(verdict, LeaderAndIsr):
                chosen[partition] = verdict
            elif from_zookeeper:
                failed[partition] = verdict
            else:
                remaining.append(partition)
        written = await active.store.update_leader_and_isr(chosen)
        for partition, result in written.items():
            await active.pause()
            if isinstance(result, LeaderAndIsr):
                _adopt(active, partition, found[partition], result, strategy.value)
                batch.leader_and_isr(_recipients(active.state, strategy, partition), partition)
            elif lost_race(result) or not from_zookeeper:
                remaining.append(partition)
            else:
                failed[partition] = str(result)
        from_zookeeper = True
    return failed


def choose(
    state: ClusterState,
    strategy: Strategy,
    partition: TopicPartition,
    current: LeaderAndIsr | None,
    unclean_allowed: bool = False,
) -> LeaderAndIsr | str:
    """Return the state that a partition is to have, or the reason why there is no leader for it.

    `current` is what ZooKeeper says (None: there is no state znode); its version is what the write expects.
    `unclean_allowed` matters to the OfflinePartition strategy only.
    """
    if current is None:
        return "its state znode does not exist"
    if current.controller_epoch > state.controller_epoch:
        return f"its state was written by a later controller, epoch {current.controller_epoch}"
    assignment = state.assignment(partition)
    live = state.online_among((*assignment.replicas, *current.isr), partition)
    match strategy:
        case Strategy.OFFLINE_PARTITION:
            chosen = elect_offline(current, assignment.replicas, live, unclean_allowed=unclean_allowed)
        case Strategy.REASSIGN_PARTITION:
            chosen = elect_reassigned(current, assignment.target, live)
        case Strategy.PREFERRED_REPLICA:
            chosen = elect_preferred(current, assignment.replicas, live)
        case Strategy.CONTROLLED_SHUTDOWN:
            chosen = elect_for_shutdown(current, assignment.replicas, live, state.shutting_down)
    if chosen is None:
        return f"Failed to elect leader for partition {partition} under strategy {strategy.name_in_kafka}"
    return chosen._replace(controller_epoch=state.controller_epoch)


async def _unclean_topics(
    active: ActiveController,
    strategy: Strategy,
    found: Mapping[TopicPartition, LeaderAndIsr | None],
    unclean: bool,
) -> set[str]:
    """Find the topics that allow a leader from outside the ISR, among those of partitions with nobody live in it."""
    if strategy is not Strategy.OFFLINE_PARTITION:
        return set()
    hopeless = {
        partition.topic
        for partition, current in found.items()
        if current is not None and not active.state.online_among(current.isr, partition)
    }
    if unclean or not hopeless:
        return hopeless
    default = active.config.unclean_leader_election_enable
    return await active.store.topics_with_unclean_election(sorted(hopeless), default=default)


def _adopt(
    active: ActiveController, partition: TopicPartition, before: LeaderAndIsr | None, written: LeaderAndIsr, why: str
) -> None:
    """Take in a state that ZooKeeper has accepted: the partition is online with this leader."""
    state = active.state
    assert may_become(state, partition, PartitionPhase.ONLINE), (partition, state.phase(partition))
    state.leader_and_isr[partition] = written
    state.partition_phases[partition] = PartitionPhase.ONLINE
    active.log_change(partition, before, written, why)


def _recipients(state: ClusterState, strategy: Strategy, partition: TopicPartition) -> list[int]:
    """Return the brokers that are told of an election by LeaderAndIsr; UpdateMetadata goes to all."""
    replicas = state.replicas(partition)
    if strategy is Strategy.REASSIGN_PARTITION or strategy is Strategy.PREFERRED_REPLICA:
        return list(replicas)
    or_shutting_down = strategy is Strategy.CONTROLLED_SHUTDOWN
    online = state.online_among(replicas, partition, or_shutting_down=or_shutting_down)
    return [broker for broker in replicas if broker in online]


# ---- elections


def first_leader_and_isr(replicas: Sequence[int], live: Collection[int], controller_epoch: int) -> LeaderAndIsr | None:
    """Make the state of a new partition: the first live replica leads, all live ones (they are empty) are in sync."""
    live_replicas = tuple(broker for broker in replicas if broker in live)
    if not live_replicas:
        return None
    return LeaderAndIsr(live_replicas[0], FIRST_LEADER_EPOCH, live_replicas, False, controller_epoch, 0)


def elect_offline(
    current: LeaderAndIsr, replicas: Sequence[int], live: Collection[int], *, unclean_allowed: bool
) -> LeaderAndIsr | None:
    """Elect the first live replica in assignment order that is in the ISR.

    If there is none and an unclean election is allowed, elect the first live replica: the ISR becomes that leader
    alone, which is marked as recovering, since it may lack acknowledged records.
    """
    leader = _first(replicas, live, current.isr)
    if leader is not None:
        return current.led_by(leader, [broker for broker in current.isr if broker in live])
    if not unclean_allowed:
        return None
    leader = _first(replicas, live, replicas)
    return None if leader is None else current.led_by(leader, [leader], recovering=True)


def elect_reassigned(
    current: LeaderAndIsr, target_replicas: Sequence[int], live: Collection[int]
) -> LeaderAndIsr | None:
    """Elect the first of the target replicas that is live and in the ISR."""
    leader = _first(target_replicas, live, current.isr)
    return None if leader is None else current.led_by(leader, current.isr)


def elect_preferred(current: LeaderAndIsr, replicas: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """Elect the first assigned replica if it is live and in the ISR."""
    leader = _first(replicas[:1], live, current.isr)
    return None if leader is None else current.led_by(leader, current.isr)


def elect_for_shutdown(
    current: LeaderAndIsr, replicas: Sequence[int], live: Collection[int], shutting_down: Collection[int]
) -> LeaderAndIsr | None:
    """Elect the first live replica in the ISR on a broker that stays; brokers that shut down leave the ISR."""
    staying = [broker for broker in current.isr if broker not in shutting_down]
    leader = _first(replicas, live, staying)
    return None if leader is None else current.led_by(leader, staying)


def _first(candidates: Sequence[int], live: Collection[int], eligible: Collection[int]) -> int | None:
    return next((broker for broker in candidates if broker in live and broker in eligible), None)
