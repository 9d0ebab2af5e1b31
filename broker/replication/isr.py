"""In-sync replicas: the criteria that followers must meet, and a change of the set that waits for the controller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class PendingIsr:
    """A change of the in-sync replicas that the leader wants and the controller must write (AlterPartition)."""

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker ids with the epochs of their registrations, -1 where not known."""

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(broker for broker, _ in self.isr)


class IsrCriteria(NamedTuple):
    """Criteria that a broker's followers must meet to count as in sync."""

    lag_time_ms_max: int = 30_000
    """`replica.lag.time.max.ms`."""
    is_alive: Callable[[int], bool] = lambda broker_id: True
    """Tells whether the cluster's metadata has a broker of that id."""
