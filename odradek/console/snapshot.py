"""Snapshot of the cluster at one moment, and the page's data from it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from odradek.client.metadata import Node, PartitionInfo, TopicInfo
from odradek.client.records import TopicPartition
from odradek.protocol.primitives import ZERO_UUID

NO_BROKER = -1
Model = dict[str, Any]
"""Value that JSON can hold."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Metadata of all topics at one moment."""

    at_ms: int
    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    """Nodes that are registered."""
    topics: Mapping[str, TopicInfo]
    adding: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)
    """Replicas that reassignments are adding."""

    def added_to(self, one: PartitionInfo) -> Collection[int]:
        """Return the replicas that a reassignment is adding to this partition."""
        return self.adding.get(TopicPartition(one.topic, one.partition), ()) if self.adding else ()

    def taken_with(self, before: "Snapshot | None") -> "Snapshot":
        """Return the snapshot with each partition at least as new as in `before`: a broker that was cut off has old
        metadata.

        A partition's leader epoch only grows, as long as the topic is the same one (KIP-320, KIP-516).
        """
        if before is None:
            return self
        topics = {name: _newer(before.topics.get(name), topic) for name, topic in self.topics.items()}
        return replace(self, topics=topics)


def _newer(before: TopicInfo | None, after: TopicInfo) -> TopicInfo:
    if before is None or before.topic_id != after.topic_id or after.topic_id == ZERO_UUID:
        return after
    known = {one.partition: one for one in before.partitions}
    if all(one.leader_epoch >= known.get(one.partition, one).leader_epoch for one in after.partitions):
        return after
    chosen = [max(known.get(one.partition, one), one, key=lambda seen: seen.leader_epoch) for one in after.partitions]
    return replace(after, partitions=tuple(chosen))


class BrokerProcess(NamedTuple):
    """Process of a broker of this machine."""

    broker_id: int
    pid: int
    state: str
    """State in words."""
    actions: Sequence[str]
    """Actions that are possible now."""


def cluster_model(snapshot: Snapshot, processes: Iterable[BrokerProcess] = ()) -> Model:
    """Return the data of the map: brokers, topics with a row `[leader, leader epoch, replicas, ISR]` per partition, and
    the figures in its headline. A row has a fifth value while a reassignment adds replicas: these replicas."""
    by_id = {one.broker_id: one for one in processes}
    leads, replicas, lagging = Counter[int](), Counter[int](), Counter[int]()
    under = leaderless = moved = total = 0
    for topic in snapshot.topics.values():
        for one in topic.partitions:
            total += 1
            leads[one.leader] += 1
            replicas.update(one.replicas)
            adding = snapshot.added_to(one)
            if one.is_under_replicated(adding):
                under += 1
                lagging.update(one.lacking(adding))
            leaderless += one.leader not in snapshot.nodes
            moved += bool(one.replicas) and one.leader != one.replicas[0]
    ids = sorted(snapshot.nodes.keys() | replicas.keys() | by_id.keys())
    return {
        "cluster": snapshot.cluster_id,
        "controller": snapshot.controller_id,
        "brokers": [
            _broker(number, snapshot, by_id.get(number))
            | {"leads": leads[number], "replicas": replicas[number], "lagging": lagging[number]}
            for number in ids
        ],
        "topics": [_topic(snapshot, snapshot.topics[name]) for name in sorted(snapshot.topics)],
        "figures": {
            "partitions": total,
            "under_replicated": under,
            "leaderless": leaderless,
            "not_preferred": moved,
        },
    }


def _broker(number: int, snapshot: Snapshot, process: BrokerProcess | None) -> Model:
    node = snapshot.nodes.get(number)
    return {
        "id": number,
        "address": node.address if node is not None else None,
        "rack": node.rack if node is not None else None,
        "registered": node is not None,
        "process": None
        if process is None
        else {"pid": process.pid, "state": process.state, "actions": list(process.actions)},
    }


def _topic(snapshot: Snapshot, topic: TopicInfo) -> Model:
    rows: list[list[Any]] = [[one.leader, one.leader_epoch, one.replicas, one.isr] for one in topic.partitions]
    for row, one in zip(rows, topic.partitions, strict=True):
        if adding := snapshot.added_to(one):
            row.append(list(adding))
    return {"name": topic.name, "internal": topic.internal, "partitions": rows}
