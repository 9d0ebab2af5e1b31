"""OffsetDelete (key 47), version 0: forget what a group has committed for some partitions (KIP-496).

An empty group may lose all of them. A group of consumers that has members may lose those of topics that no member
reads; the others are GROUP_SUBSCRIBED_TO_TOPIC. Any other group is NON_EMPTY_GROUP.
"""

from collections.abc import Mapping

from odradek.broker.groups.group_records import NOT_MADE, Record, offset_tombstones
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.topic_names import PartitionKey
from odradek.world.time_slices import TimeSlice

REQUEST = OffsetDeleteRequest
VERSIONS = (0, 0)

AT_ONCE = 100
"""Offsets that are deleted without a pause."""


def handle(broker: Services, request: OffsetDeleteRequest, context: RequestContext) -> Outcome:
    known = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if broker.metadata.partition(topic.name, partition.partition_index) is not None
    ]
    if len(known) > AT_ONCE:
        return _delete_many(broker, request, known)
    return _delete(broker, request, known, NOT_MADE)


async def _delete_many(broker: Services, request: OffsetDeleteRequest, known: list[PartitionKey]) -> Reply:
    """Make the tombstones in slices, which takes most of the time; then delete all offsets at one time."""
    made = await TimeSlice(broker.clock).result(offset_tombstones(request.group_id, known))
    return _delete(broker, request, known, made)


def _delete(
    broker: Services, request: OffsetDeleteRequest, known: list[PartitionKey], made: Mapping[PartitionKey, Record]
) -> Reply:
    error, errors = broker.groups.delete_offsets(request.group_id, known, made)
    if error is not ErrorCode.NONE:
        return Reply(OffsetDeleteResponse(error_code=error))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=errors.get((topic.name, partition.partition_index), unknown),
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return Reply(OffsetDeleteResponse(topics=topics))
