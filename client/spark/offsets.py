"""Offsets of partitions, and the ranges between them, as in Spark's Kafka source. No I/O.

Checkpoints and options have them as JSON, `{"topic":{"0":123}}`, so a line of a checkpoint can be given as
`startingOffsets`. Here is also how many new records one micro-batch takes, and how they are divided into tasks
(KafkaMicroBatchStream.rateLimit, KafkaOffsetRangeCalculator).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from odradek.client.errors import ClientError, ConfigError
from odradek.client.records import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]
EARLIEST, LATEST = -2, -1
"""Numbers in JSON that stand for the log's start and end in place of an offset."""
LONG_MAX = (1 << 63) - 1
"""Largest offset in Kafka and Spark."""
PARTITION = re.compile("0|[1-9][0-9]{0,9}")
"""Pattern of a partition in JSON, without leading zeros, so that each partition has one spelling."""


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Return offsets as JSON values, sorted: equal offsets must give equal text, which Spark compares."""
    found: OffsetsJson = {}
    for topic_partition in sorted(offsets):
        found.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets from which `to_json` has made `value`."""
    return {TopicPartition(topic, int(n)): offset for topic, numbers in value.items() for n, offset in numbers.items()}


def numbers_by_partition(option: str, value: Any, at_least: int) -> Offsets:
    """Return numbers by partition from a user's JSON. Raises ConfigError."""
    wanted = f'{option} must be like {{"topic":{{"0":23}}}}'
    if not isinstance(value, dict):
        raise ConfigError(f"{wanted}, not {value!r}")
    found: Offsets = {}
    for topic, numbers in value.items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"{wanted}; topic {topic} has {numbers!r}")
        for partition, number in numbers.items():
            if not PARTITION.fullmatch(partition):
                raise ConfigError(f"{option}: {partition!r} is not a partition of topic {topic}")
            if isinstance(number, bool) or not isinstance(number, int) or number < at_least:
                raise ConfigError(
                    f"{option}: {topic}-{partition} has {number!r}: give a whole number of at least {at_least}"
                )
            if number > LONG_MAX:
                raise ConfigError(f"{option}: {topic}-{partition} has {number}: it must be at most {LONG_MAX}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def partitions_by_topic(option: str, value: Any) -> list[TopicPartition]:
    """Return partitions from a user's JSON, `{"topic":[0,1]}`. Raises ConfigError."""
    wanted = f'{option} must be like {{"topic":[0,1]}}'
    if not isinstance(value, dict):
        raise ConfigError(f"{wanted}, not {value!r}")
    found = []
    for topic, numbers in value.items():
        if not isinstance(numbers, list) or any(
            not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in numbers
        ):
            raise ConfigError(f"{wanted}; topic {topic} has {numbers!r}")
        found += [TopicPartition(topic, number) for number in numbers]
    return sorted(set(found))


def check_complete(option: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Check that offsets are given for exactly the partitions that are read. Raises ConfigError, which names others."""
    missing, foreign = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing:
        said = ", ".join(map(str, missing))
        raise ConfigError(f"{option} lacks {said}: give an offset for every partition (-2 earliest, -1 latest)")
    if foreign:
        raise ConfigError(f"{option} names {', '.join(map(str, foreign))}, which this query does not read")


class DataLoss(ClientError):  # noqa: N818 (named after what has happened)
    """Records that the query has to read, or had read, are no longer in the cluster. The message names every range."""

    def __init__(self, lost: Sequence["Lost"]) -> None:
        super().__init__(
            f"data loss: {'; '.join(map(str, lost))}. With failOnDataLoss=false the query goes on without these records"
        )
        self.lost = list(lost)


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __len__(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Lost:
    """A range that cannot be read, and why."""

    where: OffsetRange
    why: str

    def __str__(self) -> str:
        one = self.where
        return f"{one.topic_partition} offsets {one.start} to {one.end - 1} ({len(one)}): {self.why}"


def limited(start: Offsets, latest: Offsets, earliest: Offsets, most: int) -> Offsets:
    """Return the end of a micro-batch of about `most` records, which takes from each partition in proportion to its new
    ones.

    `earliest` is where partitions begin that are not in `start`.
    """
    begins = {one: start.get(one, earliest.get(one, 0)) for one in latest}
    sizes = {one: end - begins[one] for one, end in latest.items() if end > begins[one]}
    total = sum(sizes.values())
    if total <= most:
        return dict(latest)
    ends = dict(latest)
    for one, size in sizes.items():
        share = most * size / total
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[one] = min(begins[one] + taken, latest[one])
    return ends


def too_few(start: Offsets, latest: Offsets, least: int) -> bool:
    """Tell whether fewer than `least` records are new (KafkaMicroBatchStream.delayBatch)."""
    return sum(end - start.get(one, 0) for one, end in latest.items()) < least


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None = None
) -> list[OffsetRange]:
    """Return one range per task. None is longer than `max_records`; large ones are cut until there are about
    `min_partitions`."""
    whole = [one for one in ranges if len(one)]
    if max_records is not None:
        whole = [part for one in whole for part in _cut(one, math.ceil(len(one) / max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(map(len, whole))
    small = {one for one in whole if _parts(len(one), total, min_partitions) == 1}
    left = total - sum(map(len, small))
    wanted = max(min_partitions - len(small), 1)
    cut: list[OffsetRange] = []
    for one in whole:
        cut += [one] if one in small else _cut(one, _parts(len(one), left, wanted))
    return cut


def _parts(size: int, total: int, wanted: int) -> int:
    """Return how many of the `wanted` parts one range gets: at least 1, rounded half up as in Java."""
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into equal pieces; the rounding errors go to the last ones."""
    cut, at, left = [], whole.start, len(whole)
    for number in range(parts):
        taken = left // (parts - number)
        left -= taken
        cut.append(replace(whole, start=at, end=at + taken))
        at += taken
    return [one for one in cut if len(one)]


def between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Return the ranges of all partitions in `end`, in order; `start` must have them all."""
    return [OffsetRange(one.topic, one.partition, start[one], end[one]) for one in sorted(end)]


def readable(
    ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[Lost]]:
    """Return the parts of ranges that the cluster still has, and those that it has lost, at the start or the end."""
    kept, lost = [], []
    for one in ranges:
        if one.end < one.start:
            gone = replace(one, start=one.end, end=one.start)
            lost.append(
                Lost(gone, f"they were read before, but the log now ends at {one.end} (recreated or truncated?)")
            )
            continue
        begin = earliest.get(one.topic_partition, one.start)
        if one.start < min(begin, one.end):
            gone = replace(one, end=min(begin, one.end))
            lost.append(Lost(gone, f"the log now starts at {begin} (retention, or deleted records)"))
        kept.append(replace(one, start=min(max(one.start, begin), one.end)))
    return kept, lost
