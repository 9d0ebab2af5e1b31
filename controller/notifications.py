"""Notifications of brokers to the controller, by znodes: changed ISRs, which brokers before 2.7 write, and log
directories."""

import logging

from odradek.controller import reassignment, replica_machine, topic_deletion
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import ReplicaPhase
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import (
    ISR_CHANGE_PATH,
    LOG_DIR_EVENT_PATH,
    decode_isr_change,
    decode_log_dir_event,
)

log = logging.getLogger(__name__)


async def take_up_isr_changes(active: ActiveController) -> None:
    """Read the ISRs that leaders on brokers before 2.7 wrote themselves, and tell everybody."""
    names, notes = await _read_all(active, ISR_CHANGE_PATH)
    changed: set[TopicPartition] = set()
    for data in notes:
        try:
            changed.update(TopicPartition(*partition) for partition in decode_isr_change(data))
        except BadZnode as bad:
            log.error("a notification of changed ISRs cannot be read: %s", bad)
    known = sorted(changed & active.state.leader_and_isr.keys())
    for partition, leader_and_isr in (await active.store.leader_and_isr(known)).items():
        if leader_and_isr is not None:
            active.state.leader_and_isr[partition] = leader_and_isr
    if known:
        await active.send_metadata(known)
    await reassignment.complete_where_caught_up(active, known)
    await active.store.delete_all(names)


async def take_up_log_directories(active: ActiveController) -> None:
    """Send brokers that lost a log directory, or have room again, a LeaderAndIsr of each of their replicas.

    The answers say which are out of reach. A replica that is being deleted is left out, since it would be created anew:
    its deletion is tried again instead, whatever was out of reach before.
    """
    names, notes = await _read_all(active, LOG_DIR_EVENT_PATH)
    brokers = set()
    for data in notes:
        try:
            brokers.add(decode_log_dir_event(data))
        except BadZnode as bad:
            log.error("a notification of a log directory cannot be read: %s", bad)
    state = active.state
    replicas = state.replicas_on(brokers)
    serving = [replica for replica in replicas if not state.being_deleted(replica.partition)]
    to_delete = [replica for replica in replicas if state.being_deleted(replica.partition)]
    # New replicas go online without a request. Their brokers have had one, but perhaps could not create them, so these
    # replicas are moved twice: the second move sends it.
    new = [replica for replica in serving if state.replica_phase(replica) is ReplicaPhase.NEW]
    await replica_machine.move(active, new, ReplicaPhase.ONLINE)
    await replica_machine.move(active, serving, ReplicaPhase.ONLINE)
    for partition, broker in to_delete:
        state.offline_directories[broker].discard(partition)
    await topic_deletion.unhalt(active, {replica.partition.topic for replica in to_delete})
    await active.store.delete_all(names)


async def _read_all(active: ActiveController, path: str) -> tuple[list[str], list[bytes]]:
    """Read the paths below `path`, sorted, and their data; watch for more."""
    paths = [f"{path}/{name}" for name in sorted(await active.store.children(path, watch=True))]
    return paths, [znode[0] for znode in await active.store.get_all(paths) if znode is not None]
