"""Limits on how fast replicas are copied, so that a reassignment leaves room for clients (KIP-73).

A leader and a follower have a limit each, in bytes per second for all their partitions together. A topic's settings
name the replicas that it holds for. A replica in sync is never held back, or it would drop out of the ISR; what it
copies counts all the same. Moves between directories (KIP-113) have a limit of their own. Kafka:
ReplicationQuotaManager.
"""

from collections import deque
from collections.abc import Callable
from operator import attrgetter

from odradek.broker.quotas.rates import RateWindows
from odradek.broker.replication.partition import Partition
from odradek.broker.settings.topic_settings import LogConfig
from odradek.world.clock import Clock

ALL = ("*",)


KAFKAS_WINDOWS = RateWindows(11, 1000.0)


class RateLimit:
    """A limit in bytes per second, taken over the last windows; the youngest of these is not over yet."""

    def __init__(self, clock: Clock, windows: RateWindows) -> None:
        self._clock, self._windows = clock, windows
        self.bytes_per_second: int | None = None
        """Limit of the rate; None: no limit."""
        self._counted: deque[tuple[float, int]] = deque()
        """Per window that saw any: when it began, and how many bytes."""

    def count(self, size: int) -> None:
        """Count bytes that were copied. They are not remembered while there is no limit."""
        if self.bytes_per_second is None or not size:
            return
        now_ms = self._clock.monotonic_ms()
        if self._counted and now_ms < self._counted[-1][0] + self._windows.length_ms:
            began_ms, before = self._counted.pop()
            self._counted.append((began_ms, before + size))
        else:
            self._counted.append((now_ms, size))
            self._forget(now_ms)

    @property
    def rate(self) -> float:
        """Bytes per second that were copied under the limit; the first window counts whole from its start."""
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        if not self._counted:
            return 0.0
        passed_ms = max(now_ms - self._counted[0][0], self._windows.length_ms)
        return sum(size for _, size in self._counted) * 1000.0 / passed_ms

    @property
    def exceeded(self) -> bool:
        """Tell whether more was copied than the limit allows."""
        return self.bytes_per_second is not None and self.rate > self.bytes_per_second

    def _forget(self, now_ms: float) -> None:
        while self._counted and self._counted[0][0] + self._windows.number * self._windows.length_ms <= now_ms:
            self._counted.popleft()


class Throttle:
    """The limit of one side. `named`: the topic setting that says which replicas it holds for."""

    def __init__(self, limit: RateLimit, named: Callable[[LogConfig], tuple[str, ...]]) -> None:
        self.limit, self._named = limit, named

    def applies_to(self, partition: Partition) -> bool:
        """Tell whether the limit holds for this broker's replica."""
        named = self._named(partition.log.config)
        return bool(named) and (named == ALL or f"{partition.index}:{partition.local_id}" in named)

    def holds_back(self, partition: Partition) -> bool:
        """Tell whether a replica that is not in sync has to wait."""
        return self.limit.bytes_per_second is not None and self.applies_to(partition) and self.limit.exceeded

    def copied(self, partition: Partition, size: int) -> None:
        """Count bytes of a partition that went from the leader to the follower."""
        if self.limit.bytes_per_second is not None and self.applies_to(partition):
            self.limit.count(size)


class Throttling:
    """The limits of one broker; none at first."""

    def __init__(
        self, clock: Clock, replication: RateWindows = KAFKAS_WINDOWS, moves: RateWindows = KAFKAS_WINDOWS
    ) -> None:
        self.serving = Throttle(RateLimit(clock, replication), attrgetter("leader_replication_throttled_replicas"))
        """Limit of what it gives to followers, by `leader.replication.throttled.rate`."""
        self.following = Throttle(RateLimit(clock, replication), attrgetter("follower_replication_throttled_replicas"))
        """Limit of what it fetches from leaders, by `follower.replication.throttled.rate`."""
        self.moving = RateLimit(clock, moves)
        """Limit of what it copies between log directories, by `replica.alter.log.dirs.io.max.bytes.per.second`."""
