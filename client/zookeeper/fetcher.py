"""Asks the leaders of the partitions that are read, one request at a time to each broker, and fills the streams.

Kafka's ConsumerFetcherManager. A stream that is full is not asked for; what was under way to it when it became full is
kept, so that at most one answer of each broker comes on top of queued.max.message.chunks.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from odradek.client.calls import FETCH_CONNECTION, Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import READ_UNCOMMITTED
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetching import Asked, FetchCall, partitions_of, plan_fetches, without_leader
from odradek.client.consumer.verdicts import Arrived, AskAgain, NothingNew, OutOfRange, Refused, Verdict, judge
from odradek.client.errors import BrokerUnreachable, ClientError
from odradek.client.offsets import offsets_at
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.consumption import Consumption
from odradek.protocol.errors import KafkaError, error_code
from odradek.protocol.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)


class Fetcher:
    """Runs until cancelled."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, consumption: Consumption, reset_timestamp: int
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._consumption = consumption
        self._reset_timestamp = reset_timestamp
        self._asking: set[int] = set()
        self._locating: set[TopicPartition] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _now_ms(self) -> float:
        return self._cluster.clock.monotonic_ms()

    async def run(self) -> None:
        """Look what is to ask, ask, wait."""
        changed = self._consumption.changed
        self._cluster.refreshed = self._metadata_refreshed
        try:
            while True:
                changed.clear()
                await changed.wait_until(self._round())
        finally:
            for task in self._tasks:
                task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            self._fail_all(task.exception())  # type: ignore[arg-type]
        self._consumption.wake()

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
        for call in plan_fetches(positions, {}, self._cluster.view, self._may_ask, self._settings, now_ms):
            for name in call.asked:
                positions.partitions[name].fetching = True
            self._asking.add(call.node_id)
            self._spawn(self._fetch(call))
        unlocated = [name for name in positions.unlocated(now_ms) if name not in self._locating]
        if unlocated:
            self._locating.update(unlocated)
            self._spawn(self._locate(unlocated))
        retries = [one.retry_at_ms for one in positions.partitions.values() if one.retry_at_ms > now_ms]
        return min([self._cluster.refresh_when_due(), *retries])

    def _may_ask(self, node_id: int) -> bool:
        return node_id not in self._asking

    def _metadata_refreshed(self, error: BaseException | None) -> None:
        if isinstance(error, BrokerUnreachable):
            logger.warning("%s: %s", self._settings.client_id, error)
        elif isinstance(error, Exception):
            self._fail_all(error)
        self._consumption.wake()

    # -- where to start ------------------------------------------------------------------------------------------------

    async def _locate(self, names: list[TopicPartition]) -> None:
        """By auto.offset.reset: where no offset was stored, or what was stored is no longer there."""
        positions = self._consumption.positions.partitions
        versions = {name: positions[name].version for name in names if name in positions}
        deadline = Deadline(self._cluster, self._settings.request_timeout_ms, "finding offsets", "socket.timeout.ms")
        try:
            times = dict.fromkeys(versions, self._reset_timestamp)
            found = await offsets_at(self._cluster, times, self._settings.isolation, deadline)
        except (BrokerUnreachable, TimeoutError) as error:
            logger.info("%s: offsets not found yet: %s", self._settings.client_id, error)
        except (KafkaError, ClientError) as error:
            self._fail(names, error)
        else:
            for name, offset in found.items():
                state = self._consumption.positions.partitions.get(name)
                if state is not None and state.version == versions[name] and not state.located:
                    self._consumption.locate(name, 0 if offset is None else offset.offset)
        finally:
            self._retry_later(names)
            self._locating.difference_update(names)

    def _retry_later(self, names: Iterable[TopicPartition]) -> None:
        self._consumption.positions.retry_at(names, self._now_ms + self._settings.retry_backoff_ms)

    def _fail(self, names: Iterable[TopicPartition], error: Exception) -> None:
        for name in names:
            if name in self._consumption.claimed:
                self._consumption.claimed[name].stream.fail(error)

    # -- fetching ------------------------------------------------------------------------------------------------------

    async def _fetch(self, call: FetchCall) -> None:
        try:
            answer = await self._cluster.request(
                call.node_id,
                call.request,
                FetchResponse,
                timeout_ms=self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms,
                purpose=FETCH_CONNECTION,
                highest_version=call.highest_version,
            )
        except BrokerUnreachable as error:
            logger.info("%s: %s", self._settings.client_id, error)
            self._not_answered(call)
        except Exception as error:  # noqa: BLE001 - whoever reads these partitions gets it
            self._not_answered(call)
            self._fail(call.asked, error)
        else:
            self._take(call, answer)
        finally:
            self._asking.discard(call.node_id)

    def _not_answered(self, call: FetchCall) -> None:
        self._cluster.needs.stale()
        pause_ms = max(self._settings.retry_backoff_ms, self._cluster.ready_in_ms(call.node_id, FETCH_CONNECTION))
        for name, asked in call.asked.items():
            self._pause(name, asked, pause_ms)

    def _pause(self, name: TopicPartition, asked: Asked, pause_ms: float) -> None:
        """Do not ask for a partition for a while."""
        self._consumption.positions.pause(name, asked.version, self._now_ms + pause_ms)

    def _take(self, call: FetchCall, answer: FetchResponse) -> None:
        if answer.error_code:
            logger.info("%s: fetch: %s", self._settings.client_id, error_code(answer.error_code).name)
            self._not_answered(call)
            return
        data = partitions_of(call, answer)
        limit = f"fetch.message.max.bytes={self._settings.max_partition_fetch_bytes}"
        for name, asked in call.asked.items():
            state = self._consumption.positions.partitions.get(name)
            if state is None or state.version != asked.version:
                continue
            if name not in data:
                self._pause(name, asked, self._settings.retry_backoff_ms)
                continue
            state.fetching = False
            self._obey(name, asked, judge(name, asked, data[name], READ_UNCOMMITTED, limit))

    def _obey(self, name: TopicPartition, asked: Asked, verdict: Verdict) -> None:
        match verdict:
            case NothingNew():
                return
            case Arrived(chunk):
                self._consumption.positions.partitions[name].fetch_offset = chunk.next_offset
                self._consumption.claimed[name].stream.put(chunk)
            case OutOfRange():
                self._out_of_range(name, asked)
            case AskAgain():
                self._cluster.needs.stale()
                self._pause(name, asked, self._settings.retry_backoff_ms)
            case Refused(error):
                self._pause(name, asked, self._settings.retry_backoff_ms)
                self._fail([name], error)

    def _out_of_range(self, name: TopicPartition, asked: Asked) -> None:
        """What was asked for is not there (any more): by auto.offset.reset, once what was read before is handed out."""
        if self._consumption.claimed[name].stream.holds(name):
            self._pause(name, asked, self._settings.retry_backoff_ms)
            return
        logger.warning("%s: %s: offset %d is out of range: reset", self._settings.client_id, name, asked.offset)
        state = self._consumption.positions.partitions[name]  # its version stays: it is the claim's
        state.position = state.fetch_offset = -1
