"""Asks brokers for records, one request at a time to each, and hands on what comes.

For a consumer and for a connector's streams alike. What to ask for is decided in fetching.py, what an answer means in
verdicts.py. On the loop.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import AbstractContextManager
from typing import Any, Protocol

from odradek.client.calls import FETCH_CONNECTION
from odradek.client.cluster import Cluster
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetching import Asked, FetchCall, partitions_of, plan_fetches
from odradek.client.consumer.positions import Positions
from odradek.client.consumer.verdicts import Arrived, AskAgain, NothingNew, OutOfRange, Refused, Verdict, judge
from odradek.client.errors import BrokerUnreachable, NoOffsetForPartition
from odradek.client.records import TopicPartition
from odradek.protocol.errors import error_code
from odradek.protocol.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)


class Receiver(Protocol):
    """Takes what fetches bring. Everything but `notify` is called with its lock held."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Guards positions and what waits to be read."""

    @property
    def positions(self) -> Positions:
        """The partitions that are read."""

    @property
    def chunks(self) -> Mapping[TopicPartition, Sized]:
        """Return what waits to be read, by partition: one that holds enough is not asked for."""

    def keep(self, chunk: Chunk) -> None:
        """Take records of a partition."""

    def holds(self, partition: TopicPartition) -> bool:
        """Tell whether records of a partition wait to be read."""

    def refuse(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """Tell the application of an error in some partitions."""

    def notify(self) -> None:
        """Tell whoever waits that something may have come."""


class Fetcher:
    """Fetches for one receiver."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        receiver: Receiver,
        reset: Callable[[TopicPartition], object],
        size_setting: str = "max.partition.fetch.bytes",
    ) -> None:
        """`reset` lets a partition start anew by auto.offset.reset, or raises NoOffsetForPartition.

        `size_setting` is the user's name of the setting that bounds a partition's part of an answer.
        """
        self._cluster = cluster
        self._settings = settings
        self._receiver = receiver
        self._reset = reset
        self._limit = f"{size_setting}={settings.max_partition_fetch_bytes}"
        self._asking: set[int] = set()

    def due(self, now_ms: float) -> list[FetchCall]:
        """Return requests to send now; whoever gets them calls `fetch` with each. With the lock."""
        positions, view = self._receiver.positions, self._cluster.view
        calls = plan_fetches(positions, self._receiver.chunks, view, self._may_ask, self._settings, now_ms)
        for call in calls:
            self._asking.add(call.node_id)
            for topic_partition in call.asked:
                positions.partitions[topic_partition].fetching = True
        return calls

    def _may_ask(self, node_id: int) -> bool:
        return node_id not in self._asking

    async def fetch(self, call: FetchCall) -> None:
        """Send a request, and hand on what comes. Whatever goes wrong, its partitions are asked for again."""
        try:
            answer = await self._cluster.request(
                call.node_id,
                call.request,
                FetchResponse,
                timeout_ms=self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms,
                purpose=FETCH_CONNECTION,
                highest_version=call.highest_version,
            )
            self._take(call, answer)
        except BrokerUnreachable as error:
            logger.info("consumer %s: %s", self._settings.client_id, error)
            self._not_answered(call)
        except Exception as error:  # noqa: BLE001 - the application gets it
            self._not_answered(call)
            with self._receiver.lock:
                self._receiver.refuse(call.asked, error)
        finally:
            self._asking.discard(call.node_id)
            self._receiver.notify()

    def _not_answered(self, call: FetchCall) -> None:
        self._cluster.needs.stale()
        pause_ms = max(self._settings.retry_backoff_ms, self._cluster.ready_in_ms(call.node_id, FETCH_CONNECTION))
        with self._receiver.lock:
            for topic_partition, asked in call.asked.items():
                self._pause(topic_partition, asked, pause_ms)

    def _pause(self, topic_partition: TopicPartition, asked: Asked, pause_ms: float) -> None:
        until_ms = self._cluster.clock.monotonic_ms() + pause_ms
        self._receiver.positions.pause(topic_partition, asked.version, until_ms)

    def _take(self, call: FetchCall, answer: FetchResponse) -> None:
        if answer.error_code:
            logger.info("consumer %s: fetch: %s", self._settings.client_id, error_code(answer.error_code).name)
            self._not_answered(call)
            return
        data = partitions_of(call, answer)
        with self._receiver.lock:
            for topic_partition, asked in call.asked.items():
                state = self._receiver.positions.partitions.get(topic_partition)
                if state is None or state.version != asked.version:
                    continue
                if topic_partition not in data:
                    self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
                    continue
                state.fetching = False
                state.high_watermark = data[topic_partition].high_watermark
                verdict = judge(topic_partition, asked, data[topic_partition], self._settings.isolation, self._limit)
                self._obey(topic_partition, asked, verdict)

    def _obey(self, topic_partition: TopicPartition, asked: Asked, verdict: Verdict) -> None:
        """With the lock."""
        match verdict:
            case NothingNew():
                return
            case Arrived(chunk):
                self._receiver.positions.partitions[topic_partition].fetch_offset = chunk.next_offset
                self._receiver.keep(chunk)
            case OutOfRange():
                self._out_of_range(topic_partition, asked)
            case AskAgain():
                self._cluster.needs.stale()
                self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            case Refused(error):
                self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
                self._receiver.refuse([topic_partition], error)

    def _out_of_range(self, topic_partition: TopicPartition, asked: Asked) -> None:
        """Start anew, once the records from before are read: what was asked for is not there, or not any more."""
        if self._receiver.holds(topic_partition):
            self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            return
        try:
            self._reset(topic_partition)
        except NoOffsetForPartition as error:
            self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
            self._receiver.refuse([topic_partition], error)
            return
        logger.warning(
            "consumer %s: %s: offset %d is out of range: starting by auto.offset.reset",
            self._settings.client_id,
            topic_partition,
            asked.offset,
        )
