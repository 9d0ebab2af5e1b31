"""The bytes that consumers exchange inside JoinGroup and SyncGroup: Kafka's "consumer" protocol, versions 0-3.

A version, then the message. A version newer than we know is read as the newest we know: Kafka promises that new
versions only append.
"""

from collections.abc import Iterable, Sequence

from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.codec import decoder, encode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import BYTES, INT32, STRING, Array, Message, Struct, field

PROTOCOL_TYPE = "consumer"
VERSION = 3
VERSION_BYTES = 2


class OwnedTopicPartitions(Struct):
    """Partitions of one topic that a member owns."""

    topic: str = field(STRING, "1+")
    partitions: list[int] = field(Array(INT32), "1+")


class ConsumerProtocolSubscription(Message):
    """What a member wants, and what it has."""

    VERSIONS = (0, 3)

    topics: list[str] = field(Array(STRING), "0+")
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[OwnedTopicPartitions] = field(Array(OwnedTopicPartitions), "1+")
    generation_id: int = field(INT32, "2+", default=-1)
    rack_id: str | None = field(STRING, "3+", nullable="3+", default=None)


class AssignedTopicPartitions(Struct):
    """Partitions of one topic that a member is given."""

    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class ConsumerProtocolAssignment(Message):
    """What a member is given."""

    VERSIONS = (0, 3)

    assigned_partitions: list[AssignedTopicPartitions] = field(Array(AssignedTopicPartitions), "0+")
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)


def encode_subscription(
    topics: Sequence[str],
    owned: Iterable[TopicPartition],
    generation_id: int,
    user_data: bytes | None = None,
    rack_id: str | None = None,
) -> bytes:
    """Return a member's part of JoinGroup. `user_data` is its assignor's own."""
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedTopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(sorted(owned)).items()
        ],
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode(message, VERSION)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Raises MalformedMessage."""
    return decoder(ConsumerProtocolSubscription, _version(data))(data, VERSION_BYTES)[0]


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """A member's part of SyncGroup, written by the group's leader."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(partitions)).items()
        ]
    )
    return VERSION.to_bytes(VERSION_BYTES, "big") + encode(message, VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Raises MalformedMessage. Empty bytes mean no partitions."""
    if not data:
        return []
    message, _ = decoder(ConsumerProtocolAssignment, _version(data))(data, VERSION_BYTES)
    return [TopicPartition(one.topic, number) for one in message.assigned_partitions for number in one.partitions]


def _version(data: bytes) -> int:
    if len(data) < VERSION_BYTES:
        raise MalformedMessage(f"{len(data)} bytes where a consumer protocol version was due")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"consumer protocol version {version}")
    return min(version, VERSION)
