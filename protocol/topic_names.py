"""Names of partitions, and of the topics that Kafka keeps for itself (Kafka's Topic.java)."""

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
