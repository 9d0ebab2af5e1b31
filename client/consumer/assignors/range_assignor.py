"""Assignor `range`."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from odradek.client.consumer.assignors.assignment import Assignment, ReplicaRacks, Subscriber
from odradek.client.consumer.assignors.racks import Racks
from odradek.client.records import TopicPartition


class RangeAssignor:
    """Assignor that goes topic by topic: members in order get consecutive partitions, and if these do not divide
    evenly, the first members get one more.

    Where racks matter, members first get partitions near them, as far as their shares allow; of topics with equally
    many partitions and the same members still the same partitions, so that they can be joined (as in Kafka, KIP-881).
    """

    name = "range"
    cooperative = False

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        return self.assign_near(members, partition_counts, {})

    def assign_near(
        self, members: Sequence[Subscriber], partition_counts: Mapping[str, int], racks: ReplicaRacks
    ) -> Assignment:
        ordered = sorted(members, key=lambda one: one.order)
        topics = [
            Shares(topic, partition_counts[topic], wanting, racks.get(topic, ()))
            for topic in sorted(partition_counts)
            if (wanting := [one for one in ordered if topic in one.topics])
        ]
        if any(topic.racks.matter for topic in topics):
            alike: dict[object, list[Shares]] = defaultdict(list)
            for topic in topics:
                alike[*topic.given, len(topic.left)].append(topic)
            for joined in alike.values():
                if len(joined) > 1:
                    _share_alike(joined)
                elif joined[0].racks.matter:
                    joined[0].share(joined[0].suits)
        for topic in topics:
            topic.share(lambda member_id, number: True)
        assignment: Assignment = {one.member_id: [] for one in members}
        for topic in topics:
            for member_id, numbers in topic.given.items():
                assignment[member_id] += [TopicPartition(topic.name, number) for number in sorted(numbers)]
        return assignment


class Shares:
    """A topic while it is shared out among the members that want it."""

    def __init__(self, name: str, count: int, members: Sequence[Subscriber], racks: Sequence[frozenset[str]]) -> None:
        self.name = name
        self.left = dict.fromkeys(range(count))
        """Partitions that nobody has yet, in order."""
        self.given: dict[str, list[int]] = {one.member_id: [] for one in members}
        self.racks = Racks(members, {name: racks})
        self._share, self._larger_shares = divmod(count, len(members))

    def room(self, member_id: str) -> int:
        """Return how many more partitions a member can get."""
        return self._share + (self._larger_shares > 0) - len(self.given[member_id])

    def suits(self, member_id: str, number: int) -> bool:
        """Tell whether a member is not far from a partition."""
        return not self.racks.far(member_id, self.racks.of(TopicPartition(self.name, number)))

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        """Give a member partitions, no more than it has room for."""
        given = self.given[member_id]
        self._larger_shares -= len(given) <= self._share < len(given) + len(numbers)
        given += numbers
        for number in numbers:
            del self.left[number]

    def share(self, may: Callable[[str, int], bool]) -> None:
        """Give each member in turn what it may have of what is left, as far as there is room."""
        for member_id in self.given:
            if (room := self.room(member_id)) > 0:
                self.give(member_id, [number for number in self.left if may(member_id, number)][:room])


def _share_alike(topics: Sequence[Shares]) -> None:
    """Give each partition to the first member that it suits in all topics, if there is one with room."""
    members = list(topics[0].given)
    for number in list(topics[0].left):
        for member_id in members:
            if all(topic.room(member_id) > 0 and topic.suits(member_id, number) for topic in topics):
                for topic in topics:
                    topic.give(member_id, [number])
                break
