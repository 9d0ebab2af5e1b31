"""DescribeConfigs (key 32), versions 0 to 4: the settings of topics, brokers and loggers, and where each comes from.

Any broker answers for topics; a broker answers for itself and, under the name "", with the dynamic default of all
brokers. The value that counts is the first that is set of: the topic's own, the broker's dynamic one, the dynamic
default, the file's, Kafka's default; with `include_synonyms` all of them are shown. Passwords are null and marked as
sensitive, and so are settings of an unknown type. Version 3 adds types and documentation. Groups and client metrics are
for KRaft, as in Kafka: the latter are refused alone, and a type without settings has the whole request refused.
"""

from collections.abc import Mapping
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import loggers
from odradek.broker.requests.config_resources import ConfigResourceType, settings_of
from odradek.broker.services import Services
from odradek.broker.settings.catalog import BROKER_SETTINGS, TOPIC_SETTINGS, known_setting
from odradek.broker.settings.definition import BadValue, Setting, ValueType
from odradek.broker.settings.layers import Layers, Source
from odradek.broker.settings.topic_overrides import topic_value
from odradek.controller.topic_admin import check_name
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.protocol.primitives import TEXT_BYTES_MAX
from odradek.world.time_slices import TimeSlice
from odradek.zk_schema.store import StoreError
from odradek.zk_schema.znodes.json_data import BadZnode

REQUEST = DescribeConfigsRequest
VERSIONS = (0, 4)

UNKNOWN_TYPE: Final = 0
TYPE_NUMBERS: Final[dict[ValueType, int]] = {
    ValueType.BOOLEAN: 1,
    ValueType.STRING: 2,
    ValueType.INT: 3,
    ValueType.SHORT: 4,
    ValueType.LONG: 5,
    ValueType.DOUBLE: 6,
    ValueType.LIST: 7,
    ValueType.CLASS: 8,
    ValueType.PASSWORD: 9,
}
DESCRIBED: Final = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN, ConfigResourceType.GROUP}
Sources = list[tuple[str, str, Source]]


async def handle(broker: Services, request: DescribeConfigsRequest, context: RequestContext) -> Reply:
    turn, results = TimeSlice(broker.clock), []
    if any(one.resource_type not in DESCRIBED for one in request.resources):
        return Reply(DescribeConfigsResponse(results=[_of_no_kind(one) for one in request.resources]))
    for resource in request.resources:
        results.append(await _describe(broker, request, resource))
        await turn.pause_if_over()
    return Reply(DescribeConfigsResponse(results=results))


def _of_no_kind(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    """Refuse a resource as one of its request, perhaps another, is of an unknown kind: Kafka then answers for none."""
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="A resource of the request is of a type that has no settings",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


async def _describe(
    broker: Services, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        found = await _entries(broker, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    except BadValue as error:  # somebody wrote it past all checks
        result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, str(error)
        return result
    except (StoreError, BadZnode) as error:
        result.error_code, result.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        return result
    wanted = frozenset(resource.configuration_keys or ())
    result.configs = [one for one in found if not wanted or one.name in wanted]
    for entry in result.configs:
        if not request.include_synonyms:
            entry.synonyms = []
        if not request.include_documentation:
            entry.documentation = None
    for entry in result.configs:
        if any(len(text.encode()) > TEXT_BYTES_MAX for text in _texts(entry)):
            result.error_code, result.configs = ErrorCode.UNKNOWN_SERVER_ERROR, []
            result.error_message = f"The value of {entry.name} is longer than an answer can say: {TEXT_BYTES_MAX} bytes"
            break
    return result


def _texts(entry: DescribeConfigsResourceResult) -> list[str]:
    """Return the texts whose length nothing bounds: a list may grow with each request, or come from a file."""
    return [text for text in (entry.value, *(one.value for one in entry.synonyms)) if text is not None]


async def _entries(broker: Services, kind: int, name: str) -> list[DescribeConfigsResourceResult]:
    if kind == ConfigResourceType.TOPIC:
        check_name(name)
        if name not in broker.metadata.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return topic_entries(broker.config, await settings_of(broker, kind, name))
    if kind == ConfigResourceType.BROKER:
        return _broker_entries(broker, name)
    if kind == ConfigResourceType.BROKER_LOGGER:
        loggers.check_broker(broker.identity.broker_id, name)
        return [
            DescribeConfigsResourceResult(name=logger, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER)
            for logger, level in loggers.levels().items()
        ]
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    raise KafkaError(ErrorCode.INVALID_REQUEST, "Config type client-metrics is only supported on KRaft clusters")


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """List all settings of a topic that has these of its own, by name. Raises BadValue for one that cannot be read."""
    found = []
    for name in sorted({*TOPIC_SETTINGS, *overrides}):
        setting = TOPIC_SETTINGS.get(name)
        text = None if setting is None else setting.write(topic_value(config, overrides, name))
        sources: Sources = []
        if setting is not None and setting.broker_names:
            sources = config.layers.sources(setting.broker_names[0])
        if name in overrides:
            sources.insert(0, (name, text or "", Source.TOPIC))
        found.append(_entry(name, setting, text, sources, read_only=False))
    return found


def _broker_entries(broker: Services, name: str) -> list[DescribeConfigsResourceResult]:
    layers = broker.config.layers
    if not name:
        return [
            _broker_entry(layers, one, only=Source.DYNAMIC_DEFAULT_BROKER) for one in sorted(layers.dynamic_default)
        ]
    if not (name.isascii() and name.isdecimal()) or len(name) > len(str(2**31)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    own = broker.identity.broker_id
    if int(name) != own:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own} or empty string, but received {name}"
        )
    shown = {one.name for one in BROKER_SETTINGS.values() if not one.internal}
    given = layers.static.keys() | layers.dynamic_default.keys() | layers.dynamic_broker.keys()
    return [_broker_entry(layers, one) for one in sorted(shown | given)]


def _broker_entry(layers: Layers, name: str, only: Source | None = None) -> DescribeConfigsResourceResult:
    setting = known_setting(name)
    sources = [one for one in layers.sources(name) if only in (None, one[2])]
    if setting is None:
        return _entry(name, None, None, sources, read_only=True)
    text = setting.write(layers.value(name)) if only is None else layers.dynamic_default[name]
    # Kafka looks the whole name up among those of AllDynamicConfigs: one listener's and the throttles are not there
    fixed = name != setting.name or setting.internal or not setting.changes_live
    return _entry(name, setting, text, sources, read_only=fixed)


def _entry(
    name: str, setting: Setting | None, text: str | None, sources: Sources, *, read_only: bool
) -> DescribeConfigsResourceResult:
    secret = setting is None or setting.is_sensitive
    source = sources[0][2] if sources else Source.DEFAULT
    return DescribeConfigsResourceResult(
        name=name,
        value=None if secret else text,
        read_only=read_only,
        is_default=source is Source.DEFAULT,
        config_source=source,
        is_sensitive=secret,
        synonyms=[
            DescribeConfigsSynonym(name=one, value=None if secret else value, source=where)
            for one, value, where in sources
        ],
        config_type=UNKNOWN_TYPE if setting is None else TYPE_NUMBERS[setting.type],
        documentation=None if setting is None else setting.documentation,
    )
