"""Answers of brokers to LeaderAndIsr: which of their replicas are out of reach, and which are back."""

import logging
from typing import Final

from odradek.controller import partition_machine, reassignment, replica_machine
from odradek.controller.active_controller import ActiveController
from odradek.controller.broker_changes import replicas_lost
from odradek.controller.cluster_state import Replica, ReplicaPhase
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import TopicPartition

log = logging.getLogger(__name__)

WHAT_TO_DO: Final[dict[int, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ", this broker's principal must be allowed ClusterAction",
    ErrorCode.STALE_BROKER_EPOCH: ", it has registered anew",
}
"""Advice for the operator of a broker that refuses whole requests, by the error code of its answer."""


async def take_in_answer(active: ActiveController, event: LeaderAndIsrAnswered) -> None:
    """Count replicas whose log directory is broken as offline until the broker comes back or takes them again."""
    if not active.is_present(event.broker, event.broker_epoch):
        return
    if event.response.error_code != ErrorCode.NONE:
        _log_refusal(active, event.broker, event.response.error_code)
        return
    fine, broken = await _read_answer(active, event)
    known = active.state.offline_directories.get(event.broker, set())
    if broken or known & fine:
        active.state.offline_directories[event.broker] = (known - fine) | broken
    if known & fine:
        await _bring_back(active, event.broker, known & fine)
    if broken - known:
        await _lose(active, event.broker, broken - known)


async def _read_answer(
    active: ActiveController, event: LeaderAndIsrAnswered
) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """Return the partitions that the broker has taken, and those whose logs it cannot open."""
    fine, broken = set(), set()
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
                error = error_code(answer.error_code)
                log.warning("broker %d refuses LeaderAndIsr for %s: %s", event.broker, partition, error.name)
    return fine, broken


async def _bring_back(active: ActiveController, broker: int, partitions: set[TopicPartition]) -> None:
    """Tell a broker its replicas that are in reach again, and elect leaders that these make possible.

    Elections held before the broker's answer took these replicas for out of reach, and did not tell them the outcome.
    """
    serving = [partition for partition in sorted(partitions) if not active.state.being_deleted(partition)]
    back = [Replica(partition, broker) for partition in serving]
    there = [replica for replica in back if replica_machine.may_become(active.state, replica, ReplicaPhase.ONLINE)]
    await replica_machine.move(active, there, ReplicaPhase.ONLINE)
    elected = await partition_machine.elect_where_needed(active)
    await reassignment.complete_where_caught_up(active, elected)


async def _lose(active: ActiveController, broker: int, partitions: set[TopicPartition]) -> None:
    """Elect leaders in place of replicas that have just gone out of reach."""
    lost = sorted(partitions)
    names = ", ".join(map(str, lost))
    log.warning("broker %d cannot open its logs of %s: a disk has failed or is full", broker, names)
    replicas = [Replica(partition, broker) for partition in lost]
    await replicas_lost(active, replicas, f"OfflineLogDirectory {broker}")


def _log_refusal(active: ActiveController, broker: int, code: int) -> None:
    """Log once that a broker refuses whole requests; why it refuses our epoch is said by `leave_refused_epoch`."""
    if code != ErrorCode.STALE_CONTROLLER_EPOCH and active.is_new_refusal(broker, code):
        log.warning("broker %d refuses LeaderAndIsr: %s%s", broker, error_code(code).name, WHAT_TO_DO.get(code, ""))
