"""Keys and values of the records of Kafka's own topics, told apart by the topic's name.

All versions that Kafka 3.9 reads are decoded. Of groups of the new protocol (KIP-848), which only a KRaft cluster has,
only the keys are. What does not decode is marked so, and shown as bytes.
"""

from collections.abc import Callable

from odradek.broker.log.dump.rows import Row
from odradek.protocol.codec import decode_growing, decode_versioned, version_of
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message, Struct
from odradek.protocol.messages.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue, TransactionStatus
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE

CONSUMER_PROTOCOL = "consumer"

OFFSETS_KEYS: dict[int, tuple[str, type[Message], type[Message] | None]] = {
    0: ("offset", OffsetCommitKey, OffsetCommitValue),
    1: ("offset", OffsetCommitKey, OffsetCommitValue),
    2: ("group", GroupMetadataKey, GroupMetadataValue),
    3: ("consumer group", ConsumerGroupKey, None),
    4: ("consumer group's partitions", ConsumerGroupKey, None),
    5: ("consumer group's member", ConsumerGroupMemberKey, None),
    6: ("consumer group's target", ConsumerGroupKey, None),
    7: ("consumer group's target of a member", ConsumerGroupMemberKey, None),
    8: ("consumer group's assignment of a member", ConsumerGroupMemberKey, None),
}
TRANSACTIONS_KEYS: dict[int, tuple[str, type[Message], type[Message] | None]] = {
    0: ("transaction", TransactionLogKey, TransactionLogValue),
}
KEYS = {CONSUMER_OFFSETS: OFFSETS_KEYS, TRANSACTION_STATE: TRANSACTIONS_KEYS}
"""Records by topic and version of the key: what the record is, and the messages of key and value."""

Decoded = tuple[object, object]
"""Key and value: objects of names and values, or the bytes as they are; None is a tombstone."""
Decoder = Callable[[bytes | None, bytes | None], Decoded]


def decoder_for(topic: str) -> Decoder | None:
    """Return the decoder of a coordinator's topic, which raises MalformedMessage; None for topics of clients."""
    keys = KEYS.get(topic)
    if keys is None:
        return None

    def decode(key: bytes | None, value: bytes | None) -> Decoded:
        if key is None:
            raise MalformedMessage("no key")
        version = version_of(key)
        if version not in keys:
            raise MalformedMessage(f"key of version {version}, known are 0-{max(keys)}")
        name, key_class, value_class = keys[version]
        shown: Row = {"type": name, "version": version} | _fields(decode_versioned(key_class, key)[1], version)
        return shown, value if value is None or value_class is None else _value(value_class, value)

    return decode


def _value(value_class: type[Message], data: bytes) -> Row:
    version, message = decode_versioned(value_class, data)
    shown: Row = {"version": version} | _fields(message, version)
    if isinstance(message, TransactionLogValue):
        shown["transaction_status"] = _status_name(message.transaction_status)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == CONSUMER_PROTOCOL:
        members = [_fields(member, version) for member in message.members]
        shown["members"] = [
            member
            | {
                "subscription": _embedded(ConsumerProtocolSubscription, member["subscription"]),
                "assignment": _embedded(ConsumerProtocolAssignment, member["assignment"]),
            }
            for member in members
        ]
    return shown


def _fields(message: Struct, version: int) -> Row:
    """Return the fields of a message that this version has."""
    return {
        line.name: _plain(getattr(message, line.name), version)
        for line in message.FIELDS
        if line.versions.lowest <= version <= line.versions.highest
    }


def _plain(value: object, version: int) -> object:
    if isinstance(value, Struct):
        return _fields(value, version)
    if isinstance(value, list):
        return [_plain(one, version) for one in value]
    return value


def _embedded(message: type[Message], data: object) -> object:
    """Return what a consumer has put there, unless it is something of its own."""
    if not isinstance(data, bytes) or not data:
        return data
    try:
        version, found = decode_growing(message, data)
    except MalformedMessage:
        return data
    return {"version": version} | _fields(found, min(version, message.VERSIONS[1]))


def _status_name(status: int) -> str:
    """Return Kafka's name of a transaction's state: PrepareCommit."""
    known = status in TransactionStatus._value2member_map_
    return TransactionStatus(status).camel_case if known else f"unknown ({status})"
