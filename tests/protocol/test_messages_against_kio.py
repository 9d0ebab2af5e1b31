"""Every version of every request and response against kio, which has Kafka's own schemas by another hand.

A random message of ours is encoded; kio must read all of it, name by name the same values, and write the same bytes.
"""

import datetime
import io
import random
import uuid
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import IntEnum
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import RETRIABLE, ErrorCode
from odradek.protocol.fields import Array, Field, Message, Struct
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.primitives import ZERO_UUID

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
ROUNDS = 3
CASES = [
    pytest.param(side, key, id=f"{name}-{side}") for key, name in API_NAMES.items() for side in ("request", "response")
]


def folded(name: str) -> str:
    """kio leaves units out of names where its types have them."""
    return name.replace("_", "").removesuffix("ms")


def plain(value: Any) -> Any:
    """A value of kio as we would have it."""
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return list(map(plain, value)) if isinstance(value, tuple) else value


def kafka_types(schema: Any, struct: type[Struct]) -> dict[int, str]:
    """For each of our fields, by identity, kio's type of it; also for the structs inside."""
    found: dict[int, str] = {}
    theirs = {folded(line.name): line for line in fields(schema)}
    for line in struct.FIELDS:
        other = theirs.get(folded(line.name))
        if other is None:
            continue
        found[id(line)] = other.metadata.get("kafka_type", "struct")
        inner = line.wire.element if isinstance(line.wire, Array) else line.wire
        if isinstance(inner, type):
            found |= kafka_types(entity_class(other.type), inner)
    return found


def entity_class(annotation: Any) -> Any:
    """The dataclass inside `tuple[X, ...] | None`."""
    if hasattr(annotation, "__dataclass_fields__") and isinstance(annotation, type):
        return annotation
    return next((found for part in annotation.__args__ if (found := entity_class_or_none(part))), None)


def entity_class_or_none(annotation: Any) -> Any:
    is_entity = hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "__args__")
    return entity_class(annotation) if is_entity else None


def assert_same(ours: Struct, theirs: Any, version: int) -> None:
    present = [line for line in ours.FIELDS if version in line.versions]
    values = {folded(line.name): getattr(theirs, line.name) for line in fields(theirs)}
    assert {folded(line.name) for line in present} == set(values), type(ours).__name__
    for line in present:
        assert_same_value(line, getattr(ours, line.name), values[folded(line.name)], version)


def assert_same_value(line: Field, ours: Any, theirs: Any, version: int) -> None:
    where = f"{line.name} version {version}"
    if isinstance(ours, Struct):
        assert_same(ours, theirs, version)
    elif isinstance(ours, list) and ours and isinstance(ours[0], Struct):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, version)
    elif ours is None and theirs is not None:
        empty = all(getattr(theirs, part.name) == part.default for part in fields(theirs))
        assert line.is_tagged() and empty, f"{where}: {theirs} for an absent struct"
    else:
        assert plain_or_zero(line, theirs, ours) == ours, where


def plain_or_zero(line: Field, theirs: Any, ours: Any) -> Any:
    """kio has None for a zero uuid and for a time of -1."""
    if theirs is None and ours is not None:
        return ZERO_UUID if isinstance(ours, bytes) else -1
    if isinstance(ours, list):
        return [ZERO_UUID if part is None else plain(part) for part in theirs]
    return plain(theirs)


def schema_of(side: str, key: int, version: int) -> Any:
    return load_request_schema(key, version) if side == "request" else load_response_schema(key, version)


def to_kio_and_back(schema: Any, data: bytes) -> tuple[Any, bytes]:
    entity, size = entity_reader(schema)(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    entity_writer(schema)(out, entity)
    return entity, out.getvalue()


ERROR_CODES = [int(code) for code in KioErrorCode]


def number_for_kio(random_messages: Any, types: dict[int, str]) -> Callable[[Field, str], int]:
    """kio reads some numbers as error codes, times and durations, and refuses those that it cannot show as such."""
    chance: random.Random = random_messages.random

    def number(line: Field, code: str) -> int:
        match types.get(id(line)):
            case "error_code":
                return chance.choice(ERROR_CODES)
            case "datetime_i64":
                return chance.randrange(2_000_000_000) * 1000
            case "timedelta_i64":
                return chance.randrange(-(10**9), 10**9)
            case _:
                return int(random_messages.integer(code))

    return number


@pytest.mark.parametrize(("side", "key"), CASES)
def test_random_messages(side: str, key: int, random_messages: Any) -> None:
    message: type[Message] = getattr(message_classes(key), side)
    lowest, highest = message.VERSIONS
    for version in range(lowest, highest + 1):
        schema = schema_of(side, key, version)
        random_messages.number = number_for_kio(random_messages, kafka_types(schema, message))
        for _ in range(ROUNDS):
            ours = random_messages.message(message, version)
            data = encode(ours, version)
            entity, written = to_kio_and_back(schema, data)
            assert_same(ours, entity, version)
            assert written == data
            assert decode(message, version, data) == ours


@pytest.mark.parametrize(("side", "key"), CASES)
def test_defaults(side: str, key: int) -> None:
    """The defaults of Kafka's schemas are ours, field by field; and a message of defaults is read back as such."""
    message: type[Message] = getattr(message_classes(key), side)
    lowest, highest = message.VERSIONS
    for version in range(lowest, highest + 1):
        compare_defaults(message, schema_of(side, key, version))
        assert decode(message, version, encode(message(), version)) == message()


def compare_defaults(struct: type[Struct], schema: Any) -> None:
    ours = struct()
    theirs = {folded(line.name): line for line in fields(schema)}
    for line in struct.FIELDS:
        other = theirs.get(folded(line.name))
        inner = line.wire.element if isinstance(line.wire, Array) else line.wire
        if other is None:
            continue
        if isinstance(inner, type):
            compare_defaults(inner, entity_class(other.type))
        elif other.default is not MISSING:
            assert_same_value(line, getattr(ours, line.name), other.default, -1)


def test_versions_and_flexibility() -> None:
    """kio 0.5.0 has every version that we have, so nothing goes unchecked here."""
    for key, name in API_NAMES.items():
        for side in ("request", "response"):
            message: type[Message] = getattr(message_classes(key), side)
            lowest, highest = message.VERSIONS
            assert (lowest, message.API_KEY) == (0, key), name
            for version in range(lowest, highest + 1):
                schema = schema_of(side, key, version)
                assert schema.__flexible__ == (version >= message.FLEXIBLE_FROM), f"{name} {version}"


def test_error_codes() -> None:
    assert {code.name: int(code) for code in ErrorCode} == {code.name.upper(): int(code) for code in KioErrorCode}
    assert {int(code) for code in RETRIABLE} == {int(code) for code in KioErrorCode if code.retriable}
