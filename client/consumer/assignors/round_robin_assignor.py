"""Assignor `roundrobin`."""

from collections.abc import Mapping, Sequence

from odradek.client.consumer.assignors.assignment import Assignment, Subscriber
from odradek.client.records import TopicPartition


class RoundRobinAssignor:
    """Assignor that deals all partitions in order to the members in turn, skipping those that do not want the topic."""

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
