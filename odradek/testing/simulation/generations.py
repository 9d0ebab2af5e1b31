"""Generations of a group: no two members of one generation have the same partition.

Both would read it and commit. Who has not heard of the next generation yet, because it stands still or is cut off, may
have what belongs to another one by now, and its commits are refused.

And no static member is told that another process has taken its place, as none ever has while it lives. Only of an id
that was in no generation which could be written its next coordinator knows nothing, but the id before: JoinGroup is
answered before anything is written, and Kafka fences such a member, too.
"""

from collections.abc import Callable, Iterable

from odradek.broker.groups.group_metadata import GroupState
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.member_states import State
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.history import History


class Generations:
    """Watches the members of one group."""

    def __init__(
        self, cluster: EmbeddedCluster, members: Callable[[], Iterable[SimulatedConsumer]], history: History
    ) -> None:
        self._cluster, self._members, self._history = cluster, members, history
        self._written: set[str] = set()
        """Ids of members that have been in a generation which is in the log."""
        self._ids: dict[str, str] = {}
        """The last id of each member, by its name."""

    def may_be_fenced(self, name: str) -> bool:
        """Tell whether the coordinators may have lost the id of that member."""
        return name in self._ids and self._ids[name] not in self._written

    def look(self) -> None:
        """Look at all members that are settled in a generation, and at the ids of all."""
        for broker in self._cluster.brokers:
            for group in broker.server.services.groups.groups if broker.running else ():
                if group.metadata.state is GroupState.STABLE:
                    self._written.update(group.metadata.members)
        owners: dict[tuple[int, TopicPartition], str] = {}
        for member in self._members():
            if member.engine.group is not None and (member_id := member.engine.group.membership.identity.member_id):
                self._ids[member.name] = member_id
            for generation, partition in settled(member.engine):
                first = owners.setdefault((generation, partition), member.name)
                if first != member.name:
                    self._history.violated(
                        f"{partition} belongs to {first} and {member.name} in generation {generation}"
                    )


def settled(engine: ConsumerEngine) -> Iterable[tuple[int, TopicPartition]]:
    """Yield what a member has, with its generation, when nothing of it is changing."""
    membership = engine.group.membership if engine.group is not None else None
    if membership is not None and membership.state is State.STABLE and not membership.lost:
        for partition in membership.owned:
            yield membership.identity.generation_id, partition
