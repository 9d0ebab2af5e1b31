"""Configurations of topics and brokers. Coroutines for the client's loop."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from odradek.client.admin.topics import raise_first
from odradek.client.admin.values import ConfigEntry, ConfigResource, ConfigSource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.errors import ConfigError
from odradek.protocol.fields import Message
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


class Operation(IntEnum):
    """What to do with a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change = tuple[str, Operation, str | None]
"""A setting's name, what to do, and the value (None to delete it)."""


async def describe_configs(
    cluster: Cluster, resources: Sequence[ConfigResource]
) -> dict[ConfigResource, list[ConfigEntry]]:
    """Every setting of each resource. Raises KafkaError when one of them cannot be described."""
    found: dict[ConfigResource, list[ConfigEntry]] = {}
    for resource in resources:
        asked = DescribeConfigsResource(
            resource_type=resource.type, resource_name=resource.name, configuration_keys=None
        )
        answer = await _ask_owner(cluster, resource, DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse)
        raise_first((one.resource_name, one.error_code, one.error_message) for one in answer.results)
        found[resource] = [_entry(one) for result in answer.results for one in result.configs]
    return found


async def alter_configs(
    cluster: Cluster, changes: Mapping[ConfigResource, Sequence[Change]], *, validate_only: bool
) -> None:
    """Change single settings, leave the others. Raises KafkaError when one resource cannot be changed."""
    for resource, wanted in changes.items():
        altered = AlterConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configs=[AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in wanted],
        )
        request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)
        answer = await _ask_owner(cluster, resource, request, IncrementalAlterConfigsResponse)
        raise_first((one.resource_name, one.error_code, one.error_message) for one in answer.responses)


async def _ask_owner(
    cluster: Cluster, resource: ConfigResource, request: Message, response: type[Response]
) -> Response:
    """A single broker's settings are that broker's to tell and to change; all others any broker's."""
    if resource.type == ResourceType.TOPIC or not resource.name:
        return await cluster.request_any(request, response)
    if not resource.name.isdigit():
        raise ConfigError(f"a broker is named by its number, not {resource.name!r}")
    if int(resource.name) not in cluster.view.nodes:
        await cluster.refresh()
    return await cluster.request(int(resource.name), request, response)


def _entry(one: DescribeConfigsResourceResult) -> ConfigEntry:
    try:
        source = ConfigSource(one.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    if source == ConfigSource.UNKNOWN and one.is_default:
        source = ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(one.name, one.value, source, one.read_only, one.is_sensitive)
