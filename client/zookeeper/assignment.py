"""Assignment of partitions to threads: Kafka's PartitionAssignor (range, roundrobin) of 0.8-1.1. No I/O.

Every member computes it by itself from what is in ZooKeeper, and comes to the same result, whichever client it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.records import TopicPartition
from odradek.client.zookeeper.subscriptions import consumer_of
from odradek.protocol.topic_names import java_hash
from odradek.zk_schema.znodes.consumers import ConsumerRegistration

Assignment = dict[TopicPartition, str]
"""Partition → thread."""
Threads = Mapping[str, Sequence[str]]
"""Topic → the threads that consume it, sorted as text."""
Partitions = Mapping[str, Sequence[int]]
"""Topic → its partitions, in order."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and its topics, as ZooKeeper had them."""

    members: Mapping[str, ConsumerRegistration]
    threads: Threads
    partitions: Partitions
    brokers: Sequence[str] = ()
    """Addresses of the live brokers, as `host:port`."""
    held: frozenset[TopicPartition] = field(default_factory=frozenset)
    """Those of the partitions asked about whose owner znode belongs to this session."""


def range_assignment(threads: Threads, partitions: Partitions) -> Assignment:
    """Assign topic by topic: each thread gets a run of size/threads partitions, the first size%threads one more."""
    assigned: Assignment = {}
    for topic, consuming in threads.items():
        numbers = sorted(partitions.get(topic, ()))
        share, with_one_more = divmod(len(numbers), len(consuming))
        first = 0
        for index, thread in enumerate(consuming):
            end = first + share + (1 if index < with_one_more else 0)
            assigned.update((TopicPartition(topic, number), thread) for number in numbers[first:end])
            first = end
    return assigned


def round_robin_assignment(threads: Threads, partitions: Partitions) -> Assignment:
    """Assign all partitions, in the order of the hashes of their names, in turn to the threads that consume the topic.

    The hashed name is `topic-partition`, as in Kafka 1.0 and 1.1. Before 1.0 it was `[topic,partition]`: those versions
    can share a roundrobin group neither with 1.x nor with this. Names of equal hash, which Kafka leaves in the order of
    a hash map, are sorted by topic and number here.
    """
    all_threads = sorted({thread for consuming in threads.values() for thread in consuming})
    names = sorted(TopicPartition(topic, number) for topic in threads for number in partitions.get(topic, ()))
    assigned: Assignment = {}
    turn = 0
    for name in sorted(names, key=lambda one: java_hash(str(one))):
        consuming = threads[name.topic]
        while all_threads[turn % len(all_threads)] not in consuming:
            turn += 1
        assigned[name] = all_threads[turn % len(all_threads)]
        turn += 1
    return assigned


STRATEGIES: Mapping[str, Callable[[Threads, Partitions], Assignment]] = {
    "range": range_assignment,
    "roundrobin": round_robin_assignment,
}


def topics_needed(strategy: str, consumer_id: str, threads: Threads) -> list[str]:
    """Return the topics whose partitions must be known: the member's own (range) or the whole group's (roundrobin)."""
    if strategy == "roundrobin":
        return list(threads)
    return [topic for topic, consuming in threads.items() if consumer_id in map(consumer_of, consuming)]


def group_assignment(strategy: str, view: GroupView) -> Assignment:
    """Return which thread is to own which partition, of all those whose topics the view has."""
    threads = {topic: consuming for topic, consuming in view.threads.items() if consuming}
    return STRATEGIES[strategy](threads, view.partitions)


def part_of(consumer_id: str, assignment: Assignment) -> Assignment:
    """Return the partitions that one member is to own."""
    return {name: thread for name, thread in assignment.items() if consumer_of(thread) == consumer_id}
