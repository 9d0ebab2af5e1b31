"""Assignment of partitions to threads: Kafka's PartitionAssignor (range, roundrobin) of 0.8-1.1. No I/O.

Every member computes it by itself from what ZooKeeper says and comes to the same result, whoever wrote its program.
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
    """Addresses, `host:port`, of those that live."""
    held: frozenset[TopicPartition] = field(default_factory=frozenset)
    """Partitions, of those that were asked about, that this session really owns."""


def range_assignment(threads: Threads, partitions: Partitions) -> Assignment:
    """Deal topic by topic: runs of size/threads partitions, the first size%threads threads get one more."""
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
    """Deal all partitions, in the order of the hash of their names, to all threads in turn that consume the topic.

    The hashed name is `topic-partition`, as in Kafka 1.0 and 1.1. Before 1.0 it was `[topic,partition]`, so that those
    versions cannot share a group with 1.x under roundrobin, and not with this either. Names of equal hash, which Kafka
    leaves in the order of a hash map, go by topic and number here.
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
    """Topics whose partitions must be known: range looks at the member's own, roundrobin at the whole group's."""
    if strategy == "roundrobin":
        return list(threads)
    return [topic for topic, consuming in threads.items() if consumer_id in map(consumer_of, consuming)]


def own_assignment(strategy: str, consumer_id: str, view: GroupView) -> Assignment:
    """Return what one member is to own."""
    threads = {topic: consuming for topic, consuming in view.threads.items() if consuming}
    assigned = STRATEGIES[strategy](threads, view.partitions)
    return {name: thread for name, thread in assigned.items() if consumer_of(thread) == consumer_id}
