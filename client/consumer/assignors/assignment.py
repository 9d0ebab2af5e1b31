"""What every assignor gets and returns, and the check of what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from odradek.client import arguments
from odradek.client.records import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id → its partitions, sorted. Every member is in it."""
ReplicaRacks = Mapping[str, Sequence[frozenset[str]]]
"""Topic → for each of its partitions, the racks of the brokers that have a replica."""


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
    rack: str | None = None
    """The member's client.rack."""

    @property
    def order(self) -> tuple[bool, str]:
        """Return the key to sort members by: static ones by instance id, then the others by member id."""
        return (False, self.instance_id) if self.instance_id is not None else (True, self.member_id)


class Adopted(NamedTuple):
    """The last assignment of a member, and its generation; -1 when there was none yet."""

    partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1


@runtime_checkable
class Assignor(Protocol):
    """A strategy: one of Kafka's (`ASSIGNORS`), or an object of the application with these members.

    It may also have `user_data(topics, adopted) -> bytes`, which each member sends when it joins; the leader's assignor
    finds these bytes in `Subscriber.user_data`. And `assign_near(members, partition_counts, racks)`, which is called
    instead of `assign`, with the racks of all replicas (`ReplicaRacks`).
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


def assigned_by(
    assignor: Assignor, members: Sequence[Subscriber], partition_counts: Mapping[str, int], racks: ReplicaRacks
) -> Assignment:
    """Return what an assignor decides, which may be the application's own.

    Raises what that raises; TypeError, ConfigError, ValueError for an assignment that members cannot follow.
    """
    assign_near = getattr(assignor, "assign_near", None)
    given = assign_near(members, partition_counts, racks) if assign_near else assignor.assign(members, partition_counts)
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
