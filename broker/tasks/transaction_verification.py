"""Asks the coordinator of a transaction whether it has begun, before the first batch of it is taken (KIP-890).

Without that a record that comes late, after its transaction has ended, would begin another one that nobody ends, and
hold back all readers of committed data. Source: AddPartitionsToTxnManager.scala.
"""

import logging
from collections.abc import Collection

from odradek.broker.cluster.metadata_cache import TRANSACTION_STATE, MetadataCache, Node
from odradek.broker.cluster.peer import Peer
from odradek.broker.replication.fetcher_manager import PeerFactory
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import ProducerIdentity, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

log = logging.getLogger(__name__)

VERSION = 4
"""What is not part of the transaction is INVALID_TXN_STATE."""
REQUEST_TIMEOUT_MS = 30_000.0

TOLD: dict[ErrorCode, ErrorCode] = {
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""What a producer is told: it sends the batch again on NOT_ENOUGH_REPLICAS. Other errors are passed on."""

Verdicts = dict[TopicPartition, ErrorCode]


class TransactionVerification:
    """One connection to each coordinator."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        connect: PeerFactory,
        listener: str,
        coordinator: TransactionCoordinator,
    ) -> None:
        self._broker_id, self._metadata = broker_id, metadata
        self._connect, self._listener = connect, listener
        self._coordinator = coordinator
        self._peers: dict[int, tuple[Node, Peer]] = {}

    def close(self) -> None:
        for _, peer in self._peers.values():
            peer.close()

    async def ask(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Verdicts:
        """For each partition NONE, or what the producer is to be told."""
        index = self._coordinator.partition_for(transactional_id)
        node = self._metadata.leader_node(TRANSACTION_STATE, index, self._listener)
        if node is None:
            verdicts = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif node.id == self._broker_id:
            verify, not_in_it = self._coordinator.verify, ErrorCode.INVALID_TXN_STATE
            verdicts = {at: verify(transactional_id, producer, at, not_in_it) for at in partitions}
        else:
            verdicts = await self._ask_elsewhere(node, transactional_id, producer, partitions)
        return {at: TOLD.get(error, error) for at, error in verdicts.items()}

    async def _ask_elsewhere(
        self, node: Node, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Verdicts:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()],
        )
        try:
            request = AddPartitionsToTxnRequest(transactions=[asked])
            response = await self._peer(node).request(request, VERSION, REQUEST_TIMEOUT_MS)
        except (OSError, TimeoutError) as error:
            log.info("coordinator %d of %s: %s", node.id, transactional_id, error)
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AddPartitionsToTxnResponse)
        unanswered = ErrorCode(response.error_code) or ErrorCode.NETWORK_EXCEPTION
        return dict.fromkeys(partitions, unanswered) | {
            (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for one in topic.results_by_partition
        }

    def _peer(self, node: Node) -> Peer:
        known = self._peers.get(node.id)
        if known is not None and known[0] == node:
            return known[1]
        if known is not None:
            known[1].close()
        peer = self._connect(node, f"transaction-verification-{self._broker_id}")
        self._peers[node.id] = (node, peer)
        return peer
