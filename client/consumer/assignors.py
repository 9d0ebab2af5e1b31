"""Assignors: which member of a group reads which partition. Pure: the same input always gives the same assignment.

The leader of a group runs one of these; all members must offer its name. Members are sorted by instance id, those that
have one first, then by member id, as in Kafka, so that every client's leader decides alike. User data have Kafka's
format to the byte, so that members of other clients and ours keep their partitions whoever leads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from odradek.client import arguments
from odradek.client.offsets import by_topic
from odradek.client.records import TopicPartition
from odradek.protocol.codec import decoder, encode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import INT32, STRING, Array, Message, Struct, field

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
    """Generation in which the member came to own them."""
    user_data: bytes = b""
    """Bytes from the member's assignor, in that assignor's own format (`user_data`)."""

    @property
    def order(self) -> tuple[bool, str]:
        """Return the key to sort members by: static ones by instance id, then the others by member id."""
        return (False, self.instance_id) if self.instance_id is not None else (True, self.member_id)


class Adopted(NamedTuple):
    """The last assignment of a member, and its generation; -1 when there was none yet."""

    partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1


NOTHING_ADOPTED = Adopted()


@runtime_checkable
class Assignor(Protocol):
    """A strategy: one of Kafka's (`ASSIGNORS`), or an object of the application with these members.

    It may also have `user_data(topics, adopted) -> bytes`, which each member sends when it joins; the leader's assignor
    finds these bytes in `Subscriber.user_data`.
    """

    @property
    def name(self) -> str:
        """Return the name under which all members offer this strategy in JoinGroup."""

    @property
    def cooperative(self) -> bool:
        """Tell whether members keep their partitions during a rebalance, except those that move (KIP-429)."""

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        """Assign each partition to one member that wants its topic, or, cooperatively, to none yet."""


def user_data(assignor: Assignor, topics: Iterable[str], adopted: Adopted) -> bytes | None:
    """Return what a member sends to the leader's assignor; None when there is nothing to send.

    Raises TypeError, and what an assignor of the application raises.
    """
    tell = getattr(assignor, "user_data", None)
    told = None if tell is None else tell(topics, adopted)
    return None if told is None else arguments.octets(told, "what it returns")


def assigned_by(assignor: Assignor, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """Return what an assignor decides, which may be the application's own.

    Raises what that raises; TypeError, ConfigError, ValueError for an assignment that members cannot follow.
    """
    given = assignor.assign(members, partition_counts)
    strangers = set(given) - {one.member_id for one in members}
    if strangers:
        raise ValueError(f"no member's id: {strangers.pop()!r}")
    assignment = {member_id: list(arguments.topic_partitions(some)) for member_id, some in given.items()}
    if assignor.cooperative:
        before = {one.member_id: set(one.owned) for one in members}
        after = {member_id: set(assignment.get(member_id, ())) for member_id in before}
        given_up = {tp for member_id, had in before.items() for tp in had - after[member_id]}
        moved = given_up & {tp for member_id, has in after.items() for tp in has - before[member_id]}
        if moved:
            raise ValueError(f"{min(moved)} goes to another member at once: cooperatively its owner gives it up first")
    return assignment


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
        return balance([self._with_previous(member) for member in members], partition_counts)

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
        members = [self._with_generation(member) for member in members]
        wanted = balance(members, partition_counts)
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


ASSIGNORS: dict[str, Assignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobinAssignor(),
    "sticky": StickyAssignor(),
    "cooperative-sticky": CooperativeStickyAssignor(),
}
"""Assignors by the names that settings may give; the names of Kafka's Java classes are accepted, too (config.py)."""
