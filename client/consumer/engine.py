"""The consumer on a loop: keeps partitions located, fetched ahead, and the metadata fresh.

`lock` guards positions and chunks, which the application's thread reads and moves in `poll`; `arrived` is notified when
there is something for it. Everything else is the loop's alone.
"""

import asyncio
import logging
import re
import threading
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.config import READ_COMMITTED, ConsumerSettings
from odradek.client.consumer.fetching import STALE_VIEW, Asked, FetchCall, partitions_of, plan_fetches, without_leader
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.positions import RESET_TIMESTAMPS, Positions
from odradek.client.errors import BrokerUnreachable, ClientError, CorruptRecords, NoOffsetForPartition
from odradek.client.offsets import committed_offsets, offsets_at
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode, KafkaError, MalformedMessage, error_code
from odradek.protocol.messages.fetch import FetchResponse, PartitionData

logger = logging.getLogger(__name__)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class ConsumerEngine:
    """One consumer's loop side. `run` until `stop`."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.positions = Positions()
        self.chunks: dict[TopicPartition, deque[Chunk]] = {}
        self.failure: Exception | None = None
        """For the application: raised by its next `poll`, once."""
        self.group: GroupDriver | None = None
        self.pattern: re.Pattern[str] | None = None
        self._asking: set[int] = set()
        self._locating: set[TopicPartition] = set()
        self._refreshing = False
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        cluster.allow_auto_create = settings.allow_auto_create_topics

    # -- the loop ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has changed. On the loop's thread."""
        self._woken.set()

    async def run(self) -> None:
        """Look what is to do, do it, wait; until `stop`."""
        while not self._stopped:
            self._woken.clear()
            await self._wait_until(self._round())

    def stop(self) -> None:
        """End `run` and all that is under way."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        self.wake()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the loop; what it raises is for the application."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            self.fail(task.exception())  # type: ignore[arg-type]
        self.wake()

    def fail(self, error: Exception) -> None:
        """Hand an error to the application."""
        with self.lock:
            self.failure = error
            self.arrived.notify_all()

    def _round(self) -> float:
        """Start whatever is due; when to look again."""
        now_ms = self.cluster.clock.monotonic_ms()
        with self.lock:
            calls = plan_fetches(self.positions, self.chunks, self.cluster.view, self._may_ask, self.settings, now_ms)
            for call in calls:
                for topic_partition in call.asked:
                    self.positions.partitions[topic_partition].fetching = True
            unlocated = [tp for tp in self.positions.unlocated(now_ms) if tp not in self._locating]
            leaderless = without_leader(self.positions, self.cluster.view)
            retries = [one.retry_at_ms for one in self.positions.partitions.values() if one.retry_at_ms > now_ms]
        for call in calls:
            self._asking.add(call.node_id)
            self.spawn(self._fetch(call))
        if unlocated:
            self._locating.update(unlocated)
            self.spawn(self._locate(unlocated))
        if leaderless:
            self.cluster.needs.stale()
        return min([self._refresh_when_due(now_ms), *retries])

    def _may_ask(self, node_id: int) -> bool:
        return node_id not in self._asking

    async def _wait_until(self, at_ms: float) -> None:
        if at_ms == float("inf"):
            await self._woken.wait()
            return
        timer = self.cluster.clock.call_later(max(0.0, at_ms - self.cluster.clock.monotonic_ms()), self.wake)
        await self._woken.wait()
        timer.cancel()

    # -- metadata ------------------------------------------------------------------------------------------------------

    def _refresh_when_due(self, now_ms: float) -> float:
        if self._refreshing or not (self.cluster.needs.topics or self.cluster.needs.all_topics):
            return float("inf")
        due_ms = self.cluster.needs.next_at_ms()
        if due_ms > now_ms:
            return due_ms
        self._refreshing = True
        self.spawn(self._refresh())
        return float("inf")

    async def _refresh(self) -> None:
        try:
            await self.cluster.refresh()
            self.look_at_metadata()
        except BrokerUnreachable as error:
            logger.debug("consumer %s: %s", self.settings.client_id, error)
        finally:
            self._refreshing = False

    def look_at_metadata(self) -> None:
        """Topics may have come, gone or grown: the group hears of it."""
        if self.group is None:
            return
        view = self.cluster.view
        if self.pattern is not None:
            self.group.membership.subscribe(self.matching_topics())
        counts = {name: len(info.partitions) for name, info in view.topics.items()}
        self.group.membership.counts_changed(counts)
        self.group.wake()

    def matching_topics(self) -> list[str]:
        """The topics that the pattern names."""
        assert self.pattern is not None
        return sorted(
            name
            for name, info in self.cluster.view.topics.items()
            if self.pattern.fullmatch(name)
            and not (self.settings.exclude_internal_topics and (info.internal or name in INTERNAL_TOPICS))
        )

    # -- positions -----------------------------------------------------------------------------------------------------

    async def _locate(self, unlocated: list[TopicPartition]) -> None:
        """Committed offsets first, then auto.offset.reset for those without."""
        try:
            await self._locate_now(unlocated)
        except (BrokerUnreachable, TimeoutError) as error:
            logger.info("consumer %s: positions not found yet: %s", self.settings.client_id, error)
        except KafkaError as error:
            if not error.retriable:
                raise
        finally:
            self._retry_later(unlocated)
            self._locating.difference_update(unlocated)

    async def _locate_now(self, unlocated: list[TopicPartition]) -> None:
        with self.lock:
            resets = {
                tp: state.reset_to
                for tp, state in self.positions.partitions.items()
                if tp in unlocated and state.reset_to is not None
            }
        rest = [tp for tp in unlocated if tp not in resets]
        if rest:
            for topic_partition in await self._locate_by_commits(rest):
                resets[topic_partition] = self._reset_timestamp(topic_partition)
        if resets:
            await self._locate_by_time(resets)

    async def _locate_by_commits(self, asked: list[TopicPartition]) -> list[TopicPartition]:
        group_id = self.settings.group_id
        committed = {}
        if group_id is not None:
            committed = await committed_offsets(self.cluster, group_id, asked, self.deadline("finding positions"))
        with self.lock:
            return self.positions.located_from_commits(asked, committed)

    def _reset_timestamp(self, topic_partition: TopicPartition) -> int:
        policy = self.settings.auto_offset_reset
        if policy not in RESET_TIMESTAMPS:
            raise NoOffsetForPartition(
                f"{topic_partition}: no committed offset to start from, or it is out of range, and "
                "auto.offset.reset=none: seek, or choose earliest or latest"
            )
        return RESET_TIMESTAMPS[policy]

    async def _locate_by_time(self, times: dict[TopicPartition, int]) -> None:
        versions = {tp: state.version for tp, state in self.positions.partitions.items()}
        found = await offsets_at(self.cluster, times, self.settings.isolation, self.deadline("finding positions"))
        with self.lock:
            for topic_partition, offset in found.items():
                state = self.positions.partitions.get(topic_partition)
                if state is None or state.located or state.version != versions.get(topic_partition):
                    continue
                self.positions.jump(topic_partition, offset.offset if offset is not None else 0)
            self.arrived.notify_all()

    def _retry_later(self, partitions: Iterable[TopicPartition]) -> None:
        """Those that still have no position are not looked for again at once, also when the application is told."""
        at_ms = self.cluster.clock.monotonic_ms() + self.settings.retry_backoff_ms
        with self.lock:
            for topic_partition in partitions:
                state = self.positions.partitions.get(topic_partition)
                if state is not None and not state.located:
                    state.retry_at_ms = at_ms

    def deadline(self, what: str) -> Deadline:
        """default.api.timeout.ms from now."""
        return Deadline(self.cluster, self.settings.default_api_timeout_ms, what, "default.api.timeout.ms")

    # -- fetching ------------------------------------------------------------------------------------------------------

    async def _fetch(self, call: FetchCall) -> None:
        try:
            answer = await self.cluster.request(
                call.node_id,
                call.request,
                FetchResponse,
                timeout_ms=self.settings.request_timeout_ms + self.settings.fetch_max_wait_ms,
                highest_version=call.highest_version,
            )
        except BrokerUnreachable as error:
            logger.info("consumer %s: %s", self.settings.client_id, error)
            self.cluster.needs.stale()
            self._not_answered(call)
        else:
            self._take(call, answer)
        finally:
            self._asking.discard(call.node_id)

    def _not_answered(self, call: FetchCall) -> None:
        pause_ms = max(self.settings.retry_backoff_ms, self.cluster.ready_in_ms(call.node_id))
        with self.lock:
            for topic_partition, asked in call.asked.items():
                self._pause(topic_partition, asked, pause_ms)

    def _pause(self, topic_partition: TopicPartition, asked: Asked, pause_ms: float) -> None:
        """With the lock: do not ask for a partition for a while."""
        state = self.positions.partitions.get(topic_partition)
        if state is not None and state.version == asked.version:
            state.fetching = False
            state.retry_at_ms = self.cluster.clock.monotonic_ms() + pause_ms

    def _take(self, call: FetchCall, answer: FetchResponse) -> None:
        if answer.error_code:
            logger.info("consumer %s: fetch: %s", self.settings.client_id, error_code(answer.error_code).name)
            self.cluster.needs.stale()
            self._not_answered(call)
            return
        data = partitions_of(call, answer)
        with self.lock:
            for topic_partition, asked in call.asked.items():
                if topic_partition in data:
                    self._take_partition(topic_partition, asked, data[topic_partition])
                else:
                    self._pause(topic_partition, asked, self.settings.retry_backoff_ms)
            self.arrived.notify_all()

    def _take_partition(self, topic_partition: TopicPartition, asked: Asked, data: PartitionData) -> None:
        state = self.positions.partitions.get(topic_partition)
        if state is None or state.version != asked.version:
            return
        state.fetching = False
        error = error_code(data.error_code)
        if error == ErrorCode.NONE:
            state.high_watermark = data.high_watermark
            self._keep(topic_partition, asked, data)
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(topic_partition, asked)
        elif error in STALE_VIEW or (error in RETRIABLE and error != ErrorCode.CORRUPT_MESSAGE):
            self.cluster.needs.stale()
            self._pause(topic_partition, asked, self.settings.retry_backoff_ms)
        else:
            self._pause(topic_partition, asked, self.settings.retry_backoff_max_ms)
            self.failure = KafkaError(error, f"{topic_partition}: cannot be read at offset {asked.offset}")

    def _keep(self, topic_partition: TopicPartition, asked: Asked, data: PartitionData) -> None:
        records = memoryview(data.records) if data.records else memoryview(b"")
        aborted = None
        if self.settings.isolation == READ_COMMITTED:
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        try:
            end = data.high_watermark if data.high_watermark > asked.offset else None
            chunk = Chunk(topic_partition, records, asked.offset, asked.version, aborted, end)
        except MalformedMessage as error:
            self._pause(topic_partition, asked, self.settings.retry_backoff_max_ms)
            self.failure = CorruptRecords(f"{topic_partition} from offset {asked.offset}: damaged records: {error}")
            return
        if chunk.empty:
            if len(records):
                self.failure = ClientError(
                    f"{topic_partition} at offset {asked.offset}: the batch there is larger than the "
                    f"{len(records)} bytes that were answered: raise max.partition.fetch.bytes"
                )
            return
        self.positions.partitions[topic_partition].fetch_offset = chunk.next_offset
        self.chunks.setdefault(topic_partition, deque()).append(chunk)

    def _out_of_range(self, topic_partition: TopicPartition, asked: Asked) -> None:
        """What was asked for is not there (any more): by auto.offset.reset, unless records before it are still held."""
        if self.chunks.get(topic_partition):
            self._pause(topic_partition, asked, self.settings.retry_backoff_ms)
            return
        try:
            timestamp = self._reset_timestamp(topic_partition)
        except NoOffsetForPartition as error:
            self._pause(topic_partition, asked, self.settings.retry_backoff_max_ms)
            self.failure = error
            return
        logger.warning(
            "consumer %s: %s: offset %d is out of range: starting at the %s",
            self.settings.client_id,
            topic_partition,
            asked.offset,
            self.settings.auto_offset_reset,
        )
        self.positions.reset(topic_partition, timestamp)
