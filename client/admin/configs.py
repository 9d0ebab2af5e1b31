"""Configurations of topics and brokers. Coroutines for the client's loop."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from odradek.client import arguments
from odradek.client.admin.topics import Failure, raise_first, raise_what_failed, the_one
from odradek.client.admin.values import ConfigEntry, ConfigResource, ConfigSource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.errors import ConfigError
from odradek.protocol.errors import KafkaError
from odradek.protocol.fields import Message
from odradek.protocol.messages import alter_configs as replacing
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Response = TypeVar("Response", bound=Message)

UNLISTED = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Settings of a broker that DescribeConfigs returns only while they are set."""


class Operation(IntEnum):
    """Operation on a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change = tuple[str, Operation, str | None]
"""Name of a setting, operation, and value (None with DELETE)."""


ALL, MODIFIED = "all", "modified"


def resources(given: Any) -> list[ConfigResource]:
    """Return a list of ConfigResources, converting those of kafka-python. Raises ConfigError, TypeError."""
    listed = arguments.listed(given, "ConfigResources")
    found = arguments.instances([_own(one) for one in listed], ConfigResource)
    for one in found:
        if one.type != ResourceType.TOPIC and one.name and not one.name.isdecimal():
            raise ConfigError(f"a broker is named by its number, not {one.name!r}")
    return found


def _own(given: Any) -> Any:
    if isinstance(given, ConfigResource) or not hasattr(given, "resource_type"):
        return given
    return ConfigResource(given.resource_type, given.name, given.configs)


def changes_of(
    given: Mapping[ConfigResource, Sequence[Change]] | Iterable[ConfigResource], operation: Operation
) -> dict[ConfigResource, Sequence[Change]]:
    """Return changes by resource. Resources given without changes have their settings in `configs`, to which
    `operation` applies. Raises ConfigError, TypeError."""
    found: dict[ConfigResource, Sequence[Change]] = {}
    if isinstance(given, Mapping):
        return dict(zip(resources(given), map(_changes, given.values()), strict=True))
    for resource in resources(given):
        if not resource.configs:
            raise ConfigError(f"{resource} has no configs")
        named = resource.configs if isinstance(resource.configs, Mapping) else dict.fromkeys(resource.configs)
        for name, value in named.items():
            arguments.setting(name, value)
        found[resource] = [
            (name, Operation.DELETE if value is None else operation, None if operation == Operation.DELETE else value)
            for name, value in named.items()
        ]
    return found


def _changes(given: Any) -> list[Change]:
    kept = arguments.listed(given, "the changes of a resource")
    for one in kept:
        if not isinstance(one, tuple) or len(one) != len(("name", "operation", "value")):
            raise TypeError(f"a change must be (name, Operation, value), not {type(one).__name__}: {one!r}")
        arguments.setting(one[0], one[2])
    return kept


async def describe_configs(
    cluster: Cluster,
    resources: Sequence[ConfigResource],
    config_filter: str = ALL,
    *,
    include_synonyms: bool = False,
) -> dict[ConfigResource, list[ConfigEntry]]:
    """Return ALL or the MODIFIED settings of each resource. Raises KafkaError when a resource cannot be described."""
    if config_filter not in (ALL, MODIFIED):
        raise ConfigError(f"config_filter is {ALL} or {MODIFIED}, not {config_filter!r}")
    found: dict[ConfigResource, list[ConfigEntry]] = {}
    for resource in resources:
        asked = DescribeConfigsResource(
            resource_type=resource.type, resource_name=resource.name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[asked], include_synonyms=include_synonyms)
        answer = await _ask_owner(cluster, resource, request, DescribeConfigsResponse)
        result = the_one(answer.results, _named(resource))
        raise_first([(result.resource_name, result.error_code, result.error_message)])
        entries = [_entry(one) for one in result.configs]
        found[resource] = [
            one for one in entries if config_filter == ALL or one.source not in (ConfigSource.DEFAULT_CONFIG,)
        ]
    return found


async def alter_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
) -> None:
    """Change single settings and leave the others; all resources are tried. Raises KafkaError when one is refused."""
    results: list[Failure] = []
    raised: list[KafkaError] = []
    for resource, wanted in changes.items():
        altered = AlterConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configs=[AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in wanted],
        )
        request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)
        try:
            answer = await _ask_owner(cluster, resource, request, IncrementalAlterConfigsResponse)
            one = the_one(answer.responses, _named(resource))
        except KafkaError as error:
            raised.append(error)
        else:
            results.append((one.resource_name, one.error_code, one.error_message))
    raise_what_failed(results, raised)


def _named(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower()} {resource.name}"


async def _ask_owner(
    cluster: Cluster, resource: ConfigResource, request: Message, response: type[Response]
) -> Response:
    """Ask a single broker about its own settings, any broker about all others."""
    if resource.type == ResourceType.TOPIC or not resource.name:
        return await cluster.request_any(request, response)
    if int(resource.name) not in cluster.view.nodes:
        await cluster.refresh()
    return await cluster.request(int(resource.name), request, response)


async def replace_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
) -> None:
    """Replace all settings of resources (AlterConfigs): those that are not named get their defaults. Raises as
    `alter_configs`."""
    results: list[Failure] = []
    raised: list[KafkaError] = []
    for resource, wanted in changes.items():
        altered = replacing.AlterConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configs=[
                replacing.AlterableConfig(name=name, value=value)
                for name, kind, value in wanted
                if kind == Operation.SET
            ],
        )
        request = replacing.AlterConfigsRequest(resources=[altered], validate_only=validate_only)
        try:
            answer = await _ask_owner(cluster, resource, request, replacing.AlterConfigsResponse)
            one = the_one(answer.responses, _named(resource))
        except KafkaError as error:
            raised.append(error)
        else:
            results.append((one.resource_name, one.error_code, one.error_message))
    raise_what_failed(results, raised)


async def check_known(cluster: Cluster, changes: Mapping[ConfigResource, Sequence[Change]]) -> None:
    """Raise ConfigError for a setting that its resource does not have."""
    for resource, entries in (await describe_configs(cluster, list(changes))).items():
        known = {entry.name for entry in entries}
        for name, _, _ in changes[resource]:
            if name not in known and not _is_unlisted(resource, name):
                raise ConfigError(f"{_named(resource)} has no setting {name}", setting=name)


def _is_unlisted(resource: ConfigResource, name: str) -> bool:
    """Tell whether DescribeConfigs may leave out a setting that a broker has.

    Of the defaults of all brokers it returns only those that are set; of a single broker neither the throttles in
    UNLISTED nor settings of one listener.
    """
    if resource.type is not ResourceType.BROKER:
        return False
    return not resource.name or name in UNLISTED or name.startswith("listener.name.")


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _entry(one: DescribeConfigsResourceResult) -> ConfigEntry:
    source = _source(one.config_source)
    if source == ConfigSource.UNKNOWN and one.is_default:
        source = ConfigSource.DEFAULT_CONFIG
    synonyms = tuple((other.name, other.value, _source(other.source)) for other in one.synonyms)
    return ConfigEntry(one.name, one.value, source, one.read_only, one.is_sensitive, synonyms)
