"""The transaction coordinator of one broker: carries out what the rules of `transaction_state` decide.

A change is written to `__transaction_state` with acks=all before anybody hears of it. A decision to commit or abort is
answered as soon as it is in the log: from then on it is carried out whatever happens, by this coordinator or by the one
that loads the log after it. Each request brings the callback that answers it, which is called once, perhaps before the
call returns. Used on the loop only.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from odradek.broker.coordination.owned_partitions import OwnedPartitions
from odradek.broker.coordination.partition_count import LONGEST_TEXT, partition_for
from odradek.broker.coordination.sender_connections import SenderConnections
from odradek.broker.coordination.topic_storage import TopicStorage
from odradek.broker.settings.coordinator_settings import TransactionSettings
from odradek.broker.transactions.transaction_markers import MarkerSender, PendingMarkers
from odradek.broker.transactions.transaction_records import TransactionReplay, batch_of
from odradek.broker.transactions.transaction_state import (
    NO_PRODUCER,
    PREPARE_COMMIT,
    PREPARED,
    ProducerIdentity,
    TransactionMetadata,
    TxnState,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH
from odradek.protocol.topic_names import TRANSACTION_STATE, PartitionKey
from odradek.world.clock import Clock
from odradek.world.periodic import PeriodicActions

log = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100.0
APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Errors of an append, and what clients are told; for others UNKNOWN_SERVER_ERROR (TransactionStateManager)."""

Answer = Callable[[ErrorCode], object]
InitializeAnswer = Callable[[ErrorCode, ProducerIdentity], object]


