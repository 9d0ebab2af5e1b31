"""In-sync replicas: the set as a controller tells it, the criteria that followers must meet, a change that waits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

BROKER_SETS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class PartitionView:
    """State of a partition as a controller tells it: the fields of LeaderAndIsr that matter to a replica."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    recovering: bool = False
    """The election was unclean, and no leader since has said that the partition has recovered (KIP-704)."""


@lru_cache(BROKER_SETS_MAX)
def broker_set(brokers: tuple[int, ...]) -> frozenset[int]:
    """Return the set of these brokers, the same one each time: partitions are many, and different ISRs few."""
    return frozenset(brokers)


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
    refused_pause_ms: float = 500.0
    """So long a follower whom the controller has refused is not proposed again. Else it is with each of its fetches
    while it is shutting down, or has registered and was not answered; 500 ms are `replica.fetch.wait.max.ms`."""


class FollowerSession(Protocol):
    """Fetch session of a follower (KIP-227)."""

    last_used_ms: float
    """Time of the session's last fetch, in ms of the monotonic clock."""
