"""Client quotas (KIP-546). Coroutines for the client's loop."""

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.client import arguments
from odradek.client.admin.access_values import ClientQuota, ClientQuotaAlteration, QuotaMatch
from odradek.client.admin.topics import raise_first
from odradek.client.calls import Deadline, ask_controller
from odradek.client.cluster import Cluster
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages import alter_client_quotas as alteration
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, ANY = 0, 1, 2


async def describe(
    cluster: Cluster, wanted: Mapping[str, str | QuotaMatch | None], *, strict: bool
) -> list[ClientQuota]:
    """Return the quotas of entities that a filter matches. Raises KafkaError."""
    components = [_component(kind, name) for kind, name in wanted.items()]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    answer = await cluster.request_any(request, DescribeClientQuotasResponse)
    if answer.error_code:
        raise KafkaError(error_code(answer.error_code), answer.error_message or "quotas cannot be read")
    return [
        ClientQuota(
            {part.entity_type: part.entity_name for part in one.entity}, {part.key: part.value for part in one.values}
        )
        for one in answer.entries or []
    ]


def _component(kind: str, name: str | QuotaMatch | None) -> ComponentData:
    if isinstance(name, QuotaMatch):
        return ComponentData(entity_type=kind, match_type=ANY, match=None)
    return ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)


def alterations(given: Any) -> list[ClientQuotaAlteration]:
    """Return alterations as a list, after a check that they can be sent. Raises TypeError, ConfigError."""
    found = arguments.instances(given, ClientQuotaAlteration)
    for one in found:
        for kind, name in arguments.mapping(one.entity, "the entity of a quota").items():
            arguments.text(kind, "the type of an entity")
            if name is not None:
                arguments.text(name, "the name of an entity")
        for key, limit in arguments.mapping(one.quotas, "quotas").items():
            arguments.text(key, "the name of a quota")
            if limit is not None and (isinstance(limit, (bool, str)) or not hasattr(limit, "__float__")):
                raise TypeError(f"a quota must be a number, not {type(limit).__name__}: {limit!r}")
    return found


async def alter(
    cluster: Cluster, alterations: Iterable[ClientQuotaAlteration], deadline: Deadline, *, validate_only: bool
) -> None:
    """Set and remove quotas; all are tried. Raises KafkaError when one has failed."""
    entries = [
        alteration.EntryData(
            entity=[alteration.EntityData(entity_type=kind, entity_name=name) for kind, name in one.entity.items()],
            ops=[
                alteration.OpData(key=key, value=0.0 if limit is None else float(limit), remove=limit is None)
                for key, limit in one.quotas.items()
            ],
        )
        for one in alterations
    ]
    request = alteration.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)

    def errors(answer: alteration.AlterClientQuotasResponse) -> list[ErrorCode]:
        return [error_code(one.error_code) for one in answer.entries]

    answer = await ask_controller(cluster, request, alteration.AlterClientQuotasResponse, errors, deadline)
    raise_first((_named(one), one.error_code, one.error_message) for one in answer.entries)


def _named(one: alteration.ResponseEntryData) -> str:
    return ", ".join(f"{part.entity_type} {part.entity_name or 'default'}" for part in one.entity)
