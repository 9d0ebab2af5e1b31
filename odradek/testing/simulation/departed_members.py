"""Members that are gone without a word: their coordinator gives their partitions to others when their sessions have
ended, whoever coordinated the group when they were heard last.

Nothing would be lost if it did not, but nobody would read what they had.
"""

from collections.abc import Callable, Iterable

from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.history import History

SESSION_SLACK_MS = 4_000.0
"""What a member had sent may arrive so much later, and timers of a broker may be so late."""
Where = tuple[object, str]
"""A group as its coordinator has loaded it, and a member."""


class DepartedMembers:
    """Watches the groups of one cluster, whose members are those of the simulation, and no others."""

    def __init__(
        self, cluster: EmbeddedCluster, members: Callable[[], Iterable[SimulatedConsumer]], history: History
    ) -> None:
        self._cluster, self._members, self._history = cluster, members, history
        self._since: dict[Where, float] = {}
        """When each was first found to belong to no client."""

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
