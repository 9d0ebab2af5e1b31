"""WriteTxnMarkers: takes the ends of transactions to the leaders of their partitions until each has its marker.

Several requests may be under way to each broker, this one included, each with everything that waited for it. If there
were only one, partitions whose followers hang would hold up all others, as a leader answers when all of a request is
replicated. A marker that was not written, or may not have been, is sent again, to whoever leads by then: a marker that
is written twice does no harm. Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode, error_code
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.topic_names import PartitionKey
from odradek.world.clock import Clock
from odradek.world.tasks import OnDeath, Tasks

if TYPE_CHECKING:
    from odradek.broker.cluster.broker_client import BrokerClients

log = logging.getLogger(__name__)

VERSION = 1
RETRY_BACKOFF_MS = 50.0
RETRY_AFTER_A_BUG_MS = 5_000.0
ANSWER_GRACE_MS = 10_000.0
"""Time that the coordinator waits for a leader's answer beyond the time that the leader waits for its replicas."""
PARTITIONS_MAX = 1000
"""Most partitions in one request."""
LANES = 8
"""Requests that may be under way to one broker, each on a connection of its own. A partition keeps to one lane."""

WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors that tell of a newer coordinator, which sees to the rest."""


@dataclass(eq=False, slots=True)
class PendingMarkers:
    """A transaction whose end is decided, and the partitions (`remaining`) that have no marker of it yet.

    `done` is called once, when a marker is in every partition, unless it was `over` before.
    """

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    remaining: set[PartitionKey]
    done: Callable[[], object]
    over: bool = False
    """True when no more markers are to be sent: all have been written, or another coordinator sees to it now."""

    def written(self, partition: PartitionKey) -> None:
        """Note that the partition has its marker, or is gone; after the last one call `done`."""
        self.remaining.discard(partition)
        if not self.remaining and not self.over:
            self.over = True
            self.done()


class MarkerSender(Protocol):
    """Sends markers to the leaders of partitions, as often as it takes."""

    def send(self, pending: PendingMarkers) -> None:
        """Begin to send markers to all of `pending.remaining`, at least one partition. Returns at once."""


class _Lane(NamedTuple):
    broker_id: int
    number: int


Marker = tuple[PendingMarkers, PartitionKey]


class TransactionMarkers:
    """Sender of markers to the leaders of partitions: again if one is not written, later if there is no leader."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        clock: Clock,
        clients: "BrokerClients",
        tasks: Tasks,
        request_timeout_ms: int,
    ) -> None:
        """`request_timeout_ms` is how long a leader waits for its replicas (`request.timeout.ms`)."""
        self._metadata, self._clock, self._tasks = metadata, clock, tasks
        self._clients = [clients(f"transaction-markers-{broker_id}-{lane}") for lane in range(LANES)]
        self._timeout_ms = request_timeout_ms + ANSWER_GRACE_MS
        self._waiting: dict[_Lane, list[Marker]] = defaultdict(list)
        self._busy: set[_Lane] = set()
        self._closed = False

    def send(self, pending: PendingMarkers) -> None:
        """Have the markers written to all partitions that remain; `pending.written` hears of each."""
        self._enqueue([(pending, partition) for partition in sorted(pending.remaining)])

    def close(self) -> None:
        """Give up all that is under way. Harmless twice."""
        self._closed = True
        for client in self._clients:
            client.close()

    def _enqueue(self, markers: Iterable[Marker]) -> None:
        """Put markers into lanes of their partitions' leaders; those of partitions without a leader are put off."""
        leaderless = []
        lanes: dict[_Lane, None] = {}
        for pending, (topic, index) in markers:
            if pending.over or self._closed:
                continue
            state = self._metadata.partition(topic, index)
            if state is not None and self._metadata.is_alive(state.leader):
                lane = _Lane(state.leader, (crc32(topic.encode()) + index) % LANES)
                self._waiting[lane].append((pending, (topic, index)))
                lanes[lane] = None
            elif self._metadata.is_deleted(topic, index):
                pending.written((topic, index))
            else:
                leaderless.append((pending, (topic, index)))
        self._retry_later(leaderless, RETRY_BACKOFF_MS)
        for lane in lanes:
            if lane not in self._busy:
                self._busy.add(lane)
                self._tasks.spawn(f"markers for broker {lane.broker_id}", partial(self._drain, lane), OnDeath.REPORT)

    def _retry_later(self, markers: list[Marker], pause_ms: float) -> None:
        if markers and not self._closed:
            self._clock.call_later(pause_ms, partial(self._enqueue, markers))

    async def _drain(self, lane: _Lane) -> None:
        """Send until nothing waits in the lane any more."""
        sent: list[Marker] = []
        try:
            while waiting := [one for one in self._waiting.pop(lane, ()) if not one[0].over]:
                sent, later = waiting[:PARTITIONS_MAX], waiting[PARTITIONS_MAX:]
                if later:
                    self._waiting[lane] = later
                self._retry_later(await self._send(lane, sent), RETRY_BACKOFF_MS)
                sent = []
        finally:
            self._busy.discard(lane)
            self._retry_later(sent + self._waiting.pop(lane, []), RETRY_AFTER_A_BUG_MS)

    async def _send(self, lane: _Lane, sent: list[Marker]) -> list[Marker]:
        """Send one request; return what has to be sent again."""
        client = self._clients[lane.number]
        try:
            response = await client.to_broker(lane.broker_id, request_of(sent), VERSION, self._timeout_ms)
        except OSError as unreachable:
            log.info("markers of transactions for broker %d are sent again: %s", lane.broker_id, unreachable)
            return sent
        assert isinstance(response, WriteTxnMarkersResponse)
        errors = {
            (marker.producer_id, topic.name, result.partition_index): error_code(result.error_code)
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        failed = []
        for pending, partition in sent:
            error = errors.get((pending.producer.id, *partition))
            if error in WRITTEN:
                pending.written(partition)
            elif error in FENCED:
                log.info("producer %d: a newer coordinator sends the markers: %s", pending.producer.id, error.name)
                pending.over = True
            else:
                failed.append((pending, partition))
        return failed


def request_of(markers: Iterable[Marker]) -> WriteTxnMarkersRequest:
    """Make the request with one marker for each transaction, with its partitions by topic."""
    partitions: dict[PendingMarkers, dict[str, list[int]]] = {}
    for pending, (topic, index) in markers:
        partitions.setdefault(pending, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=pending.producer.id,
                producer_epoch=pending.producer.epoch,
                transaction_result=pending.committed,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=sorted(indexes))
                    for topic, indexes in topics.items()
                ],
                coordinator_epoch=pending.coordinator_epoch,
            )
            for pending, topics in partitions.items()
        ]
    )
