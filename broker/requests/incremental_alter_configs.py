"""IncrementalAlterConfigs (key 44), versions 0 and 1: sets and deletes single settings, adds to and takes from lists.

Rules and errors are those of AlterConfigs. A broker's loggers may be changed too, until it stops: they are Python's,
levels have Kafka's names. Two requests for one resource at the same time both count; Kafka may lose the change of one.
Settings of groups and client metrics are for KRaft, as in Kafka.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import loggers
from odradek.broker.requests.config_resources import (
    ConfigResourceType,
    change_each,
    check_keys,
    check_resource,
    entity,
    to_be_stored,
    with_passwords_decrypted,
)
from odradek.broker.services import Services
from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS
from odradek.broker.settings.definition import Setting, ValueType
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.zk_schema.entity_settings import alter_entity, stored_settings

REQUEST = IncrementalAlterConfigsRequest
VERSIONS = (0, 1)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(broker: Services, request: IncrementalAlterConfigsRequest, context: RequestContext) -> Reply:
    change = partial(_change, broker, request.validate_only)
    responses = await change_each(request.resources, change, AlterConfigsResourceResponse)
    return Reply(IncrementalAlterConfigsResponse(responses=responses))


async def _change(broker: Services, validate_only: bool, resource: AlterConfigsResource) -> None:
    kind, name, changes = resource.resource_type, resource.resource_name, resource.configs
    nulls = (one.name for one in changes if one.value is None and one.config_operation != Operation.DELETE)
    check_keys([one.name for one in changes], nulls)
    for one in changes:
        if one.config_operation not in Operation.__members__.values():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {one.config_operation}")
    if kind == ConfigResourceType.BROKER_LOGGER:
        _change_loggers(broker, validate_only, name, changes)
        return
    check_resource(broker, kind, name)
    known = TOPIC_SETTINGS if kind == ConfigResourceType.TOPIC else BROKER_SETTINGS

    def altered(stored: dict[str, str]) -> Mapping[str, str]:
        settings = with_passwords_decrypted(broker, kind, stored)
        return to_be_stored(broker, kind, name, apply_changes(settings, changes, known))

    if validate_only:
        altered(await stored_settings(broker.zookeeper, entity(kind, name)))
    else:
        await alter_entity(broker.zookeeper, entity(kind, name), altered)


def apply_changes(
    settings: Mapping[str, str], changes: Sequence[AlterableConfig], known: Mapping[str, Setting]
) -> dict[str, str]:
    """Return the settings after the changes. Lists that are not set begin with their default. Raises KafkaError."""
    result = dict(settings)
    for change in changes:
        name, text = change.name, change.value or ""
        if change.config_operation == Operation.DELETE:
            result.pop(name, None)
        elif change.config_operation == Operation.SET:
            result[name] = text
        else:
            old = _elements(result.get(name, _list_default(known, name, Operation(change.config_operation))))
            if change.config_operation == Operation.APPEND:
                present = set(old)
                new = [*old, *(one for one in _elements(text) if one not in present)]
            else:
                removed = set(_elements(text))
                new = [one for one in old if one not in removed]
            result[name] = ",".join(new)
    return result


def _list_default(known: Mapping[str, Setting], name: str, operation: Operation) -> str:
    setting = known.get(name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if setting.type is not ValueType.LIST:
        word = operation.name.lower()
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Config value {word} is not allowed for config key: {name}")
    return setting.default or ""


def _elements(text: str) -> list[str]:
    return text.split(",") if text else []


def _change_loggers(broker: Services, validate_only: bool, name: str, changes: Sequence[AlterableConfig]) -> None:
    loggers.check_broker(broker.identity.broker_id, name)
    for change in changes:
        operation = Operation(change.config_operation)
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        loggers.check(change.name, None if operation == Operation.DELETE else change.value)
    if not validate_only:
        for change in changes:
            loggers.set_level(change.name, None if change.config_operation == Operation.DELETE else change.value)
