"""ListOffsets (key 2), versions 0 to 9: where a partition begins, ends, or was at a given time.

Timestamps: -1 the end that a client may read (the high watermark; the log end for a follower), -2 the start, -3 the
record with the largest timestamp (from version 7), else the first record at or after it. -4 and -5 (tiered storage,
versions 8 and 9): the local log start, and none. After a change of leader the end is not told until the high watermark
has reached the new epoch, so that it never goes back (KAFKA-7703): OFFSET_NOT_AVAILABLE, below version 5
LEADER_NOT_AVAILABLE. For a read_committed consumer (version 2 on) a partition ends at the last stable offset. A
debugging consumer (replica id -2) is answered by followers, too, and with the log end. Version 0 answers a list of
offsets, newest first. What takes long, very many partitions or a time in a large batch, is done in slices of time.
"""

from collections import Counter

from odradek.broker.log.offset_lookup import find_max_timestamp, find_offset, offsets_before
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, READ_UNCOMMITTED
from odradek.protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.steps import Steps
from odradek.world.time_slices import in_slices

REQUEST = ListOffsetsRequest
VERSIONS = (0, 9)

FIRST_VERSION_OF = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
NOTHING = (-1, -1, -1)


def handle(broker: Services, request: ListOffsetsRequest, context: RequestContext) -> Outcome:
    return in_slices(broker.clock, _answer(broker, request, context.api_version))


def _answer(broker: Services, request: ListOffsetsRequest, version: int) -> Steps[Reply]:
    """Look the partitions up one after another; each search by time may have to read from a file."""
    times = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for asked in topic.partitions:
            if version and times[topic.name, asked.partition_index] > 1:
                index, error = asked.partition_index, ErrorCode.INVALID_REQUEST
                answers.append(ListOffsetsPartitionResponse(partition_index=index, error_code=error))
            else:
                answers.append((yield from _partition(broker, topic.name, asked, request, version)))
            yield
    return Reply(response)


def _partition(
    broker: Services, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> Steps[ListOffsetsPartitionResponse]:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if asked.timestamp < 0 and version < FIRST_VERSION_OF.get(asked.timestamp, 99):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION  # whatever there is of the partition, as in ReplicaManager
        return answer
    or_follower = request.replica_id == DEBUGGING_REPLICA_ID
    try:
        partition = broker.replicas.led_in_epoch(
            topic, asked.partition_index, asked.current_leader_epoch, or_follower=or_follower
        )
        if version == 0:
            answer.old_style_offsets = _old_style(partition, asked, request.replica_id)
        else:
            found = yield from _look_up(partition, asked.timestamp, request, version)
            answer.timestamp, answer.offset, answer.leader_epoch = found
    except KafkaError as refused:
        answer.error_code = refused.code
    return answer


def _look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, version: int
) -> Steps[tuple[int, int, int]]:
    """Return timestamp, offset and leader epoch; -1 each where there is none. Raises KafkaError."""
    replica_log = partition.log
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = replica_log.log_start_offset
        return -1, start, replica_log.epochs.epoch_at(start)
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return -1, -1, -1
    end = _readable_end(partition, request)
    is_behind = (
        request.replica_id == CONSUMER_REPLICA_ID and partition.high_watermark < partition.leader_epoch_start_offset
    )
    found = None
    if timestamp == LATEST_TIMESTAMP:
        if not is_behind:
            return -1, end, partition.leader_epoch
    elif timestamp == MAX_TIMESTAMP:
        found = yield from find_max_timestamp(replica_log)
    else:
        found = yield from find_offset(replica_log, timestamp)
    if found is not None and found[1] < end:
        return found
    if is_behind:
        named = version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE if named else ErrorCode.LEADER_NOT_AVAILABLE,
            f"{partition}: the high watermark has not reached the leader's epoch",
        )
    return NOTHING


def _readable_end(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER_REPLICA_ID:
        return partition.log.log_end_offset
    return partition.last_stable_offset if request.isolation_level != READ_UNCOMMITTED else partition.high_watermark


def _old_style(partition: Partition, asked: ListOffsetsPartition, replica_id: int) -> list[int]:
    """Return the offsets of segments that began before the time, newest first, for version 0: for consumers the high
    watermark in place of those above it (Kafka: Partition.legacyFetchOffsetsForTimestamp)."""
    offsets = offsets_before(partition.log, asked.timestamp, max(asked.max_num_offsets, 0))
    end = partition.high_watermark
    if replica_id != CONSUMER_REPLICA_ID or not offsets or offsets[0] <= end:
        return offsets
    return [end, *(offset for offset in offsets if offset < end)]
