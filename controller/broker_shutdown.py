"""Controlled shutdown, the controller's side: a broker's leaders move first, then it is told to stop its followers.

Kafka's doControlledShutdown. The moves are written together, and each new leader is told in the same step, so a
partition changes its leader within one round trip to ZooKeeper.
"""

import logging

from odradek.controller import partition_machine, replica_machine
from odradek.controller.active_controller import ActiveController
from odradek.controller.cluster_state import Replica
from odradek.controller.isr_updates import UNKNOWN_BROKER_EPOCH
from odradek.controller.partition_machine import Strategy
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.topic_names import TopicPartition

log = logging.getLogger(__name__)


async def shut_down(active: ActiveController, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
    """Move leaders away from a broker; return the partitions that it still leads. It asks again while there are any.

    Raises KafkaError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
    """
    state = active.state
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < broker.epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch} now, not {broker_epoch}"
        )
    log.info("broker %d is shutting down", broker_id)
    state.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in state.partitions():
        await active.pause()
        if broker_id in state.replicas(partition) and _movable(active, partition):
            (led if state.leader_and_isr[partition].leader == broker_id else followed).append(partition)
    if state.brokers.keys() - state.shutting_down:  # otherwise each election would fail, and be logged as an error
        await partition_machine.bring_online(active, led, Strategy.CONTROLLED_SHUTDOWN)
    await replica_machine.take_offline(active, [Replica(partition, broker_id) for partition in followed])
    still_led = [partition for partition in led if state.leader_and_isr[partition].leader == broker_id]
    active.journal.note(
        "broker", str(broker_id), change="shutting down", epoch=broker.epoch, led=len(led), still_led=len(still_led)
    )
    return still_led


def _movable(active: ActiveController, partition: TopicPartition) -> bool:
    """Tell whether another broker could lead the partition at all."""
    state = active.state
    return (
        len(state.replicas(partition)) > 1 and partition in state.leader_and_isr and not state.being_deleted(partition)
    )
