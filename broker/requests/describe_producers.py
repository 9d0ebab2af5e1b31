"""DescribeProducers (key 61), version 0: the producer ids that a replica remembers (KIP-664).

Clients ask the leader unless they name a broker; kafka-transactions --broker-id does, which may then be a follower.
"""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.protocol.record_batch import NO_SEQUENCE
from odradek.protocol.topic_names import name_fault

REQUEST = DescribeProducersRequest
VERSIONS = (0, 0)


def handle(broker: Services, request: DescribeProducersRequest, context: RequestContext) -> Outcome:
    topics = [
        TopicResponse(
            name=topic.name, partitions=[_partition(broker, topic.name, index) for index in topic.partition_indexes]
        )
        for topic in request.topics
    ]
    return Reply(DescribeProducersResponse(topics=topics))


def _partition(broker: Services, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    answer.error_message = name_fault(topic)
    if answer.error_message is not None:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return answer
    partition = broker.replicas.partition(topic, index)
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        unknown = partition is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        fault = "knows no partition" if unknown else "does not have a replica of"
        answer.error_message = f"Broker {broker.config.broker_id} {fault} {topic}-{index}."
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            last_sequence=one.batches[-1].last_sequence if one.batches else NO_SEQUENCE,
            last_timestamp=one.last_timestamp_ms,
            coordinator_epoch=one.coordinator_epoch,
            current_txn_start_offset=one.transaction_first_offset,
        )
        for one in partition.log.producers.producers.values()
    ]
    return answer
