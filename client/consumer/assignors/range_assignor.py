"""Assignor `range`."""

from collections.abc import Mapping, Sequence

from odradek.client.consumer.assignors.assignment import Assignment, Subscriber
from odradek.client.records import TopicPartition


class RangeAssignor:
    """Assignor that goes topic by topic: members in order get consecutive partitions, and if these do not divide
    evenly, the first members get one more."""

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
