"""Entities that quotas are set for, as the two requests about client quotas name them."""

from collections.abc import Mapping
from typing import Final

from odradek.broker.quotas.client_quotas import QuotaType
from odradek.broker.quotas.connection_rates import CONNECTION_RATE
from odradek.broker.settings.definition import ValueType
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.zk_schema.znodes.configs import CLIENTS, DEFAULT_ENTITY, IPS, USERS, is_part_of_path, sanitize

USER, CLIENT_ID, IP = "user", "client-id", "ip"
KINDS: Final = (USER, CLIENT_ID, IP)

OF_CLIENTS: Final[dict[str, ValueType]] = {
    QuotaType.PRODUCE.value: ValueType.LONG,
    QuotaType.FETCH.value: ValueType.LONG,
    QuotaType.REQUEST.value: ValueType.DOUBLE,
    QuotaType.MUTATION.value: ValueType.DOUBLE,
}
QUOTA_TYPES: Final[dict[str, dict[str, ValueType]]] = {
    USER: OF_CLIENTS,
    CLIENT_ID: OF_CLIENTS,
    IP: {CONNECTION_RATE: ValueType.INT},
}
"""Quotas by kind of entity, with the numbers that they take."""

Entity = Mapping[str, str | None]
"""Kinds and names; None is the default of a kind."""


def path_of(entity: Entity) -> str:
    """Name the znode below /config. Raises KafkaError INVALID_REQUEST for a combination that there is not."""
    for kind, name in entity.items():
        if kind not in KINDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        if name is not None and not is_part_of_path(name):  # Kafka: UNKNOWN_SERVER_ERROR, what ZooKeeper's client says
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} {name} cannot have quotas of its own")
    parts = {kind: DEFAULT_ENTITY if name is None else sanitize(name) for kind, name in entity.items()}
    match sorted(parts):
        case ["client-id"]:
            return f"{CLIENTS}/{parts[CLIENT_ID]}"
        case ["user"]:
            return f"{USERS}/{parts[USER]}"
        case ["client-id", "user"]:
            return f"{USERS}/{parts[USER]}/{CLIENTS}/{parts[CLIENT_ID]}"
        case ["ip"]:
            return f"{IPS}/{parts[IP]}"
        case []:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
    )
