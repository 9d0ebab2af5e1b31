"""In-sync replicas: the set as a controller tells it, how far followers have come, the criteria that they must meet, a
change that waits for the controller."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

BROKER_SETS_MAX = 10_000
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """State of a partition as a controller tells it: the fields of LeaderAndIsr that matter to a replica."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    """Those of the replicas that a reassignment adds, until it is done."""
    removing: tuple[int, ...] = ()
    """Those of the replicas that a reassignment takes away in the end."""
    recovering: bool = False
    """True after an unclean election until a leader has said that the partition has recovered (KIP-704)."""


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
    """Longest time that a follower may lag: `replica.lag.time.max.ms`."""
    is_alive: Callable[[int], bool] = lambda broker_id: True
    """Tells whether the cluster's metadata has a broker of that id."""
    refused_pause_ms: float = 500.0
    """Pause before a follower that the controller has refused is proposed again. Without it that would happen with each
    of its fetches while it is shutting down, or while it waits for the answer to its registration and names its former
    broker epoch. 500 ms are `replica.fetch.wait.max.ms`."""


class FollowerSession(Protocol):
    """Fetch session of a follower (KIP-227)."""

    last_used_ms: float
    """Time of the session's last fetch, in ms of the monotonic clock."""


class FollowerProgress:
    """Progress of a follower, as its leader sees it from the follower's own fetches.

    A fetch at offset N says that the follower holds everything below N (Kafka: Replica.scala, updateFetchState).
    """

    __slots__ = (
        "broker_epoch", "broker_id", "last_caught_up_ms", "last_fetch_leader_end", "last_fetch_ms",
        "log_end", "log_start", "refused_ms", "session",
    )  # fmt: skip

    def __init__(self, broker_id: int, last_caught_up_ms: float) -> None:
        """`last_caught_up_ms` is -inf for a follower that has not been seen at the leader's end."""
        self.broker_id, self.last_caught_up_ms = broker_id, last_caught_up_ms
        self.broker_epoch = NO_BROKER_EPOCH
        """Epoch of the registration under which the broker fetched last. AlterPartition carries it, so that a broker
        that has restarted does not enter the ISR by what it had fetched before."""
        self.log_end, self.log_start, self.last_fetch_leader_end = -1, -1, 0
        self.last_fetch_ms = self.refused_ms = -math.inf
        self.session: FollowerSession | None = None
        """Session of the follower; its empty fetches at the leader's end are noted in its `last_used_ms` alone."""

    def fetched(self, offset: int, log_start: int, broker_epoch: int, now_ms: float, leader_log_end: int) -> None:
        """Note a fetch at `offset` while the leader's log ended at `leader_log_end`.

        The follower is caught up now if it asks from the end; it was when it last asked if it has since received all
        that was there then, so that a follower behind a steady writer counts as in sync.
        """
        if offset >= leader_log_end:
            self.last_caught_up_ms = now_ms
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end, self.log_start, self.broker_epoch = offset, log_start, broker_epoch
        self.last_fetch_leader_end, self.last_fetch_ms = leader_log_end, now_ms

    def overtaken(self, leader_log_end: int) -> None:
        """Note that the leader appends at `leader_log_end` now: a follower there was caught up at its last fetch."""
        if self.session is not None and self.log_end == leader_log_end:
            self.last_fetch_ms = max(self.last_fetch_ms, self.session.last_used_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)

    def is_caught_up(self, leader_log_end: int, now_ms: float, lag_time_ms_max: int) -> bool:
        """Tell whether the follower is at the leader's end, or was within the last `lag_time_ms_max`."""
        return self.log_end == leader_log_end or now_ms - self.last_caught_up_ms <= lag_time_ms_max
