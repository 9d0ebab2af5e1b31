"""Verification of transactions (KIP-890): before a partition takes the first batch of a transaction, the coordinator is
asked whether the partition is part of it.

Without that a record that comes late, after its transaction has ended, would begin another one that nobody ends, and
hold back all readers of committed data. A transaction that is open in a partition's log has been verified. A marker
that is written while the coordinator is asked makes its answer worthless: it may be about the transaction that has just
ended. So the log itself looks at the guard of the verification when it begins a transaction. Source:
AddPartitionsToTxnManager.scala, ReplicaManager.maybeStartTransactionVerificationForPartitions,
UnifiedLog.analyzeAndValidateProducerState.
"""

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.log.log import Log
from odradek.broker.log.verifications import VerificationGuard
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.protocol.errors import ErrorCode, KafkaError, error_code
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.record_batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from odradek.protocol.topic_names import TRANSACTION_STATE, PartitionKey

if TYPE_CHECKING:
    from odradek.broker.cluster.broker_client import BrokerClients

log = logging.getLogger(__name__)

VERSION = 5
"""Version of AddPartitionsToTxn, in which TRANSACTION_ABORTABLE says that a partition is not part of the transaction.

Requests of producers that do not know that error are told INVALID_TXN_STATE, which is the end of the producer.
"""

RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of asking the coordinator after which it may be asked again; with the last one, its metadata is too old. Not
all clients know them from Produce or TxnOffsetCommit."""

Errors = dict[PartitionKey, ErrorCode]
Verdicts = dict[PartitionKey, ErrorCode | KafkaError | VerificationGuard]
"""Verdict on each partition: the guard to append with, or the error for which it must not be written to."""


class Unverified(NamedTuple):
    """A partition that a transaction is about to write to, and in whose log it is not open."""

    partition: PartitionKey
    producer: ProducerIdentity
    log: Log
    guard: VerificationGuard


def begin_verification(
    replicas: ReplicaManager, partition: PartitionKey, producer: ProducerIdentity, first_sequence: int = NO_SEQUENCE
) -> Unverified | None:
    """Begin a verification; None when the transaction is open in the log, or the partition is not led here.

    In the latter case the append itself will be refused.
    """
    try:
        partition_log = replicas.led(*partition).log
    except KafkaError:
        return None
    guard = partition_log.begin_verification(producer.id, producer.epoch, first_sequence)
    return None if guard is None else Unverified(partition, producer, partition_log, guard)


def begin_verifications(replicas: ReplicaManager, request: ProduceRequest) -> list[Unverified]:
    """Begin the verifications that a Produce request needs; its other faults are found when it is appended.

    Raises KafkaError INVALID_PRODUCER_ID_MAPPING when its transactional batches are of more than one producer
    (ReplicaManager.handleProduceAppend).
    """
    written = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES or not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT:
                continue
            header = BatchHeader._make(HEADER.unpack_from(records))
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            written.append(((topic.name, data.index), producer, header.base_sequence))
    if len({producer for _, producer, _ in written}) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer")
    asked = [begin_verification(replicas, *one) for one in written]
    return [one for one in asked if one is not None]


class TransactionVerification:
    """Verification by the coordinators of transactions; this broker's own is asked without a request."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        clients: "BrokerClients",
        coordinator: TransactionCoordinator,
        request_timeout_ms: int,
    ) -> None:
        self._broker_id, self._metadata, self._coordinator = broker_id, metadata, coordinator
        self._client = clients(f"transaction-verification-{broker_id}")
        self._timeout_ms = request_timeout_ms

    def close(self) -> None:
        """Give up what is under way. Harmless twice."""
        self._client.close()

    async def verify(self, transactional_id: str, asked: Sequence[Unverified]) -> Verdicts:
        """Return what is known of each partition; an error is one of RETRIED if the producer may ask again.

        The answer holds until the caller awaits something.
        """
        errors: Errors = {}
        for producer in dict.fromkeys(one.producer for one in asked):
            partitions = [one.partition for one in asked if one.producer == producer]
            errors |= await self._ask(transactional_id, producer, partitions)
        verdicts: Verdicts = {}
        for one in asked:
            error = errors[one.partition]
            if error is ErrorCode.NONE and one.log.closed:  # it may be in another log directory now
                error = ErrorCode.NETWORK_EXCEPTION
            if error is ErrorCode.NONE and not one.log.is_verified(one.producer.id, one.guard):
                error = ErrorCode.INVALID_TXN_STATE
            refused = error is not ErrorCode.NONE and error not in RETRIED
            one.log.producers.verifications.end(one.producer.id, one.guard, refused=refused)
            verdicts[one.partition] = one.guard if error is ErrorCode.NONE else error
        return verdicts

    async def _ask(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[PartitionKey]
    ) -> Errors:
        state = self._metadata.partition(TRANSACTION_STATE, self._coordinator.partition_for(transactional_id))
        if state is None:
            verdicts = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif state.leader == self._broker_id:
            verify, not_in_it = self._coordinator.verify, ErrorCode.TRANSACTION_ABORTABLE
            verdicts = {at: verify(transactional_id, producer, at, not_in_it) for at in partitions}
            for at, error in verdicts.items():
                if error is ErrorCode.NONE and self._metadata.partition(*at) is None:
                    verdicts[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # as AddPartitionsToTxn says
        else:
            verdicts = await self._ask_elsewhere(state.leader, transactional_id, producer, partitions)
        fenced = ErrorCode.PRODUCER_FENCED
        return {at: ErrorCode.INVALID_PRODUCER_EPOCH if error is fenced else error for at, error in verdicts.items()}

    async def _ask_elsewhere(
        self, broker_id: int, transactional_id: str, producer: ProducerIdentity, partitions: Collection[PartitionKey]
    ) -> Errors:
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
            response = await self._client.to_broker(broker_id, request, VERSION, self._timeout_ms)
        except OSError as error:
            log.info("broker %d, the coordinator of %s, cannot be asked: %s", broker_id, transactional_id, error)
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        assert isinstance(response, AddPartitionsToTxnResponse)
        unanswered = error_code(response.error_code) or ErrorCode.NETWORK_EXCEPTION
        return dict.fromkeys(partitions, unanswered) | {
            (topic.name, one.partition_index): error_code(one.partition_error_code)
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for one in topic.results_by_partition
        }
