"""A transaction whose end is decided, and the partitions that do not know it yet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from odradek.broker.transactions.transaction_state import ProducerIdentity, TopicPartition


@dataclass(eq=False, slots=True)
class PendingMarkers:
    """`done` is called once, when a marker is in every partition, unless it was cancelled before."""

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    remaining: set[TopicPartition]
    done: Callable[[], object]
    cancelled: bool = False
    """Another coordinator sees to it now."""

    def written(self, partition: TopicPartition) -> None:
        """The partition has its marker, or is gone."""
        self.remaining.discard(partition)
        if not self.remaining and not self.cancelled:
            self.cancelled = True
            self.done()


class MarkerSender(Protocol):
    """Takes markers to the leaders of partitions, as often as it needs."""

    def send(self, pending: PendingMarkers) -> None:
        """Of at least one partition. Returns at once."""
