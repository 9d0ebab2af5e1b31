"""Offsets of partitions, and their JSON, `{"topic":{"0":123}}`, the same as in Spark's Kafka source. Pure.

The same form stands in checkpoints and in options, so a checkpoint's line can be given as `startingOffsets`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]
EARLIEST, LATEST = -2, -1
"""Numbers that stand in JSON instead of an offset."""


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Topics and partitions in order: equal offsets give equal text, by which Spark compares."""
    found: OffsetsJson = {}
    for topic_partition in sorted(offsets):
        found.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of `to_json`."""
    return {TopicPartition(topic, int(n)): offset for topic, numbers in value.items() for n, offset in numbers.items()}


def numbers_by_partition(option: str, value: Any, at_least: int) -> Offsets:
    """Read numbers by partition from JSON that a user has written. Raises ConfigError."""
    wanted = f'{option} must be like {{"topic":{{"0":23}}}}'
    if not isinstance(value, dict):
        raise ConfigError(f"{wanted}, not {value!r}")
    found: Offsets = {}
    for topic, numbers in value.items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"{wanted}; of topic {topic} there is {numbers!r}")
        for partition, number in numbers.items():
            if not partition.isdecimal():
                raise ConfigError(f"{option}: {partition!r} is not a partition of topic {topic}")
            if isinstance(number, bool) or not isinstance(number, int) or number < at_least:
                raise ConfigError(
                    f"{option}: {topic}-{partition} has {number!r}: a whole number of at least {at_least}"
                )
            found[TopicPartition(topic, int(partition))] = number
    return found


def partitions_by_topic(option: str, value: Any) -> list[TopicPartition]:
    """Read partitions, written as `{"topic":[0,1]}`. Raises ConfigError."""
    wanted = f'{option} must be like {{"topic":[0,1]}}'
    if not isinstance(value, dict):
        raise ConfigError(f"{wanted}, not {value!r}")
    found = []
    for topic, numbers in value.items():
        if not isinstance(numbers, list) or any(
            not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in numbers
        ):
            raise ConfigError(f"{wanted}; of topic {topic} there is {numbers!r}")
        found += [TopicPartition(topic, number) for number in numbers]
    return sorted(set(found))


def check_complete(option: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Offsets must be given for exactly the partitions that are read. Raises ConfigError naming those that are not."""
    missing, foreign = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing:
        said = ", ".join(map(str, missing))
        raise ConfigError(f"{option} lacks {said}: give an offset for every partition (-2 earliest, -1 latest)")
    if foreign:
        raise ConfigError(f"{option} names {', '.join(map(str, foreign))}, which this query does not read")
