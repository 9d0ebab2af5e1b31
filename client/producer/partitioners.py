"""Partitioners: which partition a record goes to.

A partitioner is called for records that name no partition. All Kafka clients share the rule for keys, murmur2(key) mod
n, so the records of one key are in one partition whichever client wrote them.
"""

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from odradek.client.errors import ConfigError
from odradek.client.producer.config import ProducerConfig

STICKY_CACHE_LIMIT = 10_000
"""Topics whose sticky partition, or turn, is remembered. Beyond that, all are forgotten and chosen anew."""


class Partitioner(Protocol):
    """Interface of a custom partitioner."""

    def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
        """Return a partition of 0 … all_partitions - 1. `available`: those with a leader, sorted; it may be empty."""

    def batch_closed(self, topic: str, partition: int) -> None:
        """Note that a batch of that partition is full or was sent: time for a sticky partitioner to move on."""


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as an unsigned number (org.apache.kafka.common.utils.Utils.murmur2)."""
    length = len(data)
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * multiplier & mask
        word = (word ^ (word >> 24)) * multiplier & mask
        hashed = (hashed * multiplier & mask) ^ word
    if length > whole:
        hashed = ((hashed ^ int.from_bytes(data[whole:], "little")) * multiplier) & mask
    hashed = ((hashed ^ (hashed >> 13)) * multiplier) & mask
    return hashed ^ (hashed >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that every Kafka client chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Kafka's default: by key where there is one, else one partition until its batch is full (KIP-480)."""

    def __init__(self, random_source: random.Random, *, ignore_keys: bool = False) -> None:
        self._random = random_source
        self._ignore_keys = ignore_keys
        self._current: dict[str, tuple[int, Sequence[int]]] = {}
        """Topic → the partition in use, and the available ones among which it was last seen."""

    def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
        if key is not None and not self._ignore_keys:
            return partition_for_key(key, all_partitions)
        known = self._current.get(topic)
        if known is not None and known[1] is available:
            return known[0]
        current = known[0] if known is not None else -1
        if not 0 <= current < all_partitions or (available and current not in available):
            if len(self._current) >= STICKY_CACHE_LIMIT:
                self._current.clear()
            current = self._random.choice(available) if available else self._random.randrange(all_partitions)
        self._current[topic] = (current, available)
        return current

    def batch_closed(self, topic: str, partition: int) -> None:
        known = self._current.get(topic)
        if known is not None and known[0] == partition:
            self._current.pop(topic, None)


class RoundRobinPartitioner:
    """Partitioner that sends each record to the next available partition, whatever its key."""

    def __init__(self) -> None:
        self._turn: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
        if topic not in self._turn and len(self._turn) >= STICKY_CACHE_LIMIT:
            self._turn.clear()
        turn = self._turn.get(topic, 0)
        self._turn[topic] = turn + 1
        return available[turn % len(available)] if available else turn % all_partitions

    def batch_closed(self, topic: str, partition: int) -> None:
        """Do nothing: each record moves on to the next partition."""


class RandomPartitioner:
    """Partitioner that uses the key where there is one, and else any available partition."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source

    def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
        if key is not None:
            return partition_for_key(key, all_partitions)
        return self._random.choice(available) if available else self._random.randrange(all_partitions)

    def batch_closed(self, topic: str, partition: int) -> None:
        """Do nothing: each record gets a partition of its own."""


class FunctionPartitioner:
    """Partitioner that calls a function `(key, all_partitions, available) -> partition`, kafka-python's form."""

    def __init__(self, function: Callable[[bytes | None, Sequence[int], Sequence[int]], int]) -> None:
        self._function = function

    def partition(self, topic: str, key: bytes | None, all_partitions: int, available: Sequence[int]) -> int:
        return self._function(key, range(all_partitions), available)

    def batch_closed(self, topic: str, partition: int) -> None:
        """Do nothing: the function decides for each record."""


BY_NAME = ("sticky", "round_robin", "random")


def partitioner(config: ProducerConfig, source: random.Random | None) -> Partitioner:
    """Return the partitioner that a setting names or is. Raises ConfigError."""
    given, source = config.partitioner, source or random.Random()
    if given is None or given == "sticky":
        return StickyPartitioner(source, ignore_keys=config.partitioner_ignore_keys)
    if given == "round_robin":
        return RoundRobinPartitioner()
    if given == "random":
        return RandomPartitioner(source)
    if not isinstance(given, (str, bytes)):
        if callable(getattr(given, "partition", None)):
            chosen: Partitioner = given
            return chosen
        if callable(given):
            return FunctionPartitioner(given)
    raise ConfigError(f"partitioner must be {', '.join(BY_NAME)}, a function or a Partitioner, not {given!r}")
