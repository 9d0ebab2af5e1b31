"""Values of the original clients, with the names that they have in Kafka 0.7 and 0.8. No I/O."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition


class Message(NamedTuple):
    """A message as bytes, as an encoder makes it and a SimpleConsumer returns it."""

    payload: bytes | None
    key: bytes | None = None


class MessageAndOffset(NamedTuple):
    """A message and its offset in the log."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        """The offset to fetch from next."""
        return self.offset + 1


class KeyedMessage(NamedTuple):
    """A message to send (Kafka 0.8). `partition_key` chooses the partition in place of `key`, and is not stored."""

    topic: str
    message: Any
    key: Any = None
    partition_key: Any = None

    @property
    def routing_key(self) -> Any:
        """The key that chooses the partition; None for any partition."""
        return self.key if self.partition_key is None else self.partition_key


class ProducerData(NamedTuple):
    """Messages to send (Kafka 0.7). `key` chooses their partition, and is not stored."""

    topic: str
    key: Any
    data: Sequence[Any]


Sendable = KeyedMessage | ProducerData


def keyed_messages(given: Sequence[Sendable | Sequence[Sendable]]) -> list[KeyedMessage]:
    """Return KeyedMessages from KeyedMessages, ProducerData and lists of both. Raises TypeError."""
    found: list[KeyedMessage] = []
    for one in given:
        if isinstance(one, KeyedMessage):
            found.append(one)
        elif isinstance(one, ProducerData):
            data = [one.data] if isinstance(one.data, (str, bytes)) else one.data
            found += [KeyedMessage(one.topic, item, partition_key=one.key) for item in data]
        elif isinstance(one, (list, tuple)):
            found += keyed_messages(one)
        else:
            raise TypeError(f"a message to send is a KeyedMessage or ProducerData, not {type(one).__name__}: {one!r}")
    return found


class FetchRequest(NamedTuple):
    """Request for the messages of a partition from `offset` on, at most `max_size` bytes."""

    topic: str
    partition: int
    offset: int
    max_size: int = 1_048_576

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class MessageSet:
    """Messages of one partition in an answer (Kafka's ByteBufferMessageSet). It can be iterated any number of times.

    Iterating raises `error`, if the broker has refused, and CorruptRecords for damaged bytes.
    """

    def __init__(
        self,
        request: FetchRequest,
        chunk: Chunk | None = None,
        *,
        high_watermark: int = -1,
        error: Exception | None = None,
    ) -> None:
        """Take a request, and its messages or error."""
        self.request = request
        self.high_watermark = high_watermark
        """End of the log for consumers; -1 with an error."""
        self.error = error
        self._chunk = chunk

    def __iter__(self) -> Iterator[MessageAndOffset]:
        if self.error is not None:
            raise self.error
        if self._chunk is None:
            return
        for _, columns in self._chunk.batches(check_crcs=True):
            for offset, key, value in zip(columns.offsets, columns.keys, columns.values, strict=True):
                if offset >= self.request.offset:
                    yield MessageAndOffset(Message(value, key), offset)

    @property
    def next_offset(self) -> int:
        """Return the offset to fetch from next, behind these messages, and markers after them. Raises `error`."""
        if self.error is not None:
            raise self.error
        return self.request.offset if self._chunk is None else self._chunk.next_offset

    @property
    def size_in_bytes(self) -> int:
        """Return the size of the messages as they were sent."""
        return 0 if self._chunk is None else len(self._chunk.records)


def distinct(requests: Sequence[FetchRequest]) -> list[FetchRequest]:
    """Return requests, or plain tuples, as FetchRequests. Raises ConfigError for a partition that is named twice."""
    wanted = [FetchRequest(*one) for one in requests]
    if len({one.topic_partition for one in wanted}) < len(wanted):
        raise ConfigError("a multifetch asks for each partition once")
    return wanted
