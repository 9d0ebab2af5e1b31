"""Generations of a group: no two members of one generation have the same partition.

Both would read it and commit. Who has not heard of the next generation yet, because it stands still or is cut off, may
have what belongs to another one by now, and its commits are refused.
"""

from collections.abc import Callable, Iterable

from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.member_states import State
from odradek.client.records import TopicPartition
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.history import History


class Generations:
    """Watches the members of one group."""

    def __init__(self, members: Callable[[], Iterable[SimulatedConsumer]], history: History) -> None:
        self._members, self._history = members, history

    def look(self) -> None:
        """Look at all members that are settled in a generation."""
        owners: dict[tuple[int, TopicPartition], str] = {}
        for member in self._members():
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
