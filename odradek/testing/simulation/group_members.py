"""Members of groups: no two of one generation have the same partition, and nobody stays who is gone.

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


SESSION_SLACK_MS = 4_000.0 + 5_000.0
"""What a member had sent may arrive so much later, and timers of a broker may be so late. What it had sent behind an
OffsetCommit is heard when that is answered, which takes `offsets.commit.timeout.ms` where a follower lags."""
Where = tuple[object, str]
"""A group as its coordinator has loaded it, and a member."""


class DepartedMembers:
    """Watches the groups of one cluster, whose members are those of the simulation, and no others.

    Their coordinator gives the partitions of members that are gone without a word to others when their sessions have
    ended, whoever coordinated the group when they were heard last: else nobody would read what they had.
    """

    def __init__(
        self, cluster: EmbeddedCluster, members: Callable[[], Iterable[SimulatedConsumer]], history: History
    ) -> None:
        self._cluster, self._members, self._history = cluster, members, history
        self._since: dict[Where, float] = {}
        """Time at which each was first found to belong to no client."""

    def look(self) -> None:
        """Look at all groups of brokers that run."""
        memberships = [one.engine.group.membership for one in self._members() if one.engine.group is not None]
        living = {one.identity.member_id for one in memberships}
        instances = {one.settings.group_instance_id for one in memberships} - {None}
        now_ms = self._cluster.clock.monotonic_ms()
        since: dict[Where, float] = {}
        for broker in self._cluster.brokers:
            if not broker.running or broker.suspended:
                continue
            for group in broker.server.services.groups.groups:
                for member_id, member in group.metadata.members.items():
                    waits = member.join_callback is not None or member.sync_callback is not None
                    if member_id in living or waits:  # who waits has a session again when it is answered
                        continue
                    if member.instance_id in instances:  # its successor takes its place once that can be written
                        continue
                    where = (group, member_id)
                    since[where] = self._since.get(where, now_ms)
                    if now_ms - since[where] > member.session_timeout_ms + SESSION_SLACK_MS:
                        self._history.violated(
                            f"{broker.host} keeps {member_id} in {group.metadata.group_id}, which is gone for "
                            f"{now_ms - since[where]:.0f} ms"
                        )
        self._since = since
