"""Who of a group reads which partition. Pure: the same members and topics always give the same answer.

The leader of a group runs one of these; all members must offer its name. Members are compared by instance id, those
that have one first, then by member id, as in Kafka, so that every client's leader decides alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.client.records import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id → its partitions, sorted. Every member is in it."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the leader sees it."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    """The generation in which it came to own them."""

    @property
    def order(self) -> tuple[bool, str]:
        """Static members by instance id, then the others by member id."""
        return (False, self.instance_id) if self.instance_id is not None else (True, self.member_id)


class Assignor(Protocol):
    """A strategy."""

    @property
    def name(self) -> str:
        """As it stands in JoinGroup."""

    @property
    def cooperative(self) -> bool:
        """Tell whether members keep their partitions through a rebalance, except those that move (KIP-429)."""

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        """Every partition of a topic that somebody wants to exactly one of those, or, cooperatively, not yet to any."""


class RangeAssignor:
    """Topic by topic: members in order get consecutive partitions, the first ones one more when they do not divide."""

    name = "range"
    cooperative = False

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic in sorted(partition_counts):
            wanting = [member for member in sorted(members, key=lambda one: one.order) if topic in member.topics]
            if not wanting:
                continue
            share, extra = divmod(partition_counts[topic], len(wanting))
            start = 0
            for index, member in enumerate(wanting):
                end = start + share + (1 if index < extra else 0)
                assignment[member.member_id] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignment


class RoundRobinAssignor:
    """All partitions of all topics in order, dealt to the members in turn; who does not want a topic is passed over."""

    name = "roundrobin"
    cooperative = False

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda one: one.order)
        turn = 0
        for topic in sorted(partition_counts):
            if not any(topic in member.topics for member in ordered):
                continue
            for number in range(partition_counts[topic]):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                assignment[ordered[turn % len(ordered)].member_id].append(TopicPartition(topic, number))
                turn += 1
        return {member_id: sorted(partitions) for member_id, partitions in assignment.items()}


class CooperativeStickyAssignor:
    """As balanced as the subscriptions allow, with as few moves as that takes; what moves is given up first (KIP-429).

    A partition that moves is assigned to nobody in this round: its owner sees that, gives it up and joins again, and
    in the round after that it goes to its new owner. So no partition ever has two.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        wanted = balance(members, partition_counts)
        owner = owners(members)
        return {
            member_id: [tp for tp in partitions if owner.get(tp, member_id) == member_id]
            for member_id, partitions in wanted.items()
        }


def owners(members: Sequence[Subscriber]) -> dict[TopicPartition, str]:
    """Return who owns what: the claim of the latest generation counts, and two of one generation for nobody."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for topic_partition in member.owned:
            generation_id, _ = claims.get(topic_partition, (-2, None))
            if member.generation_id > generation_id:
                claims[topic_partition] = (member.generation_id, member.member_id)
            elif member.generation_id == generation_id:
                claims[topic_partition] = (generation_id, None)
    return {tp: member_id for tp, (_, member_id) in claims.items() if member_id is not None}


def balance(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """Keep what is owned and wanted, deal out the rest to whoever has least, then move from most to least.

    Ends when no partition can go to a member with at least two fewer: each move lowers the sum of squares.
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


ASSIGNORS: dict[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
}
"""By the names that settings may give; Kafka's Java class names are accepted for the same (see config.py)."""
