"""AlterPartitionReassignments (key 45), version 0: to the controller; begins or cancels moves of replicas (KIP-455)."""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.protocol.topic_names import TopicPartition

REQUEST = AlterPartitionReassignmentsRequest
VERSIONS = (0, 0)


async def handle(broker: Services, request: AlterPartitionReassignmentsRequest, context: RequestContext) -> Reply:
    targets = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    try:
        outcomes = await broker.controller.alter_reassignments(targets)
    except KafkaError as error:
        return Reply(AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message))
    topics: dict[str, ReassignableTopicResponse] = {}
    for partition, (code, text) in sorted(outcomes.items()):
        topic = topics.setdefault(partition.topic, ReassignableTopicResponse(name=partition.topic))
        topic.partitions.append(
            ReassignablePartitionResponse(partition_index=partition.partition, error_code=code, error_message=text)
        )
    return Reply(AlterPartitionReassignmentsResponse(responses=list(topics.values())))
