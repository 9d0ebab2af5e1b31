"""Base of the consumer on asyncio: opening and closing, subscriptions, and questions about topics and offsets."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from odradek.client import arguments, metrics
from odradek.client.aio.opening import AsyncClient
from odradek.client.aio.world import named, warn_dropped, world_of
from odradek.client.cluster import Cluster
from odradek.client.config import addresses, load
from odradek.client.consumer.buffer import RecordBuffer, Shared
from odradek.client.consumer.config import ConsumerSettings, check, deserializer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.fetcher import END_SESSIONS_MS
from odradek.client.consumer.participation import CLOSE_TIMEOUT_MS, CallBack, Participation
from odradek.client.consumer.subscription import (
    NOTHING,
    ConsumerInterceptors,
    RebalanceListener,
    listening,
    to_partitions,
    to_pattern,
    to_topics,
)
from odradek.client.errors import BrokerUnreachable, ClientClosed, ClientError, ConfigError
from odradek.client.metadata import PartitionInfo
from odradek.client.offsets import offsets_at
from odradek.client.records import (
    OffsetAndTimestamp,
    TopicPartition,
)
from odradek.client.sensors import PollSensors
from odradek.protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import OnDeath

NEEDS_GROUP = "committing needs group.id"


async def call_here(function: Callable[[], object]) -> object:
    """Call a function of the application on the loop; a coroutine function is awaited."""
    result = function()
    return await result if inspect.isawaitable(result) else result


NOT_STARTED = "the consumer is not started: use `async with`, or `await consumer.start()`"


class NotStarted:
    """Placeholder for what a consumer shares with its engine, which `start` makes: any use raises ClientError."""

    def __getattr__(self, name: str) -> Any:
        raise ClientError(NOT_STARTED)


class ConsumerBase(AsyncClient):
    """The consumer without records, positions and commits, which `Consumer` adds."""

    config: ConsumerSettings

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take topics to subscribe to, and settings: Kafka's consumer configs, as one mapping with Kafka's names or as
        snake_case keywords.

        `network`, `clock` and `random` replace those of this process, for tests. Raises ConfigError.
        """
        super().__init__(world_of(network, clock, random))
        given = [one for one in topics if isinstance(one, Mapping)]
        self._names = [arguments.topic_name(one) for one in topics if not isinstance(one, Mapping)]
        if len(given) > 1:
            raise ConfigError("give one mapping of settings, not several")
        self.config = config = named(check(load(ConsumerSettings, given[0] if given else None, settings)), "consumer")
        addresses(config.bootstrap_servers)
        self._deserializers = (
            deserializer(config.key_deserializer, "key"),
            deserializer(config.value_deserializer, "value"),
        )
        self._interceptors = ConsumerInterceptors(list(config.interceptor_classes or []))
        self._intercepts = bool(self._interceptors)
        self.call_back: CallBack = call_here
        """Calls the application's callbacks."""
        self._engine: ConsumerEngine | None = None
        self._shared: Shared = NotStarted()  # type: ignore[assignment]
        self._buffer: RecordBuffer = NotStarted()  # type: ignore[assignment]
        self._group: Participation | None = None
        self._closing = False
        self._closer: asyncio.Task[Any] | None = None
        self._ended = asyncio.Event()

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def _begin(self, cluster: Cluster) -> None:
        engine = self._engine = ConsumerEngine(cluster, self.config)
        self._shared = engine.shared
        self._buffer = RecordBuffer(engine.shared, self.config, *self._deserializers)
        self._sensors = PollSensors(cluster.metrics)
        if self.config.group_id is not None:
            self._group = Participation(
                engine, self.call_back, self._interceptors, on_loop=not self._from_other_threads
            )
        engine.start()
        if self._names:
            self.subscribe(self._names)

    @property
    def engine(self) -> ConsumerEngine:
        """Return the engine, which is not for applications. Raises ClientError before `start`, ClientClosed or
        ClientBroken once it has ended."""
        if self._engine is None:
            raise ClientError(NOT_STARTED)
        self._engine.shared.check_open()
        self._check_loop()
        return self._engine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception without a commit, so that the record whose processing failed is read again."""
        await self.close(autocommit=kind is None)

    async def close(self, *, autocommit: bool = True, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit the positions (with enable.auto.commit), leave the group and close all connections.

        Takes `timeout_ms` at most. Leaving the group gets up to two seconds of that, and a quarter of a second even if
        the commits took all of it; ending the fetch sessions gets up to half a second. Calling it again waits for the
        end of the first call, at most `timeout_ms`; in a callback it returns at once, as the first may wait for that.
        """
        engine, timeout_ms = self._engine, arguments.duration(timeout_ms)
        if engine is None or self._ended.is_set():
            return
        self._check_loop()
        if self._closing:
            in_callback = asyncio.current_task() is self._closer or (self._group is not None and self._group.calls_back)
            if not in_callback:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), timeout_ms / 1000)
            return
        self._closing, self._closer = True, asyncio.current_task()
        clock = engine.cluster.clock
        end_ms = clock.monotonic_ms() + timeout_ms
        try:
            if self._group is not None:
                if engine.shared.ended is None:
                    await self._group.close(autocommit=autocommit, timeout_ms=timeout_ms)
                else:
                    await self._group.leave("the consumer is broken")
            left_ms = min(end_ms - clock.monotonic_ms(), END_SESSIONS_MS)
            if left_ms > 0:
                await engine.end_sessions(left_ms)
        finally:
            self.stop()

    async def abandon(self) -> None:
        """Leave the group and close, without a commit and without callbacks."""
        self._closing = True
        try:
            if self._group is not None:
                await self._group.leave("the consumer was dropped")
        finally:
            self.stop()

    def stop(self) -> None:
        """Close at once, without leaving the group: the coordinator removes the member after session.timeout.ms."""
        assert self._engine is not None
        self._closing = True
        self._ended.set()
        self._engine.shared.end(ClientClosed("the consumer is closed"))
        self._engine.stop()
        self._engine.cluster.close()

    def __del__(self) -> None:
        engine, loop, group = self.__dict__.get("_engine"), self.__dict__.get("_loop"), self.__dict__.get("_group")
        if engine is None or loop is None or self._closing or engine.shared.ended is not None:
            return
        if self._of_a_blocking_one:
            return

        async def leave() -> None:
            if group is not None:
                await group.leave("the consumer was dropped")
            engine.stop()
            engine.cluster.close()

        warn_dropped(
            self,
            f"consumer {self.config.client_id}",
            loop,
            lambda: engine.cluster.tasks.spawn("leave", leave, OnDeath.REPORT),
        )

    # -- what to read --------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics whose whole name matches `pattern`, also those that are created later;
        with group.id the group shares their partitions.

        Replaces the previous subscription. Methods of `listener` may be coroutine functions. Raises ConfigError, also
        after `assign`; TypeError.
        """
        engine = self.engine
        names = frozenset(arguments.topic_name(one) for one in ([topics] if isinstance(topics, str) else topics))
        if bool(names) == (pattern is not None):
            raise ConfigError("subscribe to topics or to a pattern: one of the two")
        wanted = engine.subscription.followed_by(to_topics(names) if pattern is None else to_pattern(pattern))
        told = listening(listener, on_loop=not self._from_other_threads)
        if self._group is not None:
            self._group.subscribe(wanted, told)
        else:
            engine.subscribe(wanted)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment; replaces the previous ones.

        Raises ConfigError, also after `subscribe`; TypeError.
        """
        engine = self.engine
        wanted = arguments.topic_partitions(partitions)
        if engine.subscription.shared and not wanted:  # a member has to leave its group, and this cannot wait for it
            raise ConfigError(f"the consumer is {engine.subscription.kind.value}: await unsubscribe() to read nothing")
        subscription = engine.subscription.followed_by(to_partitions({tp.topic for tp in wanted}))
        if self._group is not None:
            self._group.let_go()
        with self._shared.lock:
            self._shared.positions.assign(wanted)
        engine.subscribe(subscription)

    async def unsubscribe(self) -> None:
        """Drop the subscription or the assigned partitions, and leave the group."""
        engine = self.engine
        if self._group is not None:
            if engine.subscription.shared:
                await self._group.unsubscribe()
                return
            self._group.let_go()
        with self._shared.lock:
            self._shared.positions.assign(())
        engine.subscribe(NOTHING)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        with self._shared.lock:
            return set(self._shared.positions.partitions)

    def subscription(self) -> set[str]:
        """Return the topics that it has subscribed to; with a pattern, those that match it now."""
        if self._group is not None:
            return self._group.topics
        return set(self.engine.subscribed_topics)

    def _needed_group(self) -> Participation:
        _ = self.engine
        if self._group is None:
            raise ConfigError(NEEDS_GROUP)
        return self._group

    @property
    def _now_ms(self) -> float:
        if self._engine is None:
            raise ClientError(NOT_STARTED)
        return self._engine.cluster.clock.monotonic_ms()

    def _wake_engine(self) -> None:
        self._call_on_loop(self.engine.wake)

    # -- questions -----------------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition.

        Raises KafkaError, ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        return await self._limits(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark, with read_committed the last stable offset.

        Raises KafkaError, ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        return await self._limits(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def _limits(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        found = await self._offsets_at(dict.fromkeys(arguments.topic_partitions(partitions), timestamp), timeout_ms)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, for each partition, the first offset whose timestamp is at or after the one given, in ms since 1970;
        None where there is none.

        Raises KafkaError, ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        times = arguments.by_partition(timestamps, "times")
        wanted = {tp: arguments.timestamp_ms(time) for tp, time in times.items()}
        return await self._offsets_at(wanted, timeout_ms)

    async def _offsets_at(
        self, times: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        engine = self.engine
        deadline = engine.deadline("finding offsets", timeout_ms)
        found = offsets_at(engine.cluster, times, self.config.isolation, deadline, to_read=True)
        return await deadline.bound(found)

    async def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None when there is no topic of that name.

        Raises ClientTimeout after default.api.timeout.ms.
        """
        return {one.partition for one in await self.describe_partitions(topic)} or None

    async def describe_partitions(self, topic: str) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; empty when there is no topic of that name.

        Raises ClientTimeout after default.api.timeout.ms.
        """
        wanted = [arguments.topic_name(topic)]
        view, _ = await self.engine.deadline("describing a topic").bound(self.engine.cluster.describe(wanted))
        info = view.topics.get(topic)
        return list(info.partitions) if info is not None else []

    async def topics(self) -> set[str]:
        """Return the names of all topics but Kafka's internal ones. Raises ClientTimeout after
        default.api.timeout.ms."""
        view, _ = await self.engine.deadline("listing topics").bound(self.engine.cluster.describe(None))
        return {name for name, info in view.topics.items() if not info.internal}

    async def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster's brokers are known; with `refresh`, ask for them again. Other methods do this
        themselves.

        Raises ClientTimeout after `timeout_ms` (None: default.api.timeout.ms).
        """
        cluster = self.engine.cluster
        deadline = self.engine.deadline("finding the brokers", timeout_ms)
        while refresh or not cluster.view.nodes:
            try:
                await deadline.bound(cluster.refresh())
                return
            except BrokerUnreachable as error:
                await deadline.pause_after(error)

    def bootstrap_connected(self) -> bool:
        """Tell whether a connection to some broker is open."""
        return self.engine.cluster.any_connected

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value.

        With `raw`, MetricName → an object with `value()`. Rates, averages and maxima cover metrics.num.samples windows.
        """
        with self._shared.lock:
            states = list(self._shared.positions.partitions.values())
        lags = [max(0, one.high_watermark - one.position) for one in states if one.located and one.high_watermark >= 0]
        counted: metrics.Figures = {
            "consumer-coordinator-metrics": {"assigned-partitions": len(states)},
            "consumer-fetch-manager-metrics": {
                "records-consumed-total": self._buffer.records_taken,
                "records-lag-max": max(lags, default=0),
            },
        }
        figures = metrics.merged([self.engine.cluster.figures("consumer-metrics"), counted])
        return metrics.raw(figures) if raw else figures
