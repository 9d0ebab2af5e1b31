"""A broker as its metrics read it: the objects, and what is measured only while somebody may ask."""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.metrics.counters import Traffic
from odradek.broker.monitoring.lag import ConsumerLag
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.replication.fetcher_manager import FetcherManager
from odradek.broker.replication.partition import Partition
from odradek.broker.services import Services
from odradek.world.clock import Clock, Timer
from odradek.world.durations import Durations
from odradek.zk_schema.store import Connected, Expired, Store, StoreEvent, Suspended

TICK_MS: Final = 1_000.0
PERIOD_TICKS: Final = 60
"""Ticks after which quantiles begin a new period: what is older than five of them counts no more."""
IDLE_TICKS: Final = 60
"""Ticks that idle shares are counted over: the last minute, as in Kafka."""


class LoopWatch:
    """Watch over the event loop: how late it calls its timers, and which share of its time it works."""

    def __init__(self, clock: Clock) -> None:
        self.lag = Durations()
        """Delays: how much later than asked a timer was called."""
        self.on_period: list[Callable[[], object]] = [self.lag.begin_period]
        self._clock = clock
        self._timer: Timer | None = None
        self._ticks = 0
        self._marks: deque[tuple[float, float]] = deque(maxlen=IDLE_TICKS + 1)

    def start(self) -> None:
        """Begin to tick; to be called on the loop that is watched."""
        self._due_s = self._clock.perf_counter() + TICK_MS / 1000.0
        self._timer = self._clock.call_later(TICK_MS, self._tick)

    def stop(self) -> None:
        """Tick no more. Harmless twice."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def idle_share(self) -> float:
        """Share of the last minute in which the loop's thread did not compute; 1.0 before anything is known."""
        if len(self._marks) < 2:
            return 1.0
        (began_s, busy_before_s), (ended_s, busy_s) = self._marks[0], self._marks[-1]
        return min(1.0, max(0.0, 1.0 - (busy_s - busy_before_s) / (ended_s - began_s)))

    def _tick(self) -> None:
        now_s = self._clock.perf_counter()
        self.lag.add(max(0.0, now_s - self._due_s))
        self._marks.append((now_s, time.thread_time()))
        self._ticks += 1
        if self._ticks % PERIOD_TICKS == 0:
            for begin in self.on_period:
                begin()
        self.start()


class CollectionWatch:
    """Watch over Python's garbage collector: how long it stops the process, by generation."""

    def __init__(self, clock: Clock) -> None:
        self.generations = [Durations(), Durations(), Durations()]
        self._clock = clock
        self._began_s = 0.0

    def start(self) -> None:
        gc.callbacks.append(self._called)

    def stop(self) -> None:
        """Stop observing. Harmless twice."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = self._clock.perf_counter()
        else:
            self.generations[info["generation"]].add(self._clock.perf_counter() - self._began_s)


class SessionWatch:
    """Counts of the ZooKeeper session's connects, disconnects and expirations (Kafka's SessionExpireListener)."""

    def __init__(self, store: Store) -> None:
        self.connects = int(store.connected)
        self.disconnects = self.expirations = 0
        store.subscribe(self._happened)

    def _happened(self, event: StoreEvent) -> None:
        self.connects += isinstance(event, Connected)
        self.disconnects += isinstance(event, Suspended)
        self.expirations += isinstance(event, Expired)


@dataclass(slots=True)
class Observed:
    """Parts of a broker that the catalog's readers are given."""

    services: Services
    sockets: SocketServer
    fetchers: FetcherManager
    lag: ConsumerLag
    session: SessionWatch
    loop: LoopWatch
    collections: CollectionWatch
    broker_state: Callable[[], int]
    """Kafka's BrokerState, as a number."""
    started_s: float
    """Wall clock, seconds since 1970."""
    scrapes: Durations = field(default_factory=Durations)

    @property
    def traffic(self) -> Traffic:
        return self.services.replicas.traffic

    def partitions(self) -> list[Partition]:
        """List the partitions that this broker has a replica of, in a copy."""
        return list(self.services.replicas.partitions.values())

    def led(self) -> Iterator[Partition]:
        """Yield the partitions that this broker leads."""
        return (partition for partition in self.partitions() if partition.is_leader)

    def begin_period(self) -> None:
        """Let quantiles forget what is older than some minutes."""
        for api in self.services.request_metrics.apis.values():
            for _, durations in api.phases():
                durations.begin_period()
        for durations in self.services.controller.counters.events.values():
            durations.begin_period()
        self.services.controller.counters.waited.begin_period()
        self.services.zookeeper.latency.begin_period()
        self.services.logs.flush_times.begin_period()
