"""Names of topics: which are legal, and which Kafka keeps for itself (Kafka's Topic.java); names of partitions; the
hash of a name."""

import re
from typing import NamedTuple, TypeAlias

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""A pattern of a consumer's subscription does not mean them (exclude.internal.topics)."""

NAME_LENGTH_MAX = 249
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and index of a partition, as a broker's tables have them: made for each request, so a plain tuple."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def name_fault(topic: str) -> str | None:
    """Say what is wrong with a topic's name, in the words of Kafka's Topic.validate; None when it is legal."""
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
    """Tell whether two names differ only in `.` and `_`, and so would have the same metrics."""
    return one != other and one.replace(".", "_") == other.replace(".", "_")


def java_hash(text: str) -> int:
    """Compute Java's String.hashCode: a signed 32-bit number over the text's UTF-16 units.

    By it Kafka spreads names over partitions and threads.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
