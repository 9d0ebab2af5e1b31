"""OffsetForLeaderEpoch (key 23), versions 0 to 4: where a leader epoch ended (KIP-101, KIP-279, KIP-320).

Followers and consumers use it to find where their history leaves the leader's. An epoch that the leader does not know
is answered with -1, -1.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

REQUEST = OffsetForLeaderEpochRequest
VERSIONS = (0, 4)


def handle(broker: Services, request: OffsetForLeaderEpochRequest, context: RequestContext) -> Outcome:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_partition(broker, topic.topic, asked) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    return Reply(OffsetForLeaderEpochResponse(topics=topics))


def _partition(broker: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replicas.led_in_epoch(topic, asked.partition, asked.current_leader_epoch)
    except KafkaError as refused:
        return EpochEndOffset(partition=asked.partition, error_code=refused.code)
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
