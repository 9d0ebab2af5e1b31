"""Rules of the three APIs about settings: a topic's are asked for by the topic, a broker's by the cluster.

Source: ConfigHelper and KafkaApis of Kafka 3.9.
"""

from collections.abc import Callable
from typing import Any, Final

from odradek.broker.network.outcomes import Outcome
from odradek.broker.requests.authorization.rules import DENIED, Asked, GoOn, answered, denied_text, split
from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.broker.requests.describe_configs import DESCRIBED
from odradek.broker.security.acls import AclOperation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from odradek.zk_schema.znodes.acls import ResourceType

OF_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)


def describe(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for DESCRIBE_CONFIGS on each resource; where one is of a type that has no settings, the handler refuses all,
    whoever asks."""
    if any(resource.resource_type not in DESCRIBED for resource in asked.request.resources):
        return go_on()

    def refusal(resource: Any, error: ErrorCode) -> Any:
        return describe_configs.DescribeConfigsResult(
            error_code=error,
            error_message=denied_text(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return _for_each(asked, go_on, AclOperation.DESCRIBE_CONFIGS, "results", refusal)


def alter(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for ALTER_CONFIGS on each resource, whose settings are replaced as a whole."""

    def refusal(resource: Any, error: ErrorCode) -> Any:
        return alter_configs.AlterConfigsResourceResponse(
            error_code=error,
            error_message=denied_text(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return _for_each(asked, go_on, AclOperation.ALTER_CONFIGS, "responses", refusal)


def alter_incrementally(asked: Asked, go_on: GoOn) -> Outcome:
    """Ask for ALTER_CONFIGS on each resource."""

    def refusal(resource: Any, error: ErrorCode) -> Any:
        return incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=error,
            error_message=denied_text(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return _for_each(asked, go_on, AclOperation.ALTER_CONFIGS, "responses", refusal)


def _for_each(
    asked: Asked, go_on: GoOn, operation: AclOperation, answers: str, refusal: Callable[[Any, ErrorCode], Any]
) -> Outcome:
    rights = asked.rights

    def may(resource: Any) -> bool:
        if resource.resource_type in OF_CLUSTER:
            return rights.may_with_cluster(operation)
        if resource.resource_type == ConfigResourceType.TOPIC:
            return rights.may(operation, ResourceType.TOPIC, resource.resource_name)
        return True  # of a kind that nobody has settings of: the handler says so

    def error(resource: Any) -> ErrorCode:
        of_topic = resource.resource_type == ConfigResourceType.TOPIC
        return DENIED[ResourceType.TOPIC if of_topic else ResourceType.CLUSTER]

    asked.request.resources, left = split(asked.request.resources, may)

    def change(response: Any) -> None:
        refused = [refusal(resource, error(resource)) for resource in left]
        setattr(response, answers, [*getattr(response, answers), *refused])

    return answered(go_on(), change) if left else go_on()
