"""Subscriptions and assignments, which consumers tell each other through the group coordinator, versions 0-3.

Carried as opaque bytes in JoinGroup (`metadata`) and SyncGroup (`assignment`) of groups whose protocol type is
"consumer", with an int16 version in front (`odradek.protocol.codec`). The coordinator looks inside only to name the
topics of a group. A reader takes a version it does not know for the newest it does (`decode_growing`), so fields are
only ever added at the end.

1   owned partitions: what the member has now, for cooperative assignors
2   generation in which it got them, so that a stale claim loses
3   rack of the member
"""

from odradek.protocol.fields import BYTES, INT32, STRING, Array, Message, Struct, field


class TopicPartition(Struct):
    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class ConsumerProtocolSubscription(Message):
    VERSIONS = (0, 3)

    topics: list[str] = field(Array(STRING), "0+")
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field(Array(TopicPartition), "1+")
    generation_id: int = field(INT32, "2+", default=-1)
    rack_id: str | None = field(STRING, "3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message):
    VERSIONS = (0, 3)

    assigned_partitions: list[TopicPartition] = field(Array(TopicPartition), "0+")
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
