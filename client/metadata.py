"""Metadata: what a client knows about the cluster, and when it should ask again. No I/O.

A view is immutable; an answer leads to a new one. A partition's leader with an older leader epoch than one already seen
is ignored (KIP-320): a broker that lags behind must not send a client back to the old leader.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import NamedTuple

from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.primitives import ZERO_UUID

WANTED_TOPICS_LIMIT = 100_000
REFUSED = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors of a topic that do not pass by themselves; all others may."""


class Node(NamedTuple):
    """A broker, as clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Return `host:port`."""
        return f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    """A partition; `leader` is -1 when there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode

    def lacking(self, adding: Collection[int] = ()) -> list[int]:
        """Return the replicas that are not in sync, without those that a reassignment is `adding`."""
        return [one for one in self.replicas if one not in self.isr and one not in adding]

    def is_under_replicated(self, adding: Collection[int] = ()) -> bool:
        """Tell whether fewer replicas are in sync than the partition is to have without those that a reassignment is
        `adding`: one of these in the ISR makes up for another one (Kafka: UnderReplicatedPartitions, TopicCommand)."""
        missing = len(self.replicas) - len(set(self.isr))
        return missing > 0 and missing > len(set(adding).intersection(self.replicas))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. `partitions[n]` is partition n."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    error: ErrorCode = ErrorCode.NONE
    places: tuple[TopicPartition, ...] = field(init=False, compare=False, repr=False)
    """The topic's partitions, made once and not for each record."""

    @property
    def troubled(self) -> bool:
        """Tell whether the topic has an error that may pass, so that its metadata should soon be asked for again."""
        return bool(self.error) and self.error not in REFUSED

    def __post_init__(self) -> None:
        places = tuple(TopicPartition(self.name, number) for number in range(len(self.partitions)))
        object.__setattr__(self, "places", places)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster at one moment."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader's node id, if there is a leader and its address is known."""
        info = self.partition(topic_partition)
        return info.leader if info is not None and info.leader in self.nodes else None

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return what is known about a partition; None if it is not known."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def places(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return a topic's partitions; none if it is not known."""
        info = self.topics.get(topic)
        return info.places if info is not None else ()

    def partition_count(self, topic: str) -> int:
        """Return the number of a topic's partitions; 0 when it is not known."""
        info = self.topics.get(topic)
        return len(info.partitions) if info is not None else 0

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics that exists."""
        return {topic: count for topic in topics if (count := self.partition_count(topic))}

    def replica_racks(self, topics: Iterable[str]) -> dict[str, list[frozenset[str]]]:
        """Return for each partition of these topics, as far as they exist, the racks of the brokers that have a
        replica, in sync or not."""
        rack_of = {node.node_id: node.rack for node in self.nodes.values() if node.rack}
        return {
            name: [frozenset(rack_of[one] for one in info.replicas if one in rack_of) for info in topic.partitions]
            for name in topics
            if (topic := self.topics.get(name)) is not None
        }

    def without_topics(self, topics: Iterable[str]) -> "ClusterView":
        """Return the same view without these topics."""
        gone = set(topics)
        return replace(self, topics={name: info for name, info in self.topics.items() if name not in gone})


def updated(view: ClusterView, response: MetadataResponse, *, all_topics: bool = False) -> ClusterView:
    """Return the view after an answer, which has some topics, or, with `all_topics`, all that exist."""
    nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers}
    topics = {} if all_topics else dict(view.topics)
    for topic in response.topics:
        if topic.name is None:
            continue
        if error_code(topic.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topics.pop(topic.name, None)
        else:
            topics[topic.name] = _topic(topic, view.topics.get(topic.name))
    return ClusterView(response.cluster_id, response.controller_id, nodes, topics)


def _topic(topic: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    name = topic.name
    assert name is not None
    if known is not None and ZERO_UUID not in (known.topic_id, topic.topic_id) and known.topic_id != topic.topic_id:
        known = None
    numbered = {one.partition_index: one for one in topic.partitions}
    numbers = takewhile(numbered.__contains__, count())  # no topic has a gap: what comes after one is ignored
    return TopicInfo(
        name,
        bytes(topic.topic_id),
        topic.is_internal,
        tuple(_partition(name, numbered[number], known) for number in numbers),
        error_code(topic.error_code),
    )


def _partition(topic: str, answer: MetadataResponsePartition, known: TopicInfo | None) -> PartitionInfo:
    if known is not None and answer.partition_index < len(known.partitions):
        before = known.partitions[answer.partition_index]
        if answer.leader_epoch >= 0 and before.leader_epoch > answer.leader_epoch:
            return before
    return PartitionInfo(
        topic,
        answer.partition_index,
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        error_code(answer.error_code),
    )


class MetadataNeeds:
    """Topics that a client wants to know about, and when to ask for them next.

    That is at once after `stale()`, but not before a pause after the last attempt; otherwise when the last answer is
    `max_age_ms` old. The pause is `retry_backoff_ms`, and grows to `retry_backoff_max_ms` while answers fail or lack
    something: a topic that is deleted for good is not asked for ten times a second for ever.
    """

    def __init__(self, max_age_ms: float, retry_backoff_ms: float, retry_backoff_max_ms: float) -> None:
        self._max_age_ms = max_age_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._in_vain = 0
        """Number of attempts in a row that have failed, or whose answer lacked something."""
        self._last_used_ms: dict[str, float] = {}
        self._in_question: Counter[str] = Counter()
        """Topics that callers ask about at present (`wanting`), and by how many."""
        self._sorted: list[str] | None = None
        self.all_topics = False
        self.expire_after_ms: float | None = None
        """A topic that was not used for this long is no longer asked for (a producer's metadata.max.idle.ms); None: no
        limit."""
        self._answered_ms = float("-inf")
        self._attempted_ms = float("-inf")
        self._stale = True

    @property
    def topics(self) -> list[str]:
        """The wanted topics, sorted."""
        if self._sorted is None:
            self._sorted = sorted({*self._last_used_ms, *self._in_question})
        return self._sorted

    def want(self, topic: str, now_ms: float) -> None:
        """Note that a topic is used. For a new one, metadata are asked for soon."""
        if topic not in self._last_used_ms:
            assert len(self._last_used_ms) < WANTED_TOPICS_LIMIT, "more topics than a client may use"
            self._stale = True
            self._in_vain = 0
            self._sorted = None
        self._last_used_ms[topic] = now_ms

    def want_exactly(self, topics: Iterable[str], now_ms: float) -> None:
        """Want these topics and no others."""
        wanted = set(topics)
        for topic in [known for known in self._last_used_ms if known not in wanted]:
            del self._last_used_ms[topic]
            self._sorted = None
        for topic in wanted:
            self.want(topic, now_ms)

    @contextmanager
    def wanting(self, topics: Iterable[str]) -> Iterator[None]:
        """Want these topics, too, within a `with` block, and no longer: they may not exist."""
        asked = frozenset(topics)
        self._in_question.update(asked)
        self._sorted = None
        try:
            yield
        finally:
            self._in_question.subtract(asked)
            self._in_question = +self._in_question
            self._sorted = None

    def stale(self) -> None:
        """Ask for metadata soon: an answer has shown that the view is out of date."""
        self._stale = True

    def next_at_ms(self) -> float:
        """Return when to ask next, in ms of the monotonic clock."""
        pause_ms = min(self._retry_backoff_max_ms, self._retry_backoff_ms * 2.0 ** min(max(0, self._in_vain - 1), 30))
        backed_off_ms = self._attempted_ms + pause_ms
        return backed_off_ms if self._stale else max(backed_off_ms, self._answered_ms + self._max_age_ms)

    def age_ms(self, now_ms: float) -> float:
        """Return how long ago the last answer came; NaN before there was one."""
        return now_ms - self._answered_ms if self._answered_ms >= 0 else float("nan")

    def attempted(self, now_ms: float) -> None:
        """Note that the metadata were asked for now."""
        self._attempted_ms = now_ms
        self._stale = False

    def answered(self, now_ms: float, *, complete: bool) -> None:
        """Note an answer. If it is not `complete`, lacking something wanted, ask again after a backoff."""
        self._answered_ms = now_ms
        self._in_vain = 0 if complete else self._in_vain + 1
        if not complete:
            self._stale = True
        if self.expire_after_ms is not None:
            oldest_ms = now_ms - self.expire_after_ms
            for topic in [name for name, used_ms in self._last_used_ms.items() if used_ms < oldest_ms]:
                del self._last_used_ms[topic]
                self._sorted = None

    def failed(self) -> None:
        """Note that there was no answer, or none that could be read: ask again after a backoff."""
        self._stale = True
        self._in_vain += 1
