"""Distribution of the sticky assignors: members keep what they have as far as an even distribution allows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from odradek.client.consumer.assignors.assignment import Assignment, ReplicaRacks, Subscriber
from odradek.client.consumer.assignors.racks import Racks
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


def balance(
    members: Sequence[Subscriber], partition_counts: Mapping[str, int], racks: ReplicaRacks | None = None
) -> Assignment:
    """Let members keep the owned partitions that they want, deal out the rest to those with the fewest, then even out.

    That ends when no partition can move to a member with at least two fewer: each move lowers the sum of squares. Where
    `racks` matter, members then exchange partitions for nearer ones, owned or not, until nothing gets nearer or more
    even.
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
    near_by = Racks(members, {topic: racks.get(topic, ()) for topic in partition_counts} if racks else {})
    for topic_partition in everything:
        if owner.get(topic_partition) not in wanting[topic_partition.topic]:
            takers = wanting[topic_partition.topic]
            least = min(len(held[one]) for one in takers)
            takers = [one for one in takers if len(held[one]) == least]
            replicas = near_by.of(topic_partition)
            held[next((one for one in takers if near_by.near(one, replicas)), takers[0])].add(topic_partition)
    _even_out(held, wanting)
    while near_by.matter and _bring_near(held, wanting, near_by):
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


Kind = tuple[str, frozenset[str]]
"""What partitions have in common that the same members want, and that the same members are near."""


def _bring_near(held: dict[str, set[TopicPartition]], wanting: Mapping[str, Sequence[str]], racks: Racks) -> bool:
    """Have members exchange a partition that is far from one for another, or pass it on to a near one that has fewer;
    return whether any did.

    Each exchange leaves one partition less, or two, that is read from far; the counts stay as even as they were.
    """
    kinds: dict[str, dict[Kind, list[TopicPartition]]] = {member_id: defaultdict(list) for member_id in held}
    for member_id, partitions in held.items():
        for topic_partition in sorted(partitions, reverse=True):
            kinds[member_id][topic_partition.topic, racks.of(topic_partition)].append(topic_partition)

    def pass_on(kind: Kind, giver: str, taker: str) -> None:
        topic_partition = kinds[giver][kind].pop()
        kinds[taker][kind].append(topic_partition)
        held[giver].discard(topic_partition)
        held[taker].add(topic_partition)

    def brought_near(kind: Kind, owner: str) -> bool:
        topic, replicas = kind
        for nearer in wanting[topic]:
            if not racks.near(nearer, replicas):
                continue
            if len(held[nearer]) < len(held[owner]):
                pass_on(kind, owner, nearer)
                return True
            for other, some in kinds[nearer].items():
                loses_nothing = racks.far(nearer, other[1]) or not racks.far(owner, other[1])
                if some and loses_nothing and owner in wanting[other[0]]:
                    pass_on(other, nearer, owner)
                    pass_on(kind, owner, nearer)
                    return True
        return False

    improved, ever = True, False
    while improved:
        improved = False
        for owner in held:
            for kind in [kind for kind in kinds[owner] if racks.far(owner, kind[1])]:
                while kinds[owner][kind] and brought_near(kind, owner):
                    improved = ever = True
    return ever
