"""Names of partitions, and of the topics that Kafka keeps for itself (Kafka's Topic.java); the hash of a name."""

from typing import NamedTuple, TypeAlias

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""A pattern of a consumer's subscription does not mean them (exclude.internal.topics)."""

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and index of a partition, as a broker's tables have them: made for each request, so a plain tuple."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def java_hash(text: str) -> int:
    """Compute Java's String.hashCode: a signed 32-bit number over the text's UTF-16 units.

    By it Kafka spreads names over partitions and threads.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
