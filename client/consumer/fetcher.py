"""Fetcher: asks brokers for records, one request at a time to each, and passes on the answers.

It serves a consumer, or the streams of a ConsumerConnector, on the event loop. fetch_requests.py decides what to ask
for, and what an answer means.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from odradek.client.calls import FETCH_CONNECTION
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.consumer.chunks import Chunk
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.fetch_requests import (
    Arrived,
    AskAgain,
    Asked,
    Diverged,
    FetchCall,
    NothingNew,
    OutOfRange,
    ReadFrom,
    Refused,
    Verdict,
    epochs_request,
    judge,
    judge_epochs,
    last_request,
    out_of_step,
    partitions_of,
    plan_fetches,
    unvalidated,
)
from odradek.client.consumer.positions import Positions
from odradek.client.errors import BrokerUnreachable, LogTruncated, NoOffsetForPartition
from odradek.client.records import TopicPartition
from odradek.client.sensors import FetchSensors
from odradek.client.waiting import grown_ms
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.fetch_session import NO_SESSION, FetchSessionHandler
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

logger = logging.getLogger(__name__)
END_SESSIONS_MS = 500.0
"""Time that a closing client waits for brokers to end its fetch sessions."""
OUT_OF_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
FIRST_FETCH_WITH_EPOCHS = 12
FIRST_EPOCHS_FOR_CONSUMERS = 3
"""First version of OffsetForLeaderEpoch for which the right to read a topic is enough (KIP-320)."""


class Receiver(Protocol):
    """Takes the results of fetches. Its `lock` must be held for everything but `notify`."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Return the lock of positions and chunks."""

    @property
    def positions(self) -> Positions:
        """Return the positions of the partitions that are read."""

    @property
    def chunks(self) -> Mapping[TopicPartition, Sized]:
        """Return the chunks that wait to be read, by partition; a partition that has enough is not asked for."""

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
        truncate: Callable[[TopicPartition, int, int], object],
        size_setting: str = "max.partition.fetch.bytes",
    ) -> None:
        """`reset(partition)` makes a partition start as auto.offset.reset says, or raises NoOffsetForPartition.

        `truncate(partition, offset, epoch)` makes it go on at an offset, before which the leader has that epoch, or
        raises LogTruncated. `size_setting` is the user's name of the setting that bounds a partition's part of an
        answer.
        """
        self._cluster = cluster
        self._settings = settings
        self._receiver = receiver
        self._reset = reset
        self._truncate = truncate
        self._limit = f"{size_setting}={settings.max_partition_fetch_bytes}"
        self._sessions: dict[int, FetchSessionHandler[TopicPartition, Asked]] = {}
        self._asking: set[int] = set()
        self._sensors = FetchSensors(cluster.metrics)

    def due(self, now_ms: float) -> list[FetchCall]:
        """Return requests to send now; whoever gets them calls `fetch` with each. With the lock."""
        receiver = self._receiver
        calls = plan_fetches(
            receiver.positions,
            receiver.chunks,
            self._cluster.view,
            self._sessions,
            self._asking,
            self._settings,
            now_ms,
        )
        self._asking.update(call.node_id for call in calls)
        return calls

    async def fetch(self, call: FetchCall) -> None:
        """Send a request, and pass on the answer. Whatever goes wrong, its partitions are asked for again later."""
        timeout_ms = self._settings.request_timeout_ms
        try:
            connection = await self._cluster.connection(call.node_id, FETCH_CONNECTION)
            invalid = await self._validate(connection, call)
            began_ms = self._cluster.clock.monotonic_ms()
            answer = await connection.request(
                call.request,
                FetchResponse,
                timeout_ms + self._settings.fetch_max_wait_ms,
                highest_version=call.highest_version,
            )
            size = sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)
            self._sensors.answered(self._cluster.clock.monotonic_ms() - began_ms, size, answer.throttle_time_ms)
            self._take(call, answer, invalid)
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

    async def _validate(self, connection: Connection, call: FetchCall) -> set[TopicPartition]:
        """Ask a broker that does not compare epochs in a Fetch (before Kafka 2.7) where they end, once for each leader.

        Returns the partitions whose positions it does not confirm; their part of the Fetch's answer no longer counts.
        Raises BrokerUnreachable.
        """
        served = connection.served
        if served.get(FetchRequest.API_KEY, (0, 0))[1] >= FIRST_FETCH_WITH_EPOCHS:
            return set()
        if served.get(OffsetForLeaderEpochRequest.API_KEY, (0, 0))[1] < FIRST_EPOCHS_FOR_CONSUMERS:
            return set()
        with self._receiver.lock:
            asked = unvalidated(call, self._receiver.positions)
        if not asked:
            return set()
        request = epochs_request(asked)
        answer = await connection.request(request, OffsetForLeaderEpochResponse, self._settings.request_timeout_ms)
        verdicts = judge_epochs(asked, answer)
        with self._receiver.lock:
            for topic_partition, verdict in verdicts.items():
                state = self._receiver.positions.partitions.get(topic_partition)
                if state is None or state.version != asked[topic_partition].version:
                    continue
                if verdict is None:
                    state.valid_in = asked[topic_partition].leader_epoch
                else:
                    self._obey(topic_partition, asked[topic_partition], verdict)
        return {topic_partition for topic_partition in asked if verdicts.get(topic_partition) is not None}

    def _not_answered(self, call: FetchCall) -> None:
        self._sessions[call.node_id].begin_anew()
        self._cluster.needs.stale()
        ready_in_ms = self._cluster.ready_in_ms(call.node_id, FETCH_CONNECTION)
        with self._receiver.lock:
            for topic_partition, asked in call.asked.items():
                self._to_leader(topic_partition, asked)
                self._ask_again(topic_partition, asked, ready_in_ms)

    def _to_leader(self, topic_partition: TopicPartition, asked: Asked) -> bool:
        """Have the leader asked the next time; tell whether another replica was asked this time. With the lock."""
        state = self._receiver.positions.partitions.get(topic_partition)
        if state is None or state.version != asked.version or state.replica < 0:
            return False
        state.replica = -1
        return True

    def _pause(self, topic_partition: TopicPartition, asked: Asked, pause_ms: float) -> None:
        until_ms = self._cluster.clock.monotonic_ms() + pause_ms
        self._receiver.positions.pause(topic_partition, asked.version, until_ms)

    def _ask_again(self, topic_partition: TopicPartition, asked: Asked, at_least_ms: float = 0.0) -> None:
        """Pause, each time for longer, until the leader answers or another one leads (KIP-580). With the lock."""
        state = self._receiver.positions.partitions.get(topic_partition)
        if state is None or state.version != asked.version:
            return
        state.failures = state.failures + 1 if state.failed_in == asked.leader_epoch else 1
        settings = self._settings  # no jitter: partitions of one request are asked for together again
        pause_ms = grown_ms(settings.retry_backoff_ms, settings.retry_backoff_max_ms, state.failures)
        until_ms = self._cluster.clock.monotonic_ms() + max(pause_ms, at_least_ms)
        self._receiver.positions.pause(topic_partition, asked.version, until_ms, asked.leader_epoch)

    def _take(self, call: FetchCall, answer: FetchResponse, invalid: Collection[TopicPartition]) -> None:
        session = self._sessions[call.node_id]
        if answer.error_code:
            self._refused(call, error_code(answer.error_code))
            return
        data = partitions_of(call, answer)
        session.answered(answer.session_id)
        if difference := out_of_step(call, answer, data):
            logger.info("consumer %s: fetch from broker %d: %s", self._settings.client_id, call.node_id, difference)
            session.begin_anew()
        with self._receiver.lock:
            for topic_partition, one in data.items():
                asked = call.asked[topic_partition]
                state = self._receiver.positions.partitions.get(topic_partition)
                if state is None:
                    continue
                state.high_watermark = one.high_watermark  # within a session it does not come again
                if state.version == asked.version and topic_partition not in invalid:
                    verdict = judge(topic_partition, asked, one, self._settings.isolation, self._limit)
                    if not isinstance(verdict, AskAgain):
                        state.failures = 0
                    self._obey(topic_partition, asked, verdict)
            if call.names_all and len(data) < len(call.asked):
                for topic_partition in call.asked.keys() - data.keys():
                    self._ask_again(topic_partition, call.asked[topic_partition])

    def _refused(self, call: FetchCall, error: ErrorCode) -> None:
        """Begin a new session. There is no pause if only the session was refused, as the next Fetch then differs."""
        logger.info("consumer %s: fetch: %s", self._settings.client_id, error.name)
        self._sessions[call.node_id].refused(error)
        if error not in OUT_OF_SESSION or call.names_all:
            self._not_answered(call)
        elif error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
            self._cluster.needs.stale()

    async def end_sessions(self, timeout_ms: float) -> None:
        """End the sessions with brokers to which a connection is free; the others expire at the brokers.

        All `fetch` calls must have ended, or been cancelled. Kafka: AbstractFetch.maybeCloseFetchSessions.
        """
        endings = []
        for node_id, session in self._sessions.items():
            connection = self._cluster.free_connection(node_id) if session.id != NO_SESSION else None
            if connection is not None:
                ending = partial(connection.request, last_request(session), FetchResponse, timeout_ms)
                endings.append(self._cluster.tasks.result_of("end a fetch session", ending))
        self._sessions.clear()
        await asyncio.gather(*endings, return_exceptions=True)

    def _obey(self, topic_partition: TopicPartition, asked: Asked, verdict: Verdict) -> None:
        """Carry out a verdict on a partition's part of an answer. The lock must be held."""
        match verdict:
            case NothingNew():
                return
            case Arrived(chunk):
                state = self._receiver.positions.partitions[topic_partition]
                state.fetch_offset, state.fetch_epoch = chunk.next_offset, chunk.last_epoch
                self._receiver.keep(chunk)
            case OutOfRange():
                if self._to_leader(topic_partition, asked):  # the leader may have what a follower lacks
                    self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
                else:
                    self._out_of_range(topic_partition, asked)
            case ReadFrom(replica) if replica not in self._cluster.view.nodes:  # it may just have started
                self._cluster.needs.stale()
                self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            case ReadFrom(replica):
                state = self._receiver.positions.partitions[topic_partition]
                state.replica = replica
                state.replica_until_ms = self._cluster.clock.monotonic_ms() + self._settings.metadata_max_age_ms
            case Diverged(offset, epoch):
                self._diverged(topic_partition, asked, offset, epoch)
            case AskAgain():
                self._cluster.needs.stale()
                self._to_leader(topic_partition, asked)
                self._ask_again(topic_partition, asked)
            case Refused(error):
                self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
                self._receiver.refuse([topic_partition], error)

    def _out_of_range(self, topic_partition: TopicPartition, asked: Asked) -> None:
        """Reset a partition whose next offset is not in the log, once the records fetched before are read."""
        decoded = self._receiver.positions.partitions[topic_partition].has_ahead
        if decoded or self._receiver.holds(topic_partition):
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

    def _diverged(self, topic_partition: TopicPartition, asked: Asked, offset: int, epoch: int) -> None:
        """Go on where the leader's log differs, once the records fetched before are read. With the lock."""
        if self._receiver.holds(topic_partition):
            self._pause(topic_partition, asked, self._settings.retry_backoff_ms)
            return
        try:
            self._truncate(topic_partition, offset, epoch)
        except LogTruncated as error:
            self._pause(topic_partition, asked, self._settings.retry_backoff_max_ms)
            self._receiver.refuse([topic_partition], error)
            return
        logger.warning(
            "consumer %s: %s: the leader's log diverges at offset %d from what was read up to %d: continuing there",
            self._settings.client_id,
            topic_partition,
            offset,
            asked.offset,
        )
