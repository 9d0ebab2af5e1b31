"""CreateTopics (key 19), versions 0 to 7: to the controller; answered when this broker knows the leaders.

It is answered at the timeout at the latest. Each topic is checked and written by itself. From version 5 the answer has
all settings of the topic and where each comes from. Stricter than Kafka: an assignment with an empty list of replicas,
or of the same partition twice, is INVALID_REPLICA_ASSIGNMENT; Kafka makes a partition that nobody holds, or takes the
last of the two.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from odradek.broker.config import BrokerConfig
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.quotas.client_quotas import MutationQuota
from odradek.broker.requests.administration import (
    charge,
    defaults,
    mutation_quota,
    not_led_in_time,
    racks,
    require_controller,
)
from odradek.broker.requests.describe_configs import topic_entries
from odradek.broker.services import Services
from odradek.broker.settings.definition import BadValue
from odradek.broker.settings.topic_overrides import validate_topic_config
from odradek.controller.topic_admin import NewTopic, create_topic
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

REQUEST = CreateTopicsRequest
VERSIONS = (0, 7)

FIRST_VERSION_WITH_CONFIGS = 5
FIRST_VERSION_WITH_STRICT_QUOTA = 6


async def handle(broker: Services, request: CreateTopicsRequest, context: RequestContext) -> Reply:
    times = Counter(topic.name for topic in request.topics)
    quota = mutation_quota(broker, context, FIRST_VERSION_WITH_STRICT_QUOTA)
    results = {}
    for topic in request.topics:
        if topic.name not in results:
            results[topic.name] = await _create_one(broker, topic, request.validate_only, times[topic.name], quota)
            if results[topic.name].error_code == ErrorCode.NONE and context.api_version >= FIRST_VERSION_WITH_CONFIGS:
                results[topic.name].configs = _configs(broker.config, topic)
    if not request.validate_only:
        await _wait(broker, results, request.timeout_ms)
    throttle_ms = 0 if quota is None else quota.throttle_ms
    return Reply(CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=list(results.values())), throttle_ms)


async def _create_one(
    broker: Services, topic: CreatableTopic, validate_only: bool, times: int, quota: MutationQuota | None
) -> CreatableTopicResult:
    settings = {config.name: config.value for config in topic.configs}
    try:
        require_controller(broker)
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request contains several entries for topic {topic.name}.")
        created = await create_topic(
            broker.zookeeper,
            _new_topic(topic, settings),
            racks(broker),
            defaults(broker),
            broker.random,
            partial(_check_settings, broker.config),
            validate_only=validate_only,
            charge=partial(charge, quota),
        )
    except KafkaError as error:
        return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=created.topic_id,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        error_message=None,
    )


def _configs(config: BrokerConfig, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_entries(config, {one.name: one.value for one in topic.configs if one.value is not None})
    ]


def _check_settings(config: BrokerConfig, settings: Mapping[str, str]) -> None:
    try:
        validate_topic_config(config, settings)
    except BadValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _new_topic(topic: CreatableTopic, settings: Mapping[str, str | None]) -> NewTopic:
    """Take a topic from the request. Raises KafkaError INVALID_REPLICA_ASSIGNMENT for a partition that comes twice."""
    assignment = {given.partition_index: given.broker_ids for given in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Topic {topic.name}: a partition is assigned twice.")
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignment, settings)


async def _wait(broker: Services, results: Mapping[str, CreatableTopicResult], timeout_ms: int) -> None:
    """Wait until this broker knows the leaders; a topic that it does not know in time is made nevertheless."""
    made = {name: result.num_partitions for name, result in results.items() if result.error_code == ErrorCode.NONE}
    for name in await not_led_in_time(broker, made, timeout_ms):
        results[name].error_code = ErrorCode.REQUEST_TIMED_OUT
        results[name].error_message = "The topic is being created; its leaders are not known yet."
