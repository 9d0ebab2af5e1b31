"""Brokers that come, go, or have restarted unnoticed (Kafka's processBrokerChange).

Only ZooKeeper counts: a registration whose session has expired is gone, and one with another czxid is that of a
bounced broker, which died and came back between two looks.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.controller import partition_machine, reassignment, replica_machine, topic_deletion
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import Broker, PartitionPhase, Replica, ReplicaPhase

log = logging.getLogger(__name__)


class _Changes(NamedTuple):
    """Sorted ids of the brokers whose registration differs from what the state holds."""

    new: list[int]
    dead: list[int]
    bounced: list[int]
    updated: list[int]


async def compare_registrations(active: ActiveController) -> None:
    """Compare the registrations with the state and act on the differences."""
    known = active.state.brokers
    found = await active.store.brokers(known)
    changes = _changes(known, found)
    _note(active, changes, known, found)
    for broker_id in (*changes.bounced, *changes.dead):
        active.disconnect(broker_id)
    for broker_id in changes.new:
        active.connect(broker_id, found[broker_id])
    if changes.new:
        await _on_startup(active, changes.new)
    if changes.bounced:
        await _on_failure(active, changes.bounced)
        for broker_id in changes.bounced:
            active.connect(broker_id, found[broker_id])
        await _on_startup(active, changes.bounced)
    if changes.dead:
        await _on_failure(active, changes.dead)
    if changes.updated:
        for broker_id in changes.updated:
            active.connect(broker_id, found[broker_id])
        await active.send_metadata([])


def _changes(known: Mapping[int, Broker], found: Mapping[int, Broker]) -> _Changes:
    """Compare the known brokers with those found in ZooKeeper, by id. Another epoch is another life of a broker."""
    both = sorted(known.keys() & found.keys())
    same_life = [broker for broker in both if found[broker].epoch == known[broker].epoch]
    return _Changes(
        new=sorted(found.keys() - known.keys()),
        dead=sorted(known.keys() - found.keys()),
        bounced=[broker for broker in both if broker not in same_life],
        updated=[broker for broker in same_life if found[broker].registration != known[broker].registration],
    )


def _note(
    active: ActiveController, changes: _Changes, known: Mapping[int, Broker], found: Mapping[int, Broker]
) -> None:
    """Say in log and journal what has changed, if anything has."""
    if any(changes):
        log.info("brokers: new %s, dead %s, bounced %s, updated %s", *changes)
    said = (("came", changes.new), ("went", changes.dead), ("bounced", changes.bounced), ("updated", changes.updated))
    for change, brokers in said:
        for broker_id in brokers:
            epochs = {"epoch": found[broker_id].epoch} if broker_id in found else {}
            former = {"former_epoch": known[broker_id].epoch} if broker_id in known else {}
            active.journal.note("broker", str(broker_id), change=change, **epochs, **former)


async def _on_startup(active: ActiveController, brokers: list[int]) -> None:
    """Send new brokers the whole cluster and their replicas, and elect leaders of offline partitions
    (onBrokerStartup)."""
    state = active.state
    for broker_id in brokers:
        state.offline_directories.pop(broker_id, None)
    await active.send_metadata([], state.brokers.keys() - set(brokers))
    await active.send_all_metadata(brokers)
    await active.yield_to_others()  # to look at 10,000 partitions takes some milliseconds each time
    replicas = state.replicas_on(brokers)
    serving, _ = await _split_off_deleted(active, replicas)
    await replica_machine.move(active, serving, ReplicaPhase.ONLINE)
    await partition_machine.elect_where_needed(active)
    await reassignment.resume_with(active, brokers)
    await topic_deletion.unhalt(active, {replica.partition.topic for replica in replicas})


async def _on_failure(active: ActiveController, brokers: list[int]) -> None:
    """Replace the replicas of brokers that have gone (onBrokerFailure)."""
    state = active.state
    for broker_id in brokers:
        state.offline_directories.pop(broker_id, None)
        state.shutting_down.discard(broker_id)
    await replicas_lost(active, state.replicas_on(brokers))


async def replicas_lost(active: ActiveController, replicas: Iterable[Replica], why: str = "") -> None:
    """Elect leaders in place of lost ones, then take the lost replicas out of the ISRs (onReplicasBecomeOffline).

    `why` is the reason to note where the replicas' brokers are still there; empty where they have gone."""
    state = active.state
    serving, to_delete = await _split_off_deleted(active, replicas)
    await active.yield_to_others()  # to look at 10,000 partitions takes some milliseconds each time
    partition_machine.move(active, state.without_live_leader(), PartitionPhase.OFFLINE)
    elected = await partition_machine.elect_where_needed(active)
    await replica_machine.take_offline(active, serving, elected, why)
    await topic_deletion.replicas_failed(active, to_delete)
    if not serving:
        # No request has told anybody yet that a broker is gone.
        await active.send_metadata([])


async def _split_off_deleted(
    active: ActiveController, replicas: Iterable[Replica]
) -> tuple[list[Replica], list[Replica]]:
    """Separate the replicas that serve from those of topics that are being deleted."""
    serving: list[Replica] = []
    to_delete: list[Replica] = []
    for replica in replicas:
        await active.pause()
        (to_delete if active.state.being_deleted(replica.partition) else serving).append(replica)
    return serving, to_delete
