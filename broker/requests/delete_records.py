"""DeleteRecords (key 21), versions 0 to 2: moves the start of partitions up, in all replicas (KIP-107).

Offset -1 means the high watermark; above it OFFSET_OUT_OF_RANGE. A topic that is only compacted refuses with
POLICY_VIOLATION, an internal one with INVALID_TOPIC_EXCEPTION. The answer waits until every live replica has followed,
and says from which offset on all of them have records. At the timeout it is REQUEST_TIMED_OUT, though the start has
moved on the leader.
"""

from collections.abc import Callable, Sequence

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Respond, Wait
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.protocol.topic_names import INTERNAL_TOPICS

REQUEST = DeleteRecordsRequest
VERSIONS = (0, 2)

HIGH_WATERMARK = -1
NOT_KNOWN = -1

Awaited = tuple[DeleteRecordsPartitionResult, Partition, int]
"""Answer to be given, and the start that all replicas of a partition are to reach."""


def handle(broker: Services, request: DeleteRecordsRequest, context: RequestContext) -> Outcome:
    awaited: list[Awaited] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(broker, topic.name, asked, awaited) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    if not awaited:
        return Reply(response)

    def start(respond: Respond) -> DelayedDeletion:
        return DelayedDeletion(awaited, lambda: respond(response))

    return Wait(start, [partition.low_watermark_moved for _, partition, _ in awaited], request.timeout_ms)


def _delete(
    broker: Services, topic: str, asked: DeleteRecordsPartition, awaited: list[Awaited]
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NOT_KNOWN)
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        partition = broker.replicas.led(topic, asked.partition_index)
        if partition.log.config.cleanup_policy == {"compact"}:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted, its records are not deleted by offset")
        offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not within 0..{partition.high_watermark}")
        partition.log.advance_log_start_offset(offset)
    except KafkaError as error:
        answer.error_code = error.code
    else:
        # followers that wait for records, and other deletions that wait for followers, learn of the new start at once
        broker.replicas.purgatory.touch(partition.appended)
        broker.replicas.purgatory.touch(partition.low_watermark_moved)
        awaited.append((answer, partition, offset))
    return answer


class DelayedDeletion:
    """A request that waits until the live replicas of all partitions begin where they should.

    What is answered for a partition stays so while others are waited for.
    """

    def __init__(self, awaited: Sequence[Awaited], done: Callable[[], None]) -> None:
        self._awaited, self._done = awaited, done

    def try_complete(self) -> bool:
        self._awaited = [one for one in self._awaited if not self._settle(*one)]
        if not self._awaited:
            self._done()
        return not self._awaited

    def expire(self) -> None:
        for answer, partition, offset in self._awaited:
            if not self._settle(answer, partition, offset):
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._done()

    def _settle(self, answer: DeleteRecordsPartitionResult, partition: Partition, offset: int) -> bool:
        if not partition.is_leader:
            answer.error_code, answer.low_watermark = partition.check_leadership(), NOT_KNOWN
            return True
        answer.low_watermark = partition.low_watermark()
        return answer.low_watermark >= offset
