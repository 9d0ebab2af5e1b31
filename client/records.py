"""The values that applications hand in and get back."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from odradek.protocol.topic_names import TopicPartition as TopicPartition

Headers = Sequence[tuple[str, bytes | None]]


class OffsetAndMetadata(NamedTuple):
    """A committed position: the offset of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a time, with the timestamp of its record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970 (kafka-python's name)."""
        return self.timestamp_ms


class ConsumerGroupMetadata(NamedTuple):
    """A group, and the member of it that commits offsets in a transaction (KIP-447); with the defaults no member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class RecordMetadata(NamedTuple):
    """Place of a record that was written."""

    topic: str
    partition: int
    offset: int
    """-1 when the broker does not say it: with acks=0, or for a duplicate so old that the broker has forgotten it."""
    timestamp_ms: int

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970 (kafka-python's name)."""
        return self.timestamp_ms

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class RecordHeaders(list[tuple[str, bytes | None]]):
    """Headers of a record that was read, in their order: a list that cannot be changed, so that records may share it.

    `list(headers)`, `headers + [...]`, a slice, a copy and an unpickled one are ordinary lists.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the headers of a consumed record are immutable: make a new list, list(headers)")

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (tuple(self),)


NO_HEADERS = RecordHeaders()
"""Headers of every record that has none: a list for each would be a sixth of the time to read a small record."""


class ConsumerRecord(NamedTuple):
    """A record that a consumer has read.

    `key` and `value` are bytes, or what the deserializers made of them; None is null. `headers` are immutable (name,
    bytes or None) pairs. `leader_epoch` is that of its batch, -1 where the message format has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    """Kind of the timestamp: 0 CreateTime, 1 LogAppendTime."""
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int

    @property
    def timestamp(self) -> int:
        """The time in milliseconds since 1970 (kafka-python's name)."""
        return self.timestamp_ms
