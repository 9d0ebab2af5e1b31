"""Assignments and states of partitions: decoded from their znodes into the controller's types, and encoded.

What cannot be read is logged and left out: one bad znode must not keep the controller from all the others.
"""

import logging

from odradek.controller.cluster_state import Assignment, LeaderAndIsr, Topic
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.store import Stat
from odradek.zk_schema.znodes.json_data import BadZnode
from odradek.zk_schema.znodes.topics import LEADER_RECOVERED, LEADER_RECOVERING, PartitionState, TopicAssignment

log = logging.getLogger(__name__)


def decode_topic(topic: str, data: bytes) -> Topic | None:
    """Decode a topic's znode; None if it cannot be read, which is logged."""
    try:
        decoded = TopicAssignment.decode(topic, data)
    except BadZnode as bad:
        log.error("topic %s cannot be read: %s", topic, bad)
        return None
    held = decoded.partitions.items()
    return Topic(
        decoded.topic_id, {index: Assignment(some.replicas, some.adding, some.removing) for index, some in held}
    )


def decode_leader_and_isr(
    partition: TopicPartition, data: bytes, stat: Stat, decoded: dict[bytes, PartitionState]
) -> LeaderAndIsr | None:
    """Decode a partition's state, or take what has been `decoded` from the same bytes.

    None if it cannot be read, which is logged.
    """
    state = decoded.get(data)
    if state is None:
        try:
            state = decoded[data] = PartitionState.decode(partition.topic, partition.partition, data)
        except BadZnode as bad:
            log.error("the state of %s cannot be read: %s", partition, bad)
            return None
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.leader_recovery_state == LEADER_RECOVERING,
        state.controller_epoch,
        stat.version,
    )


def state_data(wanted: LeaderAndIsr) -> bytes:
    """Return the content of a partition's state znode."""
    return PartitionState(
        leader=wanted.leader,
        leader_epoch=wanted.leader_epoch,
        isr=wanted.isr,
        controller_epoch=wanted.controller_epoch,
        leader_recovery_state=LEADER_RECOVERING if wanted.recovering else LEADER_RECOVERED,
    ).encode()
