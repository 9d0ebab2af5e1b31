"""OffsetCommit (key 8), versions 0 to 9: remember how far a group has read.

Version 0 goes to ZooKeeper, by any broker; all others to the coordinator, whose answer waits until the commit is in
`__consumer_offsets` on every replica in sync. Partitions that do not exist are refused one by one. Version 1 may give
each partition a timestamp, versions 2 to 4 a retention for all of them.
"""

from collections.abc import Mapping
from dataclasses import replace

from odradek.broker.groups.group import CommitRequest
from odradek.broker.groups.group_offsets import NO_EXPIRY, CommittedOffset
from odradek.broker.groups.group_records import offset_records
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.requests.coordinator_answers import LaterReply
from odradek.broker.requests.zookeeper_offsets import write_offset
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.topic_names import PartitionKey
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.store import is_znode_name

REQUEST = OffsetCommitRequest
VERSIONS = (0, 9)

NOT_GIVEN = -1
AT_ONCE = 100
"""Offsets that are committed without a pause."""
LAST_TIMESTAMP_MS = 2**63 - 1
"""Largest time that a record of the offset can hold: who asks for a longer life than that gets this one."""
Errors = Mapping[PartitionKey, ErrorCode]


def handle(broker: Services, request: OffsetCommitRequest, context: RequestContext) -> Outcome:
    known = _known_partitions(broker, request)
    if not known:
        return Reply(_response(request, {}))
    if context.api_version == 0:
        return _write_to_zookeeper(broker, request, known)
    now_ms = broker.clock.now_ms()
    kept_until_ms = min(now_ms + request.retention_time_ms, LAST_TIMESTAMP_MS)
    expire_ms = NO_EXPIRY if request.retention_time_ms == NOT_GIVEN else kept_until_ms
    commit = CommitRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets={at: _committed(partition, now_ms, expire_ms) for at, partition in known.items()},
    )
    if len(known) > AT_ONCE:
        return _commit_many(broker, request, commit)
    return _commit(broker, request, commit).outcome()


async def _commit_many(broker: Services, request: OffsetCommitRequest, commit: CommitRequest) -> Reply:
    """Make the records of the offsets in slices, which takes most of the time; then commit.

    Topics that are deleted meanwhile are left out: the group has forgotten their offsets by then.
    """
    records = await TimeSlice(broker.clock).result(offset_records(request.group_id, commit.offsets))
    offsets = broker.metadata.of_known(commit.offsets)
    return await _commit(broker, request, replace(commit, offsets=offsets, records=records)).arrived()


def _commit(broker: Services, request: OffsetCommitRequest, commit: CommitRequest) -> LaterReply[OffsetCommitResponse]:
    reply = LaterReply[OffsetCommitResponse]()
    broker.groups.commit(request.group_id, commit, lambda errors: reply.give(_response(request, errors)))
    return reply


async def _write_to_zookeeper(
    broker: Services,
    request: OffsetCommitRequest,
    known: Mapping[PartitionKey, OffsetCommitRequestPartition],
) -> Reply:
    errors = {}
    limit = broker.groups.offset_metadata_max_bytes
    for (topic, index), partition in known.items():
        if not is_znode_name(request.group_id):
            error = ErrorCode.INVALID_GROUP_ID
        elif len(partition.committed_metadata or "") > limit:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            error = await write_offset(broker.zookeeper, request.group_id, topic, index, partition.committed_offset)
        errors[topic, index] = error
    return Reply(_response(request, errors))


def _known_partitions(
    broker: Services, request: OffsetCommitRequest
) -> dict[PartitionKey, OffsetCommitRequestPartition]:
    return {
        (topic.name, partition.partition_index): partition
        for topic in request.topics
        for partition in topic.partitions
        if broker.metadata.partition(topic.name, partition.partition_index) is not None
    }


def _committed(partition: OffsetCommitRequestPartition, now_ms: int, expire_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        commit_timestamp_ms=now_ms if partition.commit_timestamp == NOT_GIVEN else partition.commit_timestamp,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        expire_timestamp_ms=expire_ms,
    )


def _response(request: OffsetCommitRequest, errors: Errors) -> OffsetCommitResponse:
    """Make an entry for each partition asked, in their order; those without an error code of their own do not exist."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors.get(
                            (topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
