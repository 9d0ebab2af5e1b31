"""The transactions of one producer: which call is allowed when, and what its coordinator has confirmed. No I/O.

States and transitions are those of Kafka 3.9's TransactionManager.State, whose rules come from KIP-98 (transactions),
KIP-360 (a higher epoch after an abort that lost sequences), KIP-447 (offsets with the member's generation) and KIP-588
(a producer learns from the coordinator that it is fenced; a leader's INVALID_PRODUCER_EPOCH only fails a batch).

Sending threads call `add`, under the producer's lock; all else happens on the loop. A transactional producer has the
same accumulator as any other, which calls `add` before each record, and the sequences at the end of this file.
"""

from collections.abc import Iterable
from enum import Enum

from odradek.client.errors import AbortRequired, ClientError
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.sequences import ProducerSequences
from odradek.client.records import TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode


class State(Enum):
    """State of a transactional producer; the value, for messages, says what to call in this state."""

    UNINITIALISED = "call init_transactions() first"
    INITIALISING = "init_transactions() is under way: call it again to wait for it"
    READY = "call begin_transaction() first"
    IN_TRANSACTION = "a transaction is open: commit_transaction() or abort_transaction() ends it"
    COMMITTING = "commit_transaction() is under way: call it again to wait for it"
    ABORTING = "abort_transaction() is under way: call it again to wait for it"
    ABORTABLE_ERROR = "the transaction has failed: call abort_transaction()"
    FATAL_ERROR = "the producer has failed: close it"


FORMER: dict[State, frozenset[State]] = {
    State.UNINITIALISED: frozenset(),
    State.INITIALISING: frozenset({State.UNINITIALISED, State.ABORTING}),
    State.READY: frozenset({State.INITIALISING, State.COMMITTING, State.ABORTING}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING: frozenset({State.IN_TRANSACTION}),
    State.ABORTING: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR}),
    State.ABORTABLE_ERROR: frozenset({State.IN_TRANSACTION, State.COMMITTING}),
    State.FATAL_ERROR: frozenset(State),
}
"""State → the states from which it may be entered; from ABORTING to INITIALISING to raise the epoch (KIP-360)."""


