"""Overview of a cluster's work: rates between two looks at it, as `odradek top` shows them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from odradek.client.metadata import PartitionInfo
from odradek.client.records import TopicPartition
from odradek.diagnosis.cases import size

IN_ZOOKEEPER = "in ZooKeeper"
"""State of a group of Kafka 0.8's consumer, which has no coordinator."""


@dataclass(frozen=True)
class GroupLook:
    """A group at one moment; `lag` is in records, None when the group has committed nothing."""

    group_id: str
    state: str
    members: int
    lag: int | None


@dataclass(frozen=True)
class Look:
    """The cluster at one moment."""

    at_s: float
    controller: int
    addresses: Mapping[int, str]
    partitions: tuple[PartitionInfo, ...]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    bytes: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Bytes in and out since the start of each broker, by broker; only of brokers with a `metrics.port`."""
    groups: tuple[GroupLook, ...] = ()
    unanswered: tuple[str, ...] = ()
    """Questions without an answer, each with the reason."""
    adding: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)
    """Replicas that reassignments are adding: these need not be in sync yet."""

    @property
    def leaderless(self) -> list[str]:
        return [f"{one.topic}-{one.partition}" for one in self.partitions if one.leader < 0]

    @property
    def under_replicated(self) -> list[str]:
        led = (one for one in self.partitions if one.leader >= 0)
        return [f"{one.topic}-{one.partition}" for one in led if self.is_under_replicated(one)]

    def is_under_replicated(self, one: PartitionInfo) -> bool:
        return one.is_under_replicated(self.adding.get(TopicPartition(one.topic, one.partition), ()))


@dataclass(frozen=True)
class BrokerRow:
    """A broker between two looks; None stands for what is not known."""

    broker: int
    address: str
    controller: bool
    leads: int
    replicas: int
    under_replicated: int
    records_per_s: float
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None


@dataclass(frozen=True)
class GroupRow:
    """A group between two looks; `lag_per_s` is negative while it catches up."""

    group: str
    state: str
    members: int
    lag: int | None
    lag_per_s: float | None


@dataclass(frozen=True)
class Overview:
    """Comparison of two looks."""

    seconds: float
    brokers: tuple[BrokerRow, ...]
    topics: tuple[tuple[str, int, float], ...]
    """Name, partitions, records a second; the busiest first."""
    groups: tuple[GroupRow, ...]
    partitions: int
    leaderless: tuple[str, ...]
    under_replicated: tuple[str, ...]
    unanswered: tuple[str, ...]


def compare(before: Look, now: Look) -> Overview:
    """Compare two looks. A log that got shorter, or a counter that was reset, counts as a rate of 0."""
    seconds = max(now.at_s - before.at_s, 0.001)
    moved = {at: max(0, end - before.ends[at]) for at, end in now.ends.items() if at in before.ends}
    by_leader: Counter[int] = Counter()
    by_topic: Counter[str] = Counter()
    for one in now.partitions:
        count = moved.get(TopicPartition(one.topic, one.partition), 0)
        by_leader[one.leader] += count
        by_topic[one.topic] += count
    sizes = Counter(one.topic for one in now.partitions)
    busiest = sorted(sizes, key=lambda topic: (-by_topic[topic], topic))
    lags = {one.group_id: one.lag for one in before.groups}
    return Overview(
        seconds,
        tuple(_broker(one, before, now, by_leader[one] / seconds, seconds) for one in sorted(_known(now))),
        tuple((topic, sizes[topic], by_topic[topic] / seconds) for topic in busiest),
        tuple(_group(one, lags.get(one.group_id), seconds) for one in now.groups),
        len(now.partitions),
        tuple(now.leaderless),
        tuple(now.under_replicated),
        now.unanswered,
    )


def _known(look: Look) -> set[int]:
    """Return the brokers that are online, and those that hold a replica."""
    return {*look.addresses, *(one for partition in look.partitions for one in partition.replicas)}


def _broker(broker: int, before: Look, now: Look, records_per_s: float, seconds: float) -> BrokerRow:
    led = [one for one in now.partitions if one.leader == broker]
    rates: list[float | None] = [None, None]
    if broker in before.bytes and broker in now.bytes:
        rates = [max(0.0, b - a) / seconds for a, b in zip(before.bytes[broker], now.bytes[broker], strict=True)]
    return BrokerRow(
        broker,
        now.addresses.get(broker, "offline"),
        broker == now.controller,
        len(led),
        sum(broker in one.replicas for one in now.partitions),
        sum(map(now.is_under_replicated, led)),
        records_per_s,
        *rates,
    )


def _group(one: GroupLook, before: int | None, seconds: float) -> GroupRow:
    rate = None if one.lag is None or before is None else (one.lag - before) / seconds
    return GroupRow(one.group_id, one.state, one.members, one.lag, rate)


def lines(overview: Overview, shown: int) -> Iterator[tuple[str, list[str], list[list[object]]]]:
    """Yield each table as title, columns and rows, with the first `shown` of topics and groups."""
    yield (
        "brokers",
        ["broker", "address", "leads", "replicas", "under-replicated", "records/s", "in/s", "out/s"],
        [
            [f"{one.broker}{' (controller)' if one.controller else ''}", one.address, one.leads, one.replicas,
             one.under_replicated, f"{one.records_per_s:.0f}", _rate(one.bytes_in_per_s), _rate(one.bytes_out_per_s)]
            for one in overview.brokers
        ],
    )  # fmt: skip
    rows: list[list[object]] = [[name, count, f"{rate:.0f}"] for name, count, rate in overview.topics[:shown]]
    yield "topics, the busiest first", ["topic", "partitions", "records/s"], rows
    groups = sorted(overview.groups, key=lambda one: -(one.lag or 0))[:shown]
    yield (
        "groups, the furthest behind first",
        ["group", "state", "members", "lag", "lag/s"],
        [[one.group, one.state, one.members, one.lag, None if one.lag_per_s is None else f"{one.lag_per_s:+.0f}"]
         for one in groups],
    )  # fmt: skip


def _rate(per_s: float | None) -> str | None:
    """Format a rate of bytes per second for people."""
    return None if per_s is None else size(round(per_s))
