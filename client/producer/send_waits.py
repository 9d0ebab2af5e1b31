"""Waits of a send: for its topic's metadata (Kafka: waitOnMetadata), and for memory (Kafka: BufferPool), on a loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from odradek.client.arguments import topic_name
from odradek.client.calls import within
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerUnreachable, BufferExhausted, ClientError, ClientTimeout
from odradek.client.metadata import REFUSED
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.config import ProducerConfig
from odradek.client.records import TopicPartition
from odradek.client.waiting import sleep_ms
from odradek.protocol.errors import KafkaError

Queued = TypeVar("Queued")
Queue = Callable[[Callable[[], object]], Queued | None]
"""Queues the record of a sender that waits for memory, identified by the function that wakes it. Returns None when the
sender has to wait on."""


class Engine(Protocol):
    """A producer's engine, as far as sends wait for it."""

    cluster: Cluster
    config: ProducerConfig
    accumulator: Accumulator

    def check_open(self) -> None:
        """Raise ClientClosed or ClientBroken when it has ended."""

    def wake(self) -> None:
        """Plan again soon."""


class SendWaits:
    """The sends of one producer that cannot be queued at once."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine whose sends these are."""
        self._engine = engine

    # -- memory --------------------------------------------------------------------------------------------------------

    def memory_freed(self) -> None:
        """Wake the sender that has waited longest for memory. When it stops waiting, the next one is woken."""
        waiters = self._engine.accumulator.memory_waiters
        while waiters:
            try:
                wake = next(iter(waiters))
            except (StopIteration, RuntimeError):  # another thread has just come or gone: look again
                continue
            wake()
            return

    async def until_queued(
        self, queue: Queue[Queued], place: TopicPartition, needed_bytes: int, wait_ms: float
    ) -> Queued:
        """Call `queue` until it returns something, each time that memory is free, and return that.

        Memory goes to the sender that has waited longest, as in Kafka. Raises BufferExhausted after `wait_ms`, and what
        `queue` raises.
        """
        woken, is_over = asyncio.Event(), wait_ms <= 0

        def end() -> None:  # a flag, and no look at the clock, by which a timer may come a moment too early
            nonlocal is_over
            is_over = True
            woken.set()

        timer = self._engine.cluster.clock.call_later(wait_ms, end)
        waiters, wake = self._engine.accumulator.memory_waiters, woken.set
        try:
            waiters[wake] = needed_bytes
            self._engine.wake()
            while (queued := queue(wake)) is None:
                if is_over:
                    raise self._full(place)
                await woken.wait()
                woken.clear()
        finally:
            waiters.pop(wake, None)
            self.memory_freed()
            timer.cancel()
        return queued

    def wait_until_queued(
        self,
        queue: Queue[Queued],
        place: TopicPartition,
        needed_bytes: int,
        wait_ms: float,
        wake_sender: Callable[[], object],
    ) -> Queued:
        """Block the calling thread, which is not the loop's, until there is memory; as `until_queued` does on the loop.

        `wake_sender` may be called from that thread. An application that sends faster than brokers take records waits
        once for each request: waiting for a coroutine of the loop would cost several times as much.
        """
        clock, woken = self._engine.cluster.clock, SimpleQueue[None]()
        deadline_ms = clock.monotonic_ms() + wait_ms
        waiters, wake = self._engine.accumulator.memory_waiters, partial(woken.put, None)
        try:
            waiters[wake] = needed_bytes  # inside the try: Ctrl-C may come at any time
            wake_sender()
            while (queued := queue(wake)) is None:
                if clock.monotonic_ms() >= deadline_ms:
                    raise self._full(place)
                left_s = max(0.0, deadline_ms - clock.monotonic_ms()) / 1000
                with suppress(Empty):
                    woken.get(timeout=min(left_s, threading.TIMEOUT_MAX))  # max.block.ms may be 2^63-1
        finally:
            waiters.pop(wake, None)  # first: left there by Ctrl-C, it alone would be woken from then on
            self.memory_freed()
        return queued

    def _full(self, place: TopicPartition) -> BufferExhausted:
        config = self._engine.config
        return BufferExhausted(
            f"{place}: buffer.memory={config.buffer_memory} was full for max.block.ms={config.max_block_ms}: "
            "the brokers take records slower than they are sent"
        )

    # -- metadata ------------------------------------------------------------------------------------------------------

    async def await_topic(self, topic: str, partition: int | None, max_wait_ms: float) -> None:
        """Wait until a topic (and one partition of it) is known.

        Raises TypeError, ConfigError (not a topic's name), ClientTimeout, KafkaError; NoBrokerReachable at once when no
        broker accepts the login.
        """
        topic_name(topic)
        engine, cluster = self._engine, self._engine.cluster
        deadline_ms = cluster.clock.monotonic_ms() + max_wait_ms
        failure: ClientError | None = None
        while True:
            engine.check_open()
            cluster.needs.want(topic, cluster.clock.monotonic_ms())
            failure = await self._refresh(max(0.0, deadline_ms - cluster.clock.monotonic_ms()), failure)
            if isinstance(failure, BrokerUnreachable) and failure.login_refused:
                raise failure.with_traceback(None)
            info = cluster.view.topics.get(topic)
            if info is not None and info.error in REFUSED:
                raise KafkaError(info.error, f"topic {topic}")
            count = cluster.view.partition_count(topic)
            if count and (partition is None or partition < count):
                return
            left_ms = max(0.0, deadline_ms - cluster.clock.monotonic_ms())
            await sleep_ms(cluster.clock, min(left_ms, engine.config.retry_backoff_ms))
            if left_ms <= engine.config.retry_backoff_ms:
                raise ClientTimeout(_unknown(topic, partition, count, max_wait_ms, failure))

    async def _refresh(self, longest_ms: float, before: ClientError | None) -> ClientError | None:
        """Wait at most `longest_ms` for metadata; a request that others began may take longer than that.

        Returns what went wrong, None if nothing did. If no answer came in time, that is `before`, the previous failure,
        if there was one.
        """
        cluster, silence = self._engine.cluster, ClientTimeout(f"no broker has answered yet: {_asked(self._engine)}")
        try:
            await within(cluster, "metadata", cluster.refresh(), longest_ms, lambda: silence)
        except BrokerUnreachable as error:
            return error
        except ClientTimeout:
            return before or silence
        return None


def _asked(engine: Engine) -> str:
    return ", ".join(engine.cluster.config.bootstrap_servers)


def _unknown(topic: str, partition: int | None, count: int, waited_ms: float, failure: Exception | None) -> str:
    waited = f"after waiting max.block.ms={waited_ms:g}"
    if failure is not None:
        return f"topic {topic}: no metadata {waited}: {failure}"
    if not count:
        return f"topic {topic}: the cluster does not have it, {waited}: create it, or check its name"
    return f"partition {partition} of topic {topic}: the topic has only {count} partitions (0-{count - 1}), {waited}"
