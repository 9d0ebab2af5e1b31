"""How far a follower has come, as its leader sees it from the follower's own fetches."""

from typing import Protocol


class Fetcher(Protocol):
    """Where a follower's fetches come from: its fetch session."""

    last_used_ms: float
    """When it fetched last."""


class FollowerProgress:
    """One follower of a partition that this broker leads.

    A fetch at offset N says that the follower holds everything below N (Kafka: Replica.scala, updateFetchState).
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "fetcher",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end",
        "log_start",
    )

    def __init__(self, broker_id: int, now_ms: float, log_end: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        """Registration of the broker that fetched last; goes with it into AlterPartition, so that a bounced broker
        is not taken into the ISR on the strength of what its former self had fetched."""
        self.log_end = log_end
        self.log_start = -1
        self.last_fetch_leader_end = 0
        self.last_fetch_ms = 0.0
        self.last_caught_up_ms = now_ms
        self.fetcher: Fetcher | None = None
        """Of whose fetches we are told only when they are about more than waiting at the leader's end."""

    def fetched(self, offset: int, log_start: int, broker_epoch: int, now_ms: float, leader_log_end: int) -> None:
        """Note a fetch at `offset` while the leader's log ended at `leader_log_end`.

        Caught up now if it asks from the end; caught up when it last asked if it has since received all that was
        there then, so that a follower behind a steady writer counts as in sync.
        """
        if offset >= leader_log_end:
            self.last_caught_up_ms = now_ms
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self.last_fetch_leader_end = leader_log_end
        self.last_fetch_ms = now_ms

    def overtaken(self, leader_log_end: int) -> None:
        """The leader is about to append at `leader_log_end`: who was there was caught up at its last fetch."""
        if self.fetcher is not None and self.log_end == leader_log_end:
            self.last_fetch_ms = max(self.last_fetch_ms, self.fetcher.last_used_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)

    def lags(self, leader_log_end: int, now_ms: float, lag_time_ms_max: int) -> bool:
        """Whether it has not been at the leader's end for longer than `replica.lag.time.max.ms`."""
        return self.log_end != leader_log_end and now_ms - self.last_caught_up_ms > lag_time_ms_max
