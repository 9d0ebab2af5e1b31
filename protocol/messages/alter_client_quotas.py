"""AlterClientQuotas: API key 49, versions 0-1, flexible from 1. To any broker; clients use the controller.

Sets or removes quotas of entities: keys such as producer_byte_rate, consumer_byte_rate, request_percentage,
controller_mutation_rate, connection_creation_rate (ip only). A null entity name is the default entity.

1   flexible
"""

from odradek.protocol.fields import BOOL, FLOAT64, INT16, INT32, STRING, Array, Message, Struct, field


class EntityData(Struct):
    entity_type: str = field(STRING, "0+")
    entity_name: str | None = field(STRING, "0+", nullable="0+")


class OpData(Struct):
    key: str = field(STRING, "0+")
    value: float = field(FLOAT64, "0+")
    remove: bool = field(BOOL, "0+")


class EntryData(Struct):
    entity: list[EntityData] = field(Array(EntityData), "0+")
    ops: list[OpData] = field(Array(OpData), "0+")


class AlterClientQuotasRequest(Message):
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    entries: list[EntryData] = field(Array(EntryData), "0+")
    validate_only: bool = field(BOOL, "0+")


class ResponseEntityData(Struct):
    entity_type: str = field(STRING, "0+")
    entity_name: str | None = field(STRING, "0+", nullable="0+")


class ResponseEntryData(Struct):
    error_code: int = field(INT16, "0+")
    error_message: str | None = field(STRING, "0+", nullable="0+")
    entity: list[ResponseEntityData] = field(Array(ResponseEntityData), "0+")


class AlterClientQuotasResponse(Message):
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    throttle_time_ms: int = field(INT32, "0+")
    entries: list[ResponseEntryData] = field(Array(ResponseEntryData), "0+")
