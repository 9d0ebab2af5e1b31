"""DeleteTopics (key 20), versions 0 to 6: to the controller; answered when this broker has forgotten the topics.

Version 6 names topics by name or by id; with neither the answer is TOPIC_AUTHORIZATION_FAILED, as Kafka's. A topic
named twice is deleted, and answered twice. With delete.topic.enable=false the answer is TOPIC_DELETION_DISABLED, below
version 3 INVALID_REQUEST. A topic with a replica out of reach stays marked: REQUEST_TIMED_OUT.
"""

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.quotas.client_quotas import MutationQuota
from odradek.broker.requests.administration import charge, mutation_quota, require_controller, until_metadata
from odradek.broker.services import Services
from odradek.controller.deletion_marks import mark_for_deletion
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.primitives import ZERO_UUID

REQUEST = DeleteTopicsRequest
VERSIONS = (0, 6)

FIRST_VERSION_WITH_STRUCTS = 6
FIRST_VERSION_WITH_DELETION_DISABLED = 3
FIRST_VERSION_WITH_STRICT_QUOTA = 5


async def handle(broker: Services, request: DeleteTopicsRequest, context: RequestContext) -> Reply:
    version = context.api_version
    quota = mutation_quota(broker, context, FIRST_VERSION_WITH_STRICT_QUOTA)
    if version >= FIRST_VERSION_WITH_STRUCTS:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    results = [_named(broker, topic, version) for topic in asked]
    marked: set[str] = set()
    for result in results:
        if result.error_code == ErrorCode.NONE:
            await _mark(broker, result, quota, marked)
    await _wait(broker, results, request.timeout_ms)
    throttle_ms = 0 if quota is None else quota.throttle_ms
    return Reply(DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=results), throttle_ms)


def _named(broker: Services, topic: DeleteTopicState, version: int) -> DeletableTopicResult:
    """Find what is to be deleted, or why it may not be."""
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    try:
        require_controller(broker)
        if not broker.config.delete_topic_enable:
            disabled = version >= FIRST_VERSION_WITH_DELETION_DISABLED
            code = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST
            raise KafkaError(code, "delete.topic.enable is false")
        if topic.name is None and topic.topic_id == ZERO_UUID:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
        result.name, result.topic_id = _resolve(broker, topic)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


async def _mark(broker: Services, result: DeletableTopicResult, quota: MutationQuota | None, marked: set[str]) -> None:
    """Mark a topic, unless it is one of those that this request has `marked`: such a one may be gone by now."""
    topic = result.name
    assert topic is not None, "resolved"
    if topic in marked:
        return
    try:
        require_controller(broker)
        if topic in broker.metadata.topics:
            charge(quota, broker.metadata.partition_count(topic))
        elif broker.controller.state is not None and topic in broker.controller.state.topics_to_delete:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is deleted, only its files remain.")
        await mark_for_deletion(broker.zookeeper, topic)
        marked.add(topic)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message


def _resolve(broker: Services, topic: DeleteTopicState) -> tuple[str, bytes]:
    """Return the name and the id. Raises KafkaError: UNKNOWN_TOPIC_ID."""
    state = broker.controller.state
    assert state is not None, "only the controller resolves"
    if topic.name is not None:
        return topic.name, state.topic_ids.get(topic.name, ZERO_UUID)
    name = state.topic_names.get(topic.topic_id)
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return name, topic.topic_id


async def _wait(broker: Services, results: list[DeletableTopicResult], timeout_ms: int) -> None:
    marked = [result for result in results if result.error_code == ErrorCode.NONE]

    def known(result: DeletableTopicResult) -> bool:
        return result.name in broker.metadata.topics

    if not marked or await until_metadata(broker, lambda: not any(map(known, marked)), timeout_ms):
        return
    for result in filter(known, marked):
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        result.error_message = "The topic is marked for deletion, which is not done yet."
