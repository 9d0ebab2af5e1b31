"""Racks: which members can read which partitions from a replica in their own rack (KIP-881)."""

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.consumer.assignors.assignment import ReplicaRacks, Subscriber
from odradek.client.records import TopicPartition

NOWHERE: frozenset[str] = frozenset()


class Racks:
    """The racks of members, and those of the replicas of partitions."""

    def __init__(self, members: Iterable[Subscriber], replicas: ReplicaRacks) -> None:
        self._members = {one.member_id: one.rack for one in members if one.rack}
        self._replicas: Mapping[str, Sequence[frozenset[str]]] = replicas

    @property
    def matter(self) -> bool:
        """Tell whether it makes a difference who reads what: replicas are in members' racks, and some partitions are in
        other racks than others."""
        partitions = [racks for topic in self._replicas.values() for racks in topic]
        everywhere = frozenset[str]().union(*partitions)
        return not everywhere.isdisjoint(self._members.values()) and any(racks != everywhere for racks in partitions)

    def of(self, topic_partition: TopicPartition) -> frozenset[str]:
        """Return the racks that have a replica of a partition."""
        topic, number = topic_partition
        known = self._replicas.get(topic, ())
        return known[number] if number < len(known) else NOWHERE

    def near(self, member_id: str, racks: frozenset[str]) -> bool:
        """Tell whether a member is in one of these racks."""
        return self._members.get(member_id) in racks

    def far(self, member_id: str, racks: frozenset[str]) -> bool:
        """Tell whether a member is in none of these racks. Who does not say where it is, is neither near nor far."""
        return member_id in self._members and self._members[member_id] not in racks


def have_more_racks(before: ReplicaRacks, now: ReplicaRacks) -> bool:
    """Tell whether some partition has a replica in a rack where it had none before."""
    return any(racks - had for topic in now for had, racks in zip(before.get(topic, ()), now[topic], strict=False))
