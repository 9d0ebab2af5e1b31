"""CreatePartitions (key 37), versions 0 to 3: to the controller; answered when this broker knows the new leaders."""

from collections import Counter
from functools import partial

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.quotas.client_quotas import MutationQuota
from odradek.broker.requests.administration import (
    charge,
    mutation_quota,
    not_led_in_time,
    racks,
    require_controller,
)
from odradek.broker.services import Services
from odradek.controller.topic_admin import add_partitions
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

REQUEST = CreatePartitionsRequest
VERSIONS = (0, 3)

FIRST_VERSION_WITH_STRICT_QUOTA = 3


async def handle(broker: Services, request: CreatePartitionsRequest, context: RequestContext) -> Reply:
    times = Counter(topic.name for topic in request.topics)
    counts = {topic.name: topic.count for topic in request.topics}
    quota = mutation_quota(broker, context, FIRST_VERSION_WITH_STRICT_QUOTA)
    results = {}
    for topic in request.topics:
        if topic.name not in results:
            results[topic.name] = await _create_one(broker, topic, request.validate_only, times[topic.name], quota)
    if not request.validate_only:
        made = {name: counts[name] for name, result in results.items() if result.error_code == ErrorCode.NONE}
        for name in await not_led_in_time(broker, made, request.timeout_ms):
            results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            results[name].error_message = "The partitions are being created; their leaders are not known yet."
    throttle_ms = 0 if quota is None else quota.throttle_ms
    return Reply(CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=list(results.values())), throttle_ms)


async def _create_one(
    broker: Services, topic: CreatePartitionsTopic, validate_only: bool, times: int, quota: MutationQuota | None
) -> CreatePartitionsTopicResult:
    assignments = None if topic.assignments is None else [given.broker_ids for given in topic.assignments]
    try:
        require_controller(broker)
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
        await add_partitions(
            broker.zookeeper,
            topic.name,
            topic.count,
            assignments,
            racks(broker),
            validate_only=validate_only,
            charge=partial(charge, quota),
        )
    except KafkaError as error:
        return CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
    return CreatePartitionsTopicResult(name=topic.name)
