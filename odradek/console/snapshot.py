"""The cluster as it was seen at one moment, and what the page is told of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek.client.metadata import Node, TopicInfo
from odradek.protocol.primitives import ZERO_UUID

NO_BROKER = -1
Model = dict[str, Any]
"""Value that JSON can hold."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An answer to Metadata, of all topics."""

    at_ms: int
    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    """Nodes that are registered."""
    topics: Mapping[str, TopicInfo]

    def taken_with(self, before: "Snapshot | None") -> "Snapshot":
        """Return the same without what is older than `before`: a broker that was cut off tells of times gone by.

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
    """A broker of this machine, as whoever started it knows it."""

    broker_id: int
    pid: int
    state: str
    """State in words for people."""
    actions: Sequence[str]
    """Actions that can be done to it now."""


def cluster_model(snapshot: Snapshot, processes: Iterable[BrokerProcess] = ()) -> Model:
    """Return what the map shows: brokers, topics with a row `[leader, leader epoch, replicas, ISR]` per partition, and
    the figures of its headline."""
    by_id = {one.broker_id: one for one in processes}
    leads, replicas, lagging = Counter[int](), Counter[int](), Counter[int]()
    under = leaderless = moved = total = 0
    for topic in snapshot.topics.values():
        for one in topic.partitions:
            total += 1
            leads[one.leader] += 1
            replicas.update(one.replicas)
            if len(one.isr) < len(one.replicas):
                under += 1
                lagging.update(set(one.replicas) - set(one.isr))
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
        "topics": [_topic(snapshot.topics[name]) for name in sorted(snapshot.topics)],
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


def _topic(topic: TopicInfo) -> Model:
    rows = [[one.leader, one.leader_epoch, one.replicas, one.isr] for one in topic.partitions]
    return {"name": topic.name, "internal": topic.internal, "partitions": rows}
