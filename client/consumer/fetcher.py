"""Asks brokers for records, one request at a time to each, and keeps what comes until the application polls.

On the loop. What to ask for and what an answer means is decided in fetching.py.
"""

import logging
from collections import deque

from odradek.client.calls import FETCH_CONNECTION
from odradek.client.cluster import Cluster
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetching import Asked, FetchCall, partitions_of, plan_fetches
from odradek.client.consumer.positions import reset_timestamp
from odradek.client.consumer.shared import Shared
from odradek.client.consumer.verdicts import Arrived, AskAgain, NothingNew, OutOfRange, Refused, Verdict, judge
from odradek.client.errors import BrokerUnreachable, NoOffsetForPartition
from odradek.client.records import TopicPartition
from odradek.protocol.errors import error_code
from odradek.protocol.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)


class Fetcher:
    """One consumer's."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, shared: Shared) -> None:
        self._cluster = cluster
        self._settings = settings
        self._shared = shared
        self._asking: set[int] = set()

    def due(self, now_ms: float) -> list[FetchCall]:
        """With the lock: requests to send now. Whoever gets them calls `fetch` with each."""
        positions, view = self._shared.positions, self._cluster.view
        calls = plan_fetches(positions, self._shared.chunks, view, self._may_ask, self._settings, now_ms)
        for call in calls:
            self._asking.add(call.node_id)
            for topic_partition in call.asked:
                positions.partitions[topic_partition].fetching = True
        return calls

    def _may_ask(self, node_id: int) -> bool:
        return node_id not in self._asking

    async def fetch(self, call: FetchCall) -> None:
        """Send it, and keep what comes."""
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
        except Exception as error:  # noqa: BLE001 - the application gets it; the partitions are asked for again
            self._not_answered(call)
            self._shared.fail(error)
        finally:
            self._asking.discard(call.node_id)

    def _not_answered(self, call: FetchCall) -> None:
        self._cluster.needs.stale()
        pause_ms = max(self._settings.retry_backoff_ms, self._cluster.ready_in_ms(call.node_id, FETCH_CONNECTION))
        with self._shared.lock:
            for topic_partition, asked in call.asked.items():
                self._pause(topic_partition, asked, pause_ms)

    def _pause(self, topic_partition: TopicPartition, asked: Asked, pause_ms: float) -> None:
        until_ms = self._cluster.clock.monotonic_ms() + pause_ms
        self._shared.positions.pause(topic_partition, asked.version, until_ms)

    def _take(self, call: FetchCall, answer: FetchResponse) -> None:
        if answer.error_code:
            logger.info("consumer %s: fetch: %s", self._settings.client_id, error_code(answer.error_code).name)
            self._not_answered(call)
            return
        data = partitions_of(call, answer)
        limit = f"max.partition.fetch.bytes={self._settings.max_partition_fetch_bytes}"
        with self._shared.lock:
            for topic_partition, asked in call.asked.items():
                state = self._shared.positions.partitions.get(topic_partition)
                if state is None or state.version != asked.version:
                    continue
                if topic_partition not in data:
                    self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
                    continue
                state.fetching = False
                state.high_watermark = data[topic_partition].high_watermark
                verdict = judge(topic_partition, asked, data[topic_partition], self._settings.isolation, limit)
                self._obey(topic_partition, asked, verdict)
        self._shared.notify()

    def _obey(self, topic_partition: TopicPartition, asked: Asked, verdict: Verdict) -> None:
        """With the lock."""
        match verdict:
            case NothingNew():
                return
            case Arrived(chunk):
                self._shared.positions.partitions[topic_partition].fetch_offset = chunk.next_offset
                self._shared.chunks.setdefault(topic_partition, deque()).append(chunk)
            case OutOfRange():
                self._out_of_range(topic_partition, asked)
            case AskAgain():
                self._cluster.needs.stale()
                self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            case Refused(error):
                self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
                self._shared.failure = error

    def _out_of_range(self, topic_partition: TopicPartition, asked: Asked) -> None:
        """What was asked for is not there (any more): by auto.offset.reset, unless records before it are still held."""
        if self._shared.chunks.get(topic_partition):
            self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            return
        policy = self._settings.auto_offset_reset
        try:
            timestamp = reset_timestamp(policy, topic_partition)
        except NoOffsetForPartition as error:
            self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
            self._shared.failure = error
            return
        logger.warning(
            "consumer %s: %s: offset %d is out of range: starting at the %s",
            self._settings.client_id,
            topic_partition,
            asked.offset,
            policy,
        )
        self._shared.positions.reset(topic_partition, timestamp)