class Call(Enum):
    """Call that an application may make; the value is the name of the method."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


ALLOWED: dict[Call, frozenset[State]] = {
    Call.INIT: frozenset({State.UNINITIALISED}),
    Call.BEGIN: frozenset({State.READY}),
    Call.SEND: frozenset({State.IN_TRANSACTION}),
    Call.SEND_OFFSETS: frozenset({State.IN_TRANSACTION}),
    Call.COMMIT: frozenset({State.IN_TRANSACTION}),
    Call.ABORT: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR}),
}
"""Call → the states in which it may begin. A call that is under way is waited for instead (transaction_driver.py)."""

BEGINS = {
    Call.INIT: State.INITIALISING,
    Call.BEGIN: State.IN_TRANSACTION,
    Call.COMMIT: State.COMMITTING,
    Call.ABORT: State.ABORTING,
}
"""Call → the state in which it puts the producer; the other calls leave the state as it is."""
WRITING = frozenset({State.IN_TRANSACTION, State.COMMITTING})
"""States in which batches, partitions and offsets of the transaction are sent. In COMMITTING a commit flushes them."""


class Transaction:
    """The transactions of one producer, which keeps its `transactional_id` over restarts."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALISED
        self.error: Exception | None = None
        """Error that led to ABORTABLE_ERROR or FATAL_ERROR."""
        self.partitions: set[TopicPartition] = set()
        """Partitions of the transaction that the coordinator has confirmed: batches may go there."""
        self.unnamed: set[TopicPartition] = set()
        """Partitions to which the application has sent, and which the coordinator has to confirm before batches go."""
        self.groups: set[str] = set()
        """Groups that the coordinator has confirmed to be part of the transaction, by AddOffsetsToTxn."""
        self.asked = False
        """True if the coordinator may have heard of the transaction; if not, there is nothing to end at it."""
        self.confirmed = False
        """True if the coordinator has certainly heard of the transaction."""
        self.forgotten = False
        """True if the coordinator no longer knows the producer id; the abort then gets a new one."""

    @property
    def writing(self) -> bool:
        """Tell whether batches, partitions and offsets of the transaction may be sent now."""
        return self.state in WRITING

    # -- calls of the application --------------------------------------------------------------------------------------

    def check(self, call: Call) -> None:
        """Check that a call may begin now.

        Raises the fatal error; AbortRequired when only an abort helps; ClientError for a call out of order.
        """
        if self.state in ALLOWED[call]:
            return
        if self.state is State.FATAL_ERROR:
            assert self.error is not None
            raise self.error.with_traceback(None)  # by each call: its traceback would keep the frames of all
        if self.state is State.ABORTABLE_ERROR:
            raise self.abort_required()
        raise ClientError(f"transactional.id {self.transactional_id}: no {call.value}() now: {self.state.value}")

    def start(self, call: Call) -> None:
        """Begin a call. Raises as `check`."""
        self.check(call)
        if call in BEGINS:
            self._become(BEGINS[call])

    def add(self, topic_partition: TopicPartition) -> None:
        """Add the partition of a record. Raises as `check`."""
        if self.state is not State.IN_TRANSACTION:
            self.check(Call.SEND)
        if topic_partition not in self.partitions:
            self.unnamed.add(topic_partition)

    def abort_required(self) -> AbortRequired:
        """Return what to raise in ABORTABLE_ERROR."""
        assert self.error is not None, self.state
        return AbortRequired(self.transactional_id, self.error)

    # -- what the coordinator says -------------------------------------------------------------------------------------

    def asking(self) -> None:
        """Note that a request which begins the transaction at its coordinator is about to be sent."""
        self.asked = True

    def named(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has added these partitions (AddPartitionsToTxn)."""
        self.confirmed = True
        self.partitions.update(partitions)
        self.unnamed.difference_update(partitions)

    def offsets_added(self, group_id: str) -> None:
        """Note that the coordinator has added the group (AddOffsetsToTxn)."""
        self.confirmed = True
        self.groups.add(group_id)

    def raise_epoch(self) -> None:
        """Note that the abort is complete except for a higher epoch, which is asked for next."""
        self._become(State.INITIALISING)

    def ready(self) -> None:
        """Note that the producer is initialised, or a transaction ended: the next may begin."""
        self._become(State.READY)
        self.error = None
        self.partitions.clear()
        self.unnamed.clear()
        self.groups.clear()
        self.asked = self.confirmed = self.forgotten = False

    # -- failures ------------------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Note that a record or a request has failed: the transaction can only be aborted. The first error is kept.

        Outside of a transaction, and during its abort, this does nothing.
        """
        if self.writing:
            self._become(State.ABORTABLE_ERROR)
            self.error = error

    def fail_for_good(self, error: Exception) -> None:
        """Note that the producer cannot go on. The first such error is kept."""
        if self.state is not State.FATAL_ERROR:
            self._become(State.FATAL_ERROR)
            self.error = error

    def _become(self, state: State) -> None:
        assert self.state in FORMER[state], (self.transactional_id, self.state, state)
        self.state = state


SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class TransactionalSequences(ProducerSequences):
    """Sequences of a transactional producer, whose epoch only the coordinator raises, after an abort (KIP-360).

    A batch that needs a new epoch therefore fails; a producer without transactions raises its own and numbers it anew.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction

    @property
    def producer(self) -> tuple[int, int]:
        """Current producer id and epoch."""
        return self.producer_id, self.producer_epoch

    def may_send(self, batch: ProducerBatch) -> bool:
        """Tell whether a batch may be sent now: the coordinator must have added its partition before (KIP-98)."""
        transaction = self._transaction
        named = batch.topic_partition in transaction.partitions
        return named and transaction.writing and super().may_send(batch)

    def may_retry(self, batch: ProducerBatch, error: ErrorCode) -> bool:
        """Tell whether a refused batch is sent again: only while the transaction goes on. After a lost sequence that
        helps only if an earlier batch is still open, which closes the gap."""
        if not self._transaction.writing:
            return False
        if error in SEQUENCE_LOST:
            return self.partitions[batch.topic_partition].unacknowledged[0] is not batch
        return error in RETRIABLE

    def lost(self) -> bool:
        """Tell whether a broker may expect another sequence than the next one. Only when nothing is on the wire."""
        self.settle(())
        return bool(self._unresolved or self._restart_wanted)

    def _raise_epoch(self) -> bool:
        return False
