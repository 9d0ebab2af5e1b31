"""News from brokers to the controller: by znodes that older brokers create, and by their answers to LeaderAndIsr."""

import logging
from typing import Final

from odradek.controller import partition_machine, reassignment, replica_machine, topic_deletion
from odradek.controller.active_controller import ActiveController
from odradek.controller.broker_changes import replicas_lost
from odradek.controller.cluster_state import Replica, ReplicaPhase
from odradek.controller.controller_election import RAISED_EPOCH_MAX
from odradek.controller.controller_store import ControllerMoved
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import ANY_VERSION, ConnectionLost, Delete, MultiFailed, SetData
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, encode_controller_epoch
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import (
    ISR_CHANGE_PATH,
    LOG_DIR_EVENT_PATH,
    decode_isr_change,
    decode_log_dir_event,
)

log = logging.getLogger(__name__)

WHAT_TO_DO: Final[dict[int, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ", this broker's principal must be allowed ClusterAction",
    ErrorCode.STALE_BROKER_EPOCH: ", it has registered anew",
}
"""What a broker that refuses everything with a code wants."""
RAISED_AT_ONCE = 16
"""Factor by which an epoch that was refused is raised: eight elections reach any."""


async def isr_changes(active: ActiveController) -> None:
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


async def log_directories_changed(active: ActiveController) -> None:
    """Ask brokers that lost a log directory, or have room again, for each of their replicas.

    The answers to LeaderAndIsr say which are out of reach. A replica that is being deleted is not asked for, since that
    would make it anew: its deletion is tried again instead, whatever was out of reach before.
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
    # New ones would go online without a word: their brokers have been told, but perhaps could not make them.
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


async def leader_and_isr_answered(active: ActiveController, event: LeaderAndIsrAnswered) -> None:
    """Count replicas whose log directory is broken as offline until the broker comes back or takes them again."""
    if not active.is_present(event.broker, event.broker_epoch):
        return
    if event.response.error_code != ErrorCode.NONE:
        _log_refusal(active, event.broker, event.response.error_code)
        return
    broken, fine = set(), set()
    names = active.state.topic_names
    if event.topic_without_id in active.state.topics:
        names = {ZERO_UUID: event.topic_without_id}
    for topic in event.response.topics:
        name = names.get(topic.topic_id)
        for answer in topic.partition_errors if name is not None else ():
            await active.pause()
            partition = TopicPartition(str(name), answer.partition_index)
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                broken.add(partition)
            elif answer.error_code == ErrorCode.NONE:
                fine.add(partition)
            elif answer.error_code != ErrorCode.STALE_CONTROLLER_EPOCH:  # which means that it knows as much, or more
                name = error_code(answer.error_code).name
                log.warning("broker %d refuses LeaderAndIsr for %s: %s", event.broker, partition, name)
    known = active.state.offline_directories.get(event.broker, set())
    newly_broken = broken - known
    if broken or known & fine:
        active.state.offline_directories[event.broker] = (known - fine) | broken
    if known & fine:
        # In elections that were held before this answer they were out of reach, and not told of the outcome.
        serving = [partition for partition in sorted(known & fine) if not active.state.being_deleted(partition)]
        back = [Replica(partition, event.broker) for partition in serving]
        there = [replica for replica in back if replica_machine.may_become(active.state, replica, ReplicaPhase.ONLINE)]
        await replica_machine.move(active, there, ReplicaPhase.ONLINE)
        elected = await partition_machine.elect_where_needed(active)
        await reassignment.complete_where_caught_up(active, elected)
    if newly_broken:
        lost = ", ".join(map(str, sorted(newly_broken)))
        log.warning("broker %d cannot open its logs of %s: a disk has failed or is full", event.broker, lost)
        replicas = [Replica(partition, event.broker) for partition in sorted(newly_broken)]
        await replicas_lost(active, replicas, f"OfflineLogDirectory {event.broker}")


def _log_refusal(active: ActiveController, broker: int, code: int) -> None:
    """Say once that a broker refuses whole requests; why it refuses our epoch is said by `leave_refused_epoch`."""
    if code != ErrorCode.STALE_CONTROLLER_EPOCH and active.is_new_refusal(broker, code):
        log.warning("broker %d refuses LeaderAndIsr: %s%s", broker, error_code(code).name, WHAT_TO_DO.get(code, ""))


async def leave_refused_epoch(active: ActiveController, broker: int | None = None) -> None:
    """Resign, and have the next controller elected in a later epoch, since brokers or partitions have a later one.

    Either another controller was elected, and this one has not heard of it: then its first write fails. Or
    `/controller_epoch` went back, because it was deleted or ZooKeeper was restored: then nobody would be obeyed, or
    could write those states (Kafka's brokers obey nobody until they are restarted). By how much it went back is not
    known, so it is raised in large steps until it is enough. Raises ControllerMoved, unless no later epoch is left,
    which is logged once for each `broker` that refuses this one.
    """
    present = active.state.controller_epoch
    raised = min(max(RAISED_AT_ONCE * present, latest_epoch_written(active)), RAISED_EPOCH_MAX)
    if raised <= present:
        if broker is None:
            log.error("states of partitions name later controllers than epoch %d, and cannot be changed", present)
        elif active.is_new_refusal(broker, ErrorCode.STALE_CONTROLLER_EPOCH):
            log.error(
                "broker %d has obeyed a later controller than epoch %d, and takes no request of this one until it is "
                "restarted: restart it", broker, present,
            )  # fmt: skip
        return
    later = SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(raised), ANY_VERSION)
    try:
        await active.store.write([later, Delete(CONTROLLER_PATH)])
    except (ConnectionLost, MultiFailed) as error:  # whoever looks next sees what has become of it
        raise ControllerMoved(f"a later controller has been obeyed than that of epoch {present}: {error}") from error
    noted = {"change": "epoch_raised", "former_epoch": present, "epoch": raised}
    active.journal.note("controller", str(active.state.controller_id), **noted)
    log.warning("/controller_epoch went back to %d, a later one has been obeyed: it is %d now", present, raised)
    raise ControllerMoved(f"a later controller has been obeyed than that of epoch {present}")


def latest_epoch_written(active: ActiveController) -> int:
    """Return the latest controller epoch that a partition's state names; 0 without partitions."""
    return max((known.controller_epoch for known in active.state.leader_and_isr.values()), default=0)
