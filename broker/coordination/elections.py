"""Elections of this broker to the partitions of the coordinators' topics, passed on to the coordinators."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Coordinator(Protocol):
    """The group coordinator, or the transaction coordinator."""

    def on_elected(self, partition: int, epoch: int) -> None:
        """This broker has become the leader of that partition of the coordinator's topic."""

    def on_resigned(self, partition: int, epoch: int | None) -> None:
        """It does not lead it any more (None: whatever the epoch)."""

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The cluster does not have these partitions, of any topics, any more."""


class CoordinatorElections:
    """Passes on to the coordinators what happens to the partitions of their topics. `coordinators`: by topic."""

    def __init__(self) -> None:
        self.coordinators: Mapping[str, Coordinator] = {}

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        """This broker leads that partition from now on."""
        if topic in self.coordinators:
            self.coordinators[topic].on_elected(index, leader_epoch)

    def on_resigned(self, topic: str, index: int) -> None:
        """It does not lead that partition, or not any more."""
        if topic in self.coordinators:
            self.coordinators[topic].on_resigned(index, None)

    def on_partitions_deleted(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The cluster does not have these partitions any more."""
        for coordinator in self.coordinators.values():
            coordinator.on_partitions_deleted(partitions)
