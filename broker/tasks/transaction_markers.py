"""WriteTxnMarkers: takes the ends of transactions to the leaders of their partitions until each has its marker.

One request at a time to each broker, this one included, with everything that waits for it. What was not written, or of
which nobody knows, is sent again, to whoever leads by then: a marker may be written twice, which harms nobody. Source:
TransactionMarkerChannelManager.scala, TransactionMarkerRequestCompletionHandler.scala.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from odradek.broker.cluster.metadata_cache import MetadataCache, Node
from odradek.broker.cluster.peer import Peer
from odradek.broker.replication.fetcher_manager import PeerFactory
from odradek.broker.transactions.pending_markers import PendingMarkers
from odradek.broker.transactions.transaction_state import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.world.clock import Clock

log = logging.getLogger(__name__)

VERSION = 1
RETRY_BACKOFF_MS = 50.0
REQUEST_TIMEOUT_MS = 40_000.0
"""Longer than the leader waits for its replicas."""
PARTITIONS_MAX = 1000
"""In one request."""

WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator has been there: it sees to the rest."""

Marker = tuple[PendingMarkers, TopicPartition]


class TransactionMarkers:
    """What waits for each broker, and what waits until a partition has a leader."""

    def __init__(
        self, broker_id: int, metadata: MetadataCache, clock: Clock, connect: PeerFactory, listener: str
    ) -> None:
        self._broker_id, self._metadata, self._clock = broker_id, metadata, clock
        self._connect, self._listener = connect, listener
        self._waiting: dict[Node, list[Marker]] = defaultdict(list)
        self._peers: dict[Node, Peer] = {}
        self._tasks: dict[Node, asyncio.Task[None]] = {}
        self._closed = False

    def send(self, pending: PendingMarkers) -> None:
        """Returns at once. Of at least one partition."""
        self._route([(pending, partition) for partition in pending.remaining])

    def close(self) -> None:
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        for peer in self._peers.values():
            peer.close()

    def _route(self, markers: Iterable[Marker]) -> None:
        """To the leaders, and those without one again later."""
        leaderless = []
        for pending, (topic, index) in markers:
            if pending.cancelled or self._closed:
                continue
            node = self._metadata.leader_node(topic, index, self._listener)
            if node is not None:
                self._waiting[node].append((pending, (topic, index)))
                if node not in self._tasks:
                    self._tasks[node] = asyncio.get_running_loop().create_task(self._empty(node))
            elif self._metadata.brokers and self._metadata.partition(topic, index) is None:
                pending.written((topic, index))  # it has been deleted
            else:
                leaderless.append((pending, (topic, index)))
        self._again(leaderless)

    def _again(self, markers: list[Marker]) -> None:
        if markers:
            self._clock.call_later(RETRY_BACKOFF_MS, partial(self._route, markers))

    async def _empty(self, node: Node) -> None:
        """Send until nothing waits for the broker any more."""
        while waiting := [one for one in self._waiting.pop(node, ()) if not one[0].cancelled]:
            sent, later = waiting[:PARTITIONS_MAX], waiting[PARTITIONS_MAX:]
            if later:
                self._waiting[node] = later
            try:
                response = await self._peer(node).request(request_of(sent), VERSION, REQUEST_TIMEOUT_MS)
            except (OSError, TimeoutError) as error:
                log.info("markers for broker %d: %s", node.id, error)
                self._again(sent)
                continue
            assert isinstance(response, WriteTxnMarkersResponse)
            self._answered(sent, response)
        del self._tasks[node]

    def _peer(self, node: Node) -> Peer:
        if node not in self._peers:
            for former in [one for one in self._peers if one.id == node.id]:
                self._peers.pop(former).close()
            self._peers[node] = self._connect(node, f"transaction-markers-{self._broker_id}")
        return self._peers[node]

    def _answered(self, sent: list[Marker], response: WriteTxnMarkersResponse) -> None:
        errors = {
            (marker.producer_id, topic.name, result.partition_index): ErrorCode(result.error_code)
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
                log.info("producer %d: markers are left to a newer coordinator: %s", pending.producer.id, error)
                pending.cancelled = True
            else:
                failed.append((pending, partition))
        self._again(failed)


def request_of(markers: Iterable[Marker]) -> WriteTxnMarkersRequest:
    """One marker for each transaction, with its partitions by topic."""
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
