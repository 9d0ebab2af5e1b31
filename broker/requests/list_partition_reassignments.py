"""ListPartitionReassignments (key 46), version 0: to the controller; the moves of replicas that are under way."""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.protocol.topic_names import TopicPartition

REQUEST = ListPartitionReassignmentsRequest
VERSIONS = (0, 0)


async def handle(broker: Services, request: ListPartitionReassignmentsRequest, context: RequestContext) -> Reply:
    asked = None
    if request.topics is not None:
        asked = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    try:
        under_way = await broker.controller.list_reassignments(asked)
    except KafkaError as error:
        return Reply(ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message))
    topics: dict[str, OngoingTopicReassignment] = {}
    for partition, assignment in under_way.items():
        topic = topics.setdefault(partition.topic, OngoingTopicReassignment(name=partition.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return Reply(ListPartitionReassignmentsResponse(topics=list(topics.values())))
