"""AlterClientQuotas (key 49), versions 0 and 1: sets and takes away quotas of users, clients and addresses; any broker.

They are written to ZooKeeper beside whatever else is set for the entity, and announced; brokers obey when they hear of
it. An ip must be an address: Kafka also resolves host names, which may have another address at another broker.

Source: ZkAdminManager.alterClientQuotas of Kafka 3.9.
"""

import ipaddress
from math import isfinite

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.quotas.connection_rates import CONNECTION_RATE
from odradek.broker.requests.quota_entities import IP, QUOTA_TYPES, USER, path_of
from odradek.broker.services import Services
from odradek.broker.settings.definition import INTEGER_BITS, ValueType, java_double
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from odradek.zk_schema.entity_settings import alter_entity, stored_settings
from odradek.zk_schema.store import Store, StoreError
from odradek.zk_schema.znodes.json_data import BadZnode

REQUEST = AlterClientQuotasRequest
VERSIONS = (0, 1)

EPSILON = 1e-6


async def handle(broker: Services, request: AlterClientQuotasRequest, context: RequestContext) -> Reply:
    entries = [await _answer(broker.zookeeper, entry, request.validate_only) for entry in request.entries]
    return Reply(AlterClientQuotasResponse(entries=entries))


async def _answer(zookeeper: Store, entry: EntryData, validate_only: bool) -> ResponseEntryData:
    answer = ResponseEntryData(
        error_message=None,
        entity=[ResponseEntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
    )
    try:
        await _alter(zookeeper, entry, validate_only)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    except (StoreError, BadZnode) as error:
        answer.error_code, answer.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
    return answer


async def _alter(zookeeper: Store, entry: EntryData, validate_only: bool) -> None:
    entity = {one.entity_type: one.entity_name for one in entry.entity}
    path = path_of(entity)
    address = entity.get(IP)
    if address is not None and not _is_address(address):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")
    known = QUOTA_TYPES[IP if IP in entity else USER]

    def altered(settings: dict[str, str]) -> dict[str, str]:
        for change in entry.ops:
            if change.remove:
                settings.pop(change.key, None)
            elif change.key in known:
                settings[change.key] = _text(change.key, change.value, known[change.key])
            else:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {change.key}")
        return settings

    if validate_only:
        altered(await stored_settings(zookeeper, path))
    else:
        await alter_entity(zookeeper, path, altered)


def _text(key: str, value: float, kind: ValueType) -> str:
    """Write a number as Kafka does. Raises KafkaError INVALID_REQUEST."""
    if kind is ValueType.DOUBLE:
        if not isfinite(value):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a number")
        return java_double(value)
    if key == CONNECTION_RATE and value < 0:  # would keep the address out
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid value for configuration {key}: Value must be at least 0")
    if not isfinite(value):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind.name} value")
    limit = 1 << (INTEGER_BITS[kind] - 1)
    whole = max(-limit, min(int(value + EPSILON), limit - 1))  # "unlimited", 2^63 - 1, arrives as 2^63
    if abs(float(whole) - value) > EPSILON:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Configuration {key} must be a {kind.name} value")
    return str(whole)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
