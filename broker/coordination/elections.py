"""Elections of this broker to the partitions of the coordinators' topics, passed on to the coordinators."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from odradek.broker.replication.controller_requests import LeadershipListener
from odradek.protocol.topic_names import PartitionKey


class TopicCoordinator(Protocol):
    """The coordinator of one topic: hears what a `LeadershipListener` does, of the partitions of that topic."""

    def on_elected(self, partition: int, epoch: int) -> None: ...

    def on_resigned(self, partition: int, epoch: int | None) -> None:
        """Take note that this broker does not lead the partition in that epoch; None: whatever the epoch."""

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        """Take note that the cluster does not have these partitions any more; they may be of any topic."""


class CoordinatorElections(LeadershipListener):
    """Tells the coordinators, which are in `coordinators` by their topics, what happens to their partitions."""

    def __init__(self) -> None:
        self.coordinators: Mapping[str, TopicCoordinator] = {}

    def on_elected(self, topic: str, index: int, leader_epoch: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_elected(index, leader_epoch)

    def on_resigned(self, topic: str, index: int) -> None:
        if topic in self.coordinators:
            self.coordinators[topic].on_resigned(index, None)

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        for coordinator in self.coordinators.values():
            coordinator.on_partitions_deleted(partitions)