class TransactionCoordinator:
    """Coordinator of the transactional ids in the partitions of `__transaction_state` that this broker leads.

    `partition_count` says how many partitions that topic has. A write waits for its replicas as long as the transaction
    may take, and not less than `request_timeout_ms` (`request.timeout.ms`).
    """

    def __init__(
        self,
        clock: Clock,
        storage: TopicStorage,
        config: TransactionSettings,
        partition_count: Callable[[], int],
        markers: MarkerSender,
        request_timeout_ms: int,
    ) -> None:
        self._timeout_ms = request_timeout_ms
        self._clock, self._storage, self._config = clock, storage, config
        self._partition_count, self._markers = partition_count, markers
        self._partitions = OwnedPartitions(
            TRANSACTION_STATE,
            clock,
            storage,
            config.transaction_state_log_load_buffer_size,
            TransactionReplay,
            self._install,
        )
        self._transactions: dict[str, TransactionMetadata] = {}
        self._ids: dict[int, set[str]] = {}
        """Transactional ids that are loaded, by their partition of `__transaction_state`."""
        self._pending_markers: dict[str, PendingMarkers] = {}
        self._connections = SenderConnections()
        """Connections of producers, whose late requests would end their current transactions, or begin some that nobody
        ends, as with Kafka they do. They outlive a transaction's unloading: its partition may come back."""
        self._periodic = PeriodicActions(clock)
        self._active = False

    # life

    def start(self) -> None:
        """Serve from now on; before, and after `stop`, everybody is answered COORDINATOR_NOT_AVAILABLE."""
        self._active = True
        config = self._config
        abort_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        forget_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        transactions = self._transactions.values
        self._periodic.repeat_for_each("open for too long", abort_ms, transactions, self._abort_if_overdue)
        self._periodic.repeat_for_each("unused for too long", forget_ms, transactions, self._forget_if_expired)

    def stop(self) -> None:
        """Stop serving, as the broker goes down, and forget all transactions; the log has them."""
        self._active = False
        self._periodic.stop()
        self._partitions.stop()
        for transactional_id in list(self._transactions):
            self._unload(transactional_id)
        self._ids.clear()

    def on_elected(self, partition: int, epoch: int) -> None:
        """Load the ids of a partition that this broker has come to lead, and finish what was decided there."""
        self._partitions.elected(partition, epoch)

    def on_resigned(self, partition: int) -> None:
        """Forget the transactions of a partition that another broker leads, or none."""
        self._partitions.resigned(partition)
        for transactional_id in self._ids.pop(partition, ()):
            self._unload(transactional_id)

    def on_partitions_deleted(self, partitions: Sequence[PartitionKey]) -> None:
        """Do nothing: the sender takes a marker for a partition that is gone for written."""

    # requests

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that the id lives in, whichever broker leads it."""
        return partition_for(transactional_id, self._partition_count())

    def check(self, transactional_id: str) -> ErrorCode:
        """Check that requests for the id can be served here; return the error if not."""
        if not transactional_id or len(transactional_id) > LONGEST_TEXT:
            return ErrorCode.INVALID_REQUEST
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._partitions.check(self.partition_for(transactional_id))

    def check_beginning(self, transactional_id: str, timeout_ms: int) -> ErrorCode:
        """Check, as `initialize` does first, whether a producer with this transaction timeout may begin here."""
        error = self.check(transactional_id)
        if error is not ErrorCode.INVALID_REQUEST and not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return error

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdentity | None) -> bool:
        """Tell whether `initialize` needs a producer id that nobody has."""
        transaction = self._transactions.get(transactional_id)
        return transaction is None or transaction.needs_producer_id(expected)

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        fresh_producer_id: int | None,
        answer: InitializeAnswer,
    ) -> None:
        """Handle InitProducerId: answer with the producer's id and epoch.

        `fresh_producer_id` is an id that nobody has, if `needs_producer_id` asks for one. `timeout_ms` is the
        transaction timeout.
        """
        error = self.check_beginning(transactional_id, timeout_ms)
        if error is not ErrorCode.NONE:
            answer(error, NO_PRODUCER)
            return
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            if fresh_producer_id is None:
                answer(ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER)  # forgotten since it was asked for
                return
            nobody = TxnState(ProducerIdentity(fresh_producer_id, NO_PRODUCER_EPOCH), timeout_ms)
            transaction = TransactionMetadata(transactional_id, nobody)
            self._add(self.partition_for(transactional_id), transaction)
        decided = transaction.initialize(timeout_ms, expected, fresh_producer_id, self._clock.now_ms())
        if isinstance(decided, TxnState):
            producer = decided.producer
            self._store(transaction, decided, lambda stored: answer(stored, NO_PRODUCER if stored else producer))
            return
        if decided is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._fence_and_abort(transaction)
        answer(decided, NO_PRODUCER)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[PartitionKey],
        answer: Answer,
        *,
        connection: int | None = None,
    ) -> None:
        """Handle AddPartitionsToTxn or AddOffsetsToTxn: begin a transaction when none is open.

        `connection` is the number of the producer's connection, if the producer itself has asked.
        """
        transaction = self._find(transactional_id)
        if isinstance(transaction, ErrorCode):
            answer(transaction)
        elif connection is not None and self._is_late(transaction, producer, connection):
            answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._carry_out(transaction, transaction.add(producer, partitions, self._clock.now_ms()), answer)

    def verify(
        self, transactional_id: str, producer: ProducerIdentity, partition: PartitionKey, not_in_it: ErrorCode
    ) -> ErrorCode:
        """Check that the producer may write to the partition now; return `not_in_it` if it has not been added."""
        transaction = self._find(transactional_id)
        return transaction if isinstance(transaction, ErrorCode) else transaction.verify(producer, partition, not_in_it)

    def end(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool, connection: int, answer: Answer
    ) -> None:
        """Handle EndTxn; it is answered when the decision is in the log, before the markers are written.

        `connection` is the number of the connection on which it came.
        """
        transaction = self._find(transactional_id)
        if isinstance(transaction, ErrorCode):
            answer(transaction)
        elif self._is_late(transaction, producer, connection):
            answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            now_ms = self._clock.now_ms()
            self._carry_out(transaction, transaction.end(producer, commit=commit, now_ms=now_ms), answer)

    def describe(self, transactional_id: str) -> TxnState | ErrorCode:
        """Return the state of an id, for DescribeTransactions; TRANSACTIONAL_ID_NOT_FOUND when it is unknown.

        Of a transaction whose end is decided it has the partitions that wait for their markers, as in Kafka.
        """
        transaction = self._find(transactional_id)
        if isinstance(transaction, TransactionMetadata):
            pending = self._pending_markers.get(transactional_id)
            state = transaction.state
            return state if pending is None else replace(state, partitions=frozenset(pending.remaining))
        unknown = transaction is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if unknown else transaction

    def list_transactions(self) -> tuple[ErrorCode, list[tuple[str, TxnState]]]:
        """Return the transactional ids that live here with their states, for ListTransactions, or an error.

        COORDINATOR_NOT_AVAILABLE when not serving, COORDINATOR_LOAD_IN_PROGRESS while ids are loaded.
        """
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        if self._partitions.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
        return ErrorCode.NONE, [(name, one.state) for name, one in self._transactions.items()]

    # inside

    def _find(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        error = self.check(transactional_id)
        if error is not ErrorCode.NONE:
            return error
        return self._transactions.get(transactional_id, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    def _is_late(self, transaction: TransactionMetadata, producer: ProducerIdentity, connection: int) -> bool:
        """Tell whether the producer may have given up a request, which then must change nothing. If it is still there,
        it asks again, and is heard."""
        sender = f"{producer.id}, epoch {producer.epoch}"
        late = producer == transaction.state.producer and self._connections.is_late(sender, connection)
        if late:
            log.info("%s: a request is refused that its producer may have given up", transaction.transactional_id)
        return late

    def _is_here(self, transaction: TransactionMetadata) -> bool:
        """Tell whether the transaction still lives here: its partition may have gone to another broker."""
        return self._transactions.get(transaction.transactional_id) is transaction

    def _carry_out(self, transaction: TransactionMetadata, decided: TxnState | ErrorCode, answer: Answer) -> None:
        if isinstance(decided, TxnState):
            self._store(transaction, decided, answer)
        else:
            answer(decided)

    def _store(self, transaction: TransactionMetadata, state: TxnState, answer: Answer) -> None:
        """Write the state; once it is in the log, make it the current one, answer, and send the markers it needs."""

        def done(error: ErrorCode) -> None:
            if not self._is_here(transaction):
                answer(ErrorCode.NOT_COORDINATOR)
                return
            if error is not ErrorCode.NONE:
                level = logging.DEBUG if error is ErrorCode.KAFKA_STORAGE_ERROR else logging.INFO  # the disk says so
                name = transaction.transactional_id
                log.log(level, "%s: %s was not written: %s", name, state.status.name, error.name)
                transaction.fail(state)
                answer(APPEND_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR))
                return
            transaction.complete(state)
            answer(ErrorCode.NONE)
            if state.status in PREPARED:
                self._send_markers(transaction)

        self._append(transaction, state, done)

    def _append(
        self, transaction: TransactionMetadata, state: TxnState | None, done: Callable[[ErrorCode], None]
    ) -> None:
        batch = batch_of(transaction.transactional_id, state, self._clock.now_ms())
        # not less than the transaction may take: what is given up counts as not written, and may be replicated later
        timeout_ms = max(self._timeout_ms, transaction.state.timeout_ms)
        self._storage.append(self.partition_for(transaction.transactional_id), batch, timeout_ms, done)

    def _send_markers(self, transaction: TransactionMetadata) -> None:
        state, transactional_id = transaction.state, transaction.transactional_id
        pending = PendingMarkers(
            state.producer,
            state.status is PREPARE_COMMIT,
            self._partitions.epoch(self.partition_for(transactional_id)),
            set(state.partitions),
            partial(self._markers_written, transaction),
        )
        self._pending_markers[transactional_id] = pending
        if pending.remaining:
            self._markers.send(pending)
        else:
            pending.done()

    def _markers_written(self, transaction: TransactionMetadata) -> None:
        """Complete a transaction whose partitions have their markers."""
        if self._is_here(transaction):
            self._pending_markers.pop(transaction.transactional_id, None)
            self._store_at_last(transaction, transaction.markers_written)

    def _store_at_last(self, transaction: TransactionMetadata, next_state: Callable[[int], TxnState]) -> None:
        """Write the next state as of now; a failed write is repeated while the transaction is here."""
        if not self._active or not self._is_here(transaction):
            return

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._clock.call_later(RETRY_BACKOFF_MS, partial(self._store_at_last, transaction, next_state))

        self._store(transaction, next_state(self._clock.now_ms()), stored)

    def _fence_and_abort(self, transaction: TransactionMetadata) -> None:
        """Abort the transaction, and fence its producer, if it is open and no change is under way."""
        decided = transaction.fence_and_abort(self._clock.now_ms())
        if isinstance(decided, TxnState):
            self._store(transaction, decided, lambda error: None)

    def _add(self, partition: int, transaction: TransactionMetadata) -> None:
        self._transactions[transaction.transactional_id] = transaction
        self._ids.setdefault(partition, set()).add(transaction.transactional_id)

    def _install(self, partition: int, transaction: TransactionMetadata) -> None:
        self._add(partition, transaction)
        if transaction.state.status in PREPARED:
            self._store_at_last(transaction, transaction.decide_again)

    def _unload(self, transactional_id: str) -> None:
        del self._transactions[transactional_id]
        pending = self._pending_markers.pop(transactional_id, None)
        if pending is not None:
            pending.over = True

    # time

    def _abort_if_overdue(self, transaction: TransactionMetadata) -> None:
        if self._is_here(transaction) and transaction.is_overdue(self._clock.now_ms()):
            timeout_ms = transaction.state.timeout_ms
            log.info("%s: aborted, it was open for more than %d ms", transaction.transactional_id, timeout_ms)
            self._fence_and_abort(transaction)

    def _forget_if_expired(self, transaction: TransactionMetadata) -> None:
        expiration_ms = self._config.transactional_id_expiration_ms
        if not self._is_here(transaction) or not transaction.is_expired(self._clock.now_ms(), expiration_ms):
            return
        transaction.forget()

        def done(error: ErrorCode) -> None:
            if not self._is_here(transaction):
                return
            transaction.pending = None
            if error is ErrorCode.NONE:
                self._unload(transaction.transactional_id)
                self._ids[self.partition_for(transaction.transactional_id)].discard(transaction.transactional_id)

        self._append(transaction, None, done)
