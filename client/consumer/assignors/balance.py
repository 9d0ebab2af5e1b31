"""Distribution of the sticky assignors: members keep what they have as far as an even distribution allows."""

from collections.abc import Mapping, Sequence

from odradek.client.consumer.assignors.assignment import Assignment, Subscriber
from odradek.client.records import TopicPartition


def claims(members: Sequence[Subscriber]) -> dict[TopicPartition, str | None]:
    """Return who claims which partition: the claim of the latest generation counts.

    A partition that two members claim in that generation has None: both may be reading it.
    """
    latest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for topic_partition in member.owned:
            generation_id, _ = latest.get(topic_partition, (-2, None))
            if member.generation_id > generation_id:
                latest[topic_partition] = (member.generation_id, member.member_id)
            elif member.generation_id == generation_id:
                latest[topic_partition] = (generation_id, None)
    return {tp: member_id for tp, (_, member_id) in latest.items()}


def owners(members: Sequence[Subscriber]) -> dict[TopicPartition, str]:
    """Return the owners of those partitions that exactly one member claims."""
    return {tp: member_id for tp, member_id in claims(members).items() if member_id is not None}


def balance(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """Let members keep the owned partitions that they want, deal out the rest to those with the fewest, then even out.

    That ends when no partition can move to a member with at least two fewer: each move lowers the sum of squares.
    """
    ordered = sorted(members, key=lambda one: one.order)
    held: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    wanting = {topic: [one.member_id for one in ordered if topic in one.topics] for topic in partition_counts}
    everything = [
        TopicPartition(topic, number)
        for topic in sorted(partition_counts)
        if wanting[topic]
        for number in range(partition_counts[topic])
    ]
    owner = owners(members)
    for topic_partition in everything:
        keeper = owner.get(topic_partition)
        if keeper in wanting[topic_partition.topic]:
            held[keeper].add(topic_partition)
    for topic_partition in everything:
        if owner.get(topic_partition) not in wanting[topic_partition.topic]:
            least = min(wanting[topic_partition.topic], key=lambda one: len(held[one]))
            held[least].add(topic_partition)
    _even_out(held, wanting)
    return {member_id: sorted(partitions) for member_id, partitions in held.items()}


def _even_out(held: dict[str, set[TopicPartition]], wanting: Mapping[str, Sequence[str]]) -> None:
    moved = True
    while moved:
        moved = False
        for giver in sorted(held, key=lambda one: -len(held[one])):
            for topic_partition in sorted(held[giver], reverse=True):
                taker = min(wanting[topic_partition.topic], key=lambda one: len(held[one]))
                if len(held[taker]) + 1 >= len(held[giver]):
                    continue
                held[giver].discard(topic_partition)
                held[taker].add(topic_partition)
                moved = True
