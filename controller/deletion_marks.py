"""Marks by which topics are given to the controller to delete (topic_deletion.py)."""

from odradek.controller.topic_admin import check_may_exist, zookeeper_refusals
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.zk_schema.lost_answers import create_if_missing, repeated
from odradek.zk_schema.store import (
    ANY_VERSION,
    Check,
    ConnectionLost,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Stat,
    Store,
    parent,
)
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.topics import topic_path


async def mark_for_deletion(store: Store, topic: str) -> None:
    """Mark a topic for the controller to delete; twice is harmless. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION.

    Topic and mark are looked at in one transaction. A mark for a topic that is gone by now would be one for the next
    topic of that name, which nobody wants to be deleted. (Kafka may leave such a mark.)
    """
    check_may_exist(topic)
    path, mark = topic_path(topic), delete_topic_path(topic)
    unheard: Stat | None = None  # the topic, if a write with a lost answer may have marked it
    with zookeeper_refusals():
        while True:
            found = await repeated(store, lambda: store.exists(path))
            if unheard is not None and (found is None or found.czxid != unheard.czxid):
                return
            if found is None:
                said = "This server does not host this topic-partition."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, said)
            try:
                await store.multi([Check(path, ANY_VERSION), Create(mark)])
            except ConnectionLost:
                unheard = found
            except MultiFailed as failed:
                if isinstance(failed.cause, NodeExists):
                    return
                if not isinstance(failed.cause, NoNode):
                    raise
                await create_if_missing(store, parent(mark))
            else:
                return
