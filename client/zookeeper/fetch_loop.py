"""Loop that keeps the streams of a connector filled: finds where to start, and fetches from the partitions' leaders.

It does the work of Kafka's ConsumerFetcherManager. For a full stream nothing is fetched. Answers that were under way
when it became full are kept, at most one of each broker on top of queued.max.message.chunks.
"""

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetch_requests import without_leader
from odradek.client.consumer.fetcher import END_SESSIONS_MS, Fetcher
from odradek.client.errors import BrokerUnreachable
from odradek.client.offsets import ask_leader
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.consumption import Consumption
from odradek.protocol.errors import KafkaError
from odradek.world.tasks import OnDeath, Tasks

logger = logging.getLogger(__name__)


class FetchLoop:
    """Fetch loop of one connector. `run` until it is cancelled."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, consumption: Consumption, reset_timestamp: int
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._consumption = consumption
        self._reset_timestamp = reset_timestamp
        self._fetcher = Fetcher(cluster, settings, consumption, self._reset, self._truncate, "fetch.message.max.bytes")
        self._asked: set[tuple[TopicPartition, int]] = set()
        """Partitions that are being looked up, each with the leader that is asked."""
        self._tasks = Tasks(cluster.clock, lambda said: None)

    @property
    def _now_ms(self) -> float:
        return self._cluster.clock.monotonic_ms()

    async def run(self) -> None:
        """Fetch, and look up offsets, whatever is due; then wait; until cancelled."""
        changed = self._consumption.changed
        self._cluster.refreshed = self._metadata_refreshed
        try:
            while True:
                changed.clear()
                await changed.wait_until(self._round())
        finally:
            self._tasks.close()

    async def end_sessions(self) -> None:
        """End the fetch sessions with brokers. After the end of `run`."""
        await self._fetcher.end_sessions(END_SESSIONS_MS)

    def _spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task; an exception that it raises goes to the readers of all streams."""
        task = self._tasks.spawn(f"{self._settings.client_id}: {name}", work, OnDeath.REPORT, self._fail_all)
        task.add_done_callback(lambda _: self._consumption.wake())

    def _fail_all(self, error: Exception) -> None:
        for one in self._consumption.claimed.values():
            one.stream.fail(error)

    def _round(self) -> float:
        """Start whatever is due; when to look again."""
        now_ms, positions = self._now_ms, self._consumption.positions
        for name, one in self._consumption.claimed.items():
            positions.partitions[name].paused = one.stream.full
        self._cluster.needs.want_exactly({name.topic for name in positions.partitions}, now_ms)
        if without_leader(positions, self._cluster.view):
            self._cluster.needs.stale()
        for call in self._fetcher.due(now_ms):
            self._spawn("fetch", partial(self._fetcher.fetch, call))
        unlocated: dict[int, list[TopicPartition]] = {}
        for name in positions.unlocated(now_ms):
            leader = self._cluster.view.leader_of(name)
            if leader is not None and (name, leader) not in self._asked:
                self._asked.add((name, leader))
                unlocated.setdefault(leader, []).append(name)
        for leader, names in unlocated.items():
            self._spawn("find offsets", partial(self._locate, leader, names))
        retries = [one.retry_at_ms for one in positions.partitions.values() if one.retry_at_ms > now_ms]
        return min([self._cluster.refresh_when_due(), *retries])

    def _metadata_refreshed(self, error: BaseException | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, BrokerUnreachable):  # that the cluster has logged
            self._fail_all(error)
        self._consumption.wake()

    # -- where to start ------------------------------------------------------------------------------------------------

    async def _locate(self, leader: int, names: list[TopicPartition]) -> None:
        """Find the place by auto.offset.reset: no offset was stored, or what was stored is no longer there."""
        positions = self._consumption.positions.partitions
        versions = {name: positions[name].version for name in names if name in positions}
        try:
            times = dict.fromkeys(versions, self._reset_timestamp)
            found, failure = await ask_leader(self._cluster, leader, times, self._settings.isolation)
            for name, offset in found.items():
                state = self._consumption.positions.partitions.get(name)
                if state is not None and state.version == versions[name] and not state.located:
                    self._consumption.locate(name, 0 if offset is None else offset.offset)
            if failure is not None:
                self._cluster.needs.stale()
                raise failure
        except BrokerUnreachable as error:
            logger.info("%s: offsets not found yet: %s", self._settings.client_id, error)
        except KafkaError as error:
            if not error.retriable:
                now = self._consumption.positions.partitions
                self._consumption.refuse([name for name in versions if name in now and not now[name].located], error)
        finally:
            self._consumption.positions.retry_at(names, self._now_ms + self._settings.retry_backoff_ms)
            self._asked.difference_update((name, leader) for name in names)

    # -- where to go on ------------------------------------------------------------------------------------------------

    def _reset(self, name: TopicPartition) -> None:
        """Have a partition located again, by auto.offset.reset."""
        state = self._consumption.positions.partitions[name]  # its version stays: it is the number of the claim
        state.move_to(-1)
        state.fetch_offset = state.fetch_epoch = -1

    def _truncate(self, name: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Go on at the offset from which on the leader's log differs from what was read."""
        self._consumption.positions.partitions[name].fetch_epoch = leader_epoch
        self._consumption.locate(name, offset)
