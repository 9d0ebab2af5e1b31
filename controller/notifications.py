"""What brokers tell the controller: by znodes that older brokers create, and by their answers to LeaderAndIsr."""

import logging

from odradek.controller import reassignment
from odradek.controller.broker_changes import replicas_lost
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.controller.failover import elect_where_needed
from odradek.controller.state import Replica, ReplicaPhase, TopicPartition
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.notifications import (
    ISR_CHANGE_PATH,
    LOG_DIR_EVENT_PATH,
    decode_isr_change,
    decode_log_dir_event,
)

log = logging.getLogger(__name__)


async def isr_changes(tenure: Tenure) -> None:
    """Leaders on brokers before 2.7 wrote ISRs themselves: read them and tell everybody."""
    names, notes = await _read_all(tenure, ISR_CHANGE_PATH)
    changed: set[TopicPartition] = set()
    for data in notes:
        try:
            changed.update(TopicPartition(*partition) for partition in decode_isr_change(data))
        except BadZnode as bad:
            log.error("an ISR change: %s", bad)
    known = sorted(changed & tenure.state.leaderships.keys())
    for partition, leadership in (await tenure.store.leaderships(known)).items():
        if leadership is not None:
            tenure.state.leaderships[partition] = leadership
    if known:
        await tenure.tell(known)
    for partition in known:
        if partition in tenure.state.reassigning:
            await reassignment.complete_if_caught_up(tenure, partition)
    await tenure.store.delete_all(names)


async def log_directories_failed(tenure: Tenure) -> None:
    """Ask the brokers for each of their replicas: the answers to LeaderAndIsr say which are out of reach."""
    names, notes = await _read_all(tenure, LOG_DIR_EVENT_PATH)
    brokers = set()
    for data in notes:
        try:
            brokers.add(decode_log_dir_event(data))
        except BadZnode as bad:
            log.error("a failed log directory: %s", bad)
    await tenure.move_replicas(
        [r for r in tenure.state.replicas_on(brokers) if not tenure.state.being_deleted(r.partition)],
        ReplicaPhase.ONLINE,
    )
    await tenure.store.delete_all(names)


async def _read_all(tenure: Tenure, path: str) -> tuple[list[str], list[bytes]]:
    """The paths below one, sorted, and their data; watches for more."""
    paths = [f"{path}/{name}" for name in sorted(await tenure.store.znodes.children(path, watch=True))]
    return paths, [znode[0] for znode in await tenure.store.znodes.get_all(paths) if znode is not None]


async def leader_and_isr_answered(tenure: Tenure, event: LeaderAndIsrAnswered) -> None:
    """Replicas whose log directory is broken count as offline until the broker comes back or takes them again."""
    if event.response.error_code != ErrorCode.NONE:
        log.warning("broker %d refused LeaderAndIsr: %d", event.broker, event.response.error_code)
        return
    broken, fine = set(), set()
    for topic in event.response.topics:
        name = tenure.state.topic_names.get(topic.topic_id)
        for answer in topic.partition_errors if name is not None else ():
            partition = TopicPartition(str(name), answer.partition_index)
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                broken.add(partition)
            elif answer.error_code == ErrorCode.NONE:
                fine.add(partition)
    known = tenure.state.offline_directories.get(event.broker, set())
    newly_broken = broken - known
    if broken or known & fine:
        tenure.state.offline_directories[event.broker] = (known - fine) | broken
    if known & fine:
        await elect_where_needed(tenure)
    if newly_broken:
        log.warning("broker %d cannot reach %s", event.broker, ", ".join(map(str, sorted(newly_broken))))
        await replicas_lost(tenure, [Replica(partition, event.broker) for partition in sorted(newly_broken)])
