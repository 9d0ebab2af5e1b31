"""DescribeClientQuotas (key 48), versions 0 and 1: the quotas that ZooKeeper has of users, clients and addresses.

A filter names kinds of entities, each by its name, by the default, or with any name; `strict` leaves out those that
have other kinds besides. Kinds that nobody knows are UNSUPPORTED_VERSION, and an address goes with no other kind.

Source: ZkAdminManager.describeClientQuotas of Kafka 3.9.
"""

import logging
from collections.abc import Mapping
from typing import Final

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests.quota_entities import IP, KINDS, QUOTA_TYPES, Entity, path_of
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from odradek.zk_schema.entity_settings import stored_settings
from odradek.zk_schema.store import Store, StoreError, children_if_any
from odradek.zk_schema.znodes.configs import CLIENTS, DEFAULT_ENTITY, IPS, USERS, desanitize, entity_path
from odradek.zk_schema.znodes.json_data import BadZnode

log = logging.getLogger(__name__)

REQUEST = DescribeClientQuotasRequest
VERSIONS = (0, 1)

EXACT, DEFAULT, ANY = 0, 1, 2
ANYBODY: Final = object()
Filter = Mapping[str, object]
"""Entities by their kind: a name, None for the default, ANYBODY for all."""


async def handle(broker: Services, request: DescribeClientQuotasRequest, context: RequestContext) -> Reply:
    try:
        wanted = _filter(request.components)
        found = [
            (entity, settings)
            for entity in await _entities(broker.zookeeper)
            if _matches(wanted, entity, request.strict)
            and (settings := await stored_settings(broker.zookeeper, path_of(entity)))
        ]
    except KafkaError as error:
        return Reply(DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None))
    except (StoreError, BadZnode) as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return Reply(DescribeClientQuotasResponse(error_code=code, error_message=str(error), entries=None))
    entries = [entry for entity, settings in found if (entry := _entry(entity, settings)) is not None]
    return Reply(DescribeClientQuotasResponse(error_message=None, entries=entries))


def _filter(components: list[ComponentData]) -> Filter:
    wanted: dict[str, object] = {}
    for one in components:
        if one.entity_type in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {one.entity_type} filter component entity type")
        if not one.entity_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if one.entity_type not in KINDS:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{one.entity_type}' not supported")
        if one.match_type not in (EXACT, DEFAULT, ANY):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {one.match_type}")
        wanted[one.entity_type] = {EXACT: one.match, DEFAULT: None, ANY: ANYBODY}[one.match_type]
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return wanted


async def _entities(zookeeper: Store) -> list[Entity]:
    """List all entities that have settings of any kind."""
    entities: list[Entity] = []
    for user in await children_if_any(zookeeper, entity_path(USERS)):
        entities.append({"user": _name(user)})
        for client in await children_if_any(zookeeper, entity_path(f"{USERS}/{user}/{CLIENTS}")):
            entities.append({"user": _name(user), "client-id": _name(client)})
    entities += [{"client-id": _name(client)} for client in await children_if_any(zookeeper, entity_path(CLIENTS))]
    return entities + [{IP: _name(address)} for address in await children_if_any(zookeeper, entity_path(IPS))]


def _name(part: str) -> str | None:
    return None if part == DEFAULT_ENTITY else desanitize(part)


def _matches(wanted: Filter, entity: Entity, strict: bool) -> bool:
    if strict and (not wanted or entity.keys() - wanted.keys()):
        return False
    return all(kind in entity and (name is ANYBODY or name == entity[kind]) for kind, name in wanted.items())


def _entry(entity: Entity, settings: Mapping[str, str]) -> EntryData | None:
    known = QUOTA_TYPES[IP if IP in entity else "user"]
    values = []
    for key, text in settings.items():
        if key in known:
            try:
                values.append(ValueData(key=key, value=float(text)))
            except ValueError:
                log.warning("%s of %s is no number: %r", key, entity, text)
    if not values:
        return None
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()], values=values
    )
