"""Names of topics: which are legal, and which are Kafka's own (Kafka: Topic.java); names of partitions; hash of a
name."""

import re
from typing import NamedTuple, TypeAlias

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""Kafka's own topics, which the pattern of a consumer's subscription does not match (exclude.internal.topics)."""

NAME_LENGTH_MAX = 249
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and index of a partition, the key of a broker's tables. It is made for each request, so it is a plain tuple."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def name_fault(topic: str) -> str | None:
    """Return what is wrong with a topic's name, in the words of Kafka's Topic.validate; None if it is legal."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in (".", ".."):
        return f"Topic name is invalid: '{topic}' is not allowed"
    if len(topic) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: the length of '{topic}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if LEGAL_NAME.fullmatch(topic) is None:
        return (
            f"Topic name is invalid: '{topic}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def collide(one: str, other: str) -> bool:
    """Tell whether two names differ only in `.` and `_`, so that the names of their metrics would be the same."""
    return one != other and one.replace(".", "_") == other.replace(".", "_")


def java_hash(text: str) -> int:
    """Return Java's String.hashCode of a text: a signed 32-bit number computed from its UTF-16 units.

    Kafka assigns names to partitions and threads by it.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
