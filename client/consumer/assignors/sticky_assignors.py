"""Assignors `sticky` and `cooperative-sticky`, and the bytes by which their members tell what they had."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from odradek.client.consumer.assignors.assignment import Adopted, Assignment, ReplicaRacks, Subscriber
from odradek.client.consumer.assignors.balance import balance, claims
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.codec import decoder, encode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import INT32, STRING, Array, Message, Struct, field


class PreviousTopic(Struct):
    """Partitions of one topic that a member had."""

    topic: str = field(STRING, "0+")
    partitions: list[int] = field(Array(INT32), "0+")


class StickyUserData(Message):
    """StickyAssignor's STICKY_ASSIGNOR_USER_DATA: a member's last partitions; since version 1 also the generation."""

    VERSIONS = (0, 1)

    previous_assignment: list[PreviousTopic] = field(Array(PreviousTopic), "0+")
    generation: int = field(INT32, "1+", default=-1)


class CooperativeStickyUserData(Message):
    """CooperativeStickyAssignor's user data: the generation of the owned partitions, which the subscription lists."""

    VERSIONS = (0, 0)

    generation: int = field(INT32, "0+", default=-1)


VERSION_OF_KAFKA_PYTHON_BYTES = 2
"""Bytes of the version that kafka-python 3.0, unlike all other clients, writes in front."""


class StickyAssignor:
    """Assignor that distributes as evenly as the subscriptions allow, with as few moves as that takes. Members give up
    all their partitions before they join."""

    name = "sticky"
    cooperative = False

    def user_data(self, topics: Iterable[str], adopted: Adopted) -> bytes | None:
        """Return the partitions that the member had last; None before its first assignment."""
        if adopted.generation_id < 0:
            return None
        previous = [PreviousTopic(topic=name, partitions=all_) for name, all_ in by_topic(adopted.partitions).items()]
        return encode(StickyUserData(previous_assignment=previous, generation=adopted.generation_id), 1)

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        return self.assign_near(members, partition_counts, {})

    def assign_near(
        self, members: Sequence[Subscriber], partition_counts: Mapping[str, int], racks: ReplicaRacks
    ) -> Assignment:
        return balance([self._with_previous(member) for member in members], partition_counts, racks)

    @staticmethod
    def _with_previous(member: Subscriber) -> Subscriber:
        """Return a member that owns the partitions in its user data; none, if these cannot be read (as in Kafka)."""
        for version, start in ((1, 0), (0, 0), (1, VERSION_OF_KAFKA_PYTHON_BYTES)):
            try:
                said, end = decoder(StickyUserData, version)(member.user_data, start)
            except MalformedMessage:
                continue
            if end == len(member.user_data):
                had = (
                    TopicPartition(one.topic, number) for one in said.previous_assignment for number in one.partitions
                )
                return replace(member, owned=tuple(had), generation_id=said.generation)
        return replace(member, owned=(), generation_id=-1)


class CooperativeStickyAssignor:
    """Assignor that distributes as evenly as the subscriptions allow, with as few moves as that takes. A partition that
    moves is given up first (KIP-429).

    In this round it is assigned to nobody: its owner sees that, gives it up and joins again, and the next round gives
    it to its new owner. So no partition ever has two owners. A partition that two members claim in the same generation
    moves too, whoever gets it: both have to give it up (Java's partitionsTransferringOwnership).
    """

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, topics: Iterable[str], adopted: Adopted) -> bytes | None:
        """Return the generation of the owned partitions, for which subscriptions before version 2 have no field."""
        return encode(CooperativeStickyUserData(generation=adopted.generation_id), 0)

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        return self.assign_near(members, partition_counts, {})

    def assign_near(
        self, members: Sequence[Subscriber], partition_counts: Mapping[str, int], racks: ReplicaRacks
    ) -> Assignment:
        members = [self._with_generation(member) for member in members]
        wanted = balance(members, partition_counts, racks)
        owner = claims(members)
        return {
            member_id: [tp for tp in partitions if owner.get(tp, member_id) == member_id]
            for member_id, partitions in wanted.items()
        }

    @staticmethod
    def _with_generation(member: Subscriber) -> Subscriber:
        if member.generation_id >= 0 or not member.user_data:
            return member
        try:
            said, _ = decoder(CooperativeStickyUserData, 0)(member.user_data, 0)
        except MalformedMessage:
            return member
        return replace(member, generation_id=said.generation)
