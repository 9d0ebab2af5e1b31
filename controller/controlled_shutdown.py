"""A broker asks to stop: its leaders move first, then it is told to stop its followers (FEATURES C8).

Kafka's doControlledShutdown. The moves are written together, and each new leader is told in the same step, so between
the old leader's last and the new leader's first entry lies one round trip to ZooKeeper.
"""

import logging

from odradek.controller.elections import Strategy
from odradek.controller.state import Replica, TopicPartition
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1


async def shut_down(tenure: Tenure, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
    """The partitions that it still leads: it asks again while there are any.

    Raises KafkaError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
    """
    state = tenure.state
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not registered")
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < broker.epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has epoch {broker.epoch} now, not {broker_epoch}"
        )
    log.info("broker %d is shutting down", broker_id)
    state.shutting_down.add(broker_id)
    movable = [p for p in state.partitions_on(broker_id) if _movable(tenure, p)]
    led = [partition for partition in movable if state.leaderships[partition].leader == broker_id]
    followed = [partition for partition in movable if state.leaderships[partition].leader != broker_id]
    await tenure.bring_online(led, Strategy.CONTROLLED_SHUTDOWN)
    await tenure.take_offline([Replica(partition, broker_id) for partition in followed])
    return [partition for partition in led if state.leaderships[partition].leader == broker_id]


def _movable(tenure: Tenure, partition: TopicPartition) -> bool:
    """Whether somebody else could lead it at all."""
    state = tenure.state
    return len(state.replicas(partition)) > 1 and partition in state.leaderships and not state.being_deleted(partition)
