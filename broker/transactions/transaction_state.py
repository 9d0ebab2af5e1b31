"""The rules of a transactional id: what its producer may do now, and the state that must be written to allow it.

A request is either refused with an error, or decided by the next `TxnState`, which is written to the log and becomes
the current one (`complete`) when every in-sync replica has it. Until then that change is pending, and all other
requests are told to come again (CONCURRENT_TRANSACTIONS). No I/O.

Source: TransactionMetadata.scala and TransactionCoordinator.scala of Kafka 3.9.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.transaction_state import TransactionStatus
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH
from odradek.protocol.topic_names import PartitionKey

NO_TIME_MS = -1
LARGEST_EPOCH = 2**15 - 1

EMPTY, ONGOING = TransactionStatus.EMPTY, TransactionStatus.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT
DEAD, PREPARE_EPOCH_FENCE = TransactionStatus.DEAD, TransactionStatus.PREPARE_EPOCH_FENCE

VALID_PREVIOUS: dict[TransactionStatus, frozenset[TransactionStatus]] = {
    EMPTY: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    ONGOING: frozenset({ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: frozenset({ONGOING, PREPARE_EPOCH_FENCE}),
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""States from which a state may be entered (TransactionState.validPreviousStates)."""
PREPARED = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}
"""States in which the end is decided and markers are being written, each with the state that follows them."""
EXPIRABLE = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""States in which a transactional id may be forgotten (`transactional.id.expiration.ms`)."""


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


NO_PRODUCER = ProducerIdentity(-1, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class TxnState:
    """State of a transactional id, as `__transaction_state` has it. Times are of the wall clock."""

    producer: ProducerIdentity
    timeout_ms: int
    status: TransactionStatus = EMPTY
    partitions: frozenset[PartitionKey] = frozenset()
    started_ms: int = NO_TIME_MS
    updated_ms: int = NO_TIME_MS
    former: ProducerIdentity = NO_PRODUCER
    """Identity before the last epoch bump that the producer asked for: it may ask again. Not written to the log."""


@dataclass(slots=True)
class TransactionMetadata:
    """A transactional id. `state` is what the log has; `pending` the status that is on its way there."""

    transactional_id: str
    state: TxnState
    pending: TransactionStatus | None = None
    is_replicated: bool = True
    """False when the state was found in the log of a former leader: not every in-sync replica may have it."""
    fence_failed: bool = False
    """True when the epoch was raised for an abort that could not be written: the next attempt takes the same epoch."""

    # begin

    def needs_producer_id(self, expected: ProducerIdentity | None) -> bool:
        """Tell whether `initialize` would give the producer another id: all epochs of its own are used up."""
        epoch = self.state.producer.epoch
        return is_exhausted(epoch) and (expected is None or expected.epoch == epoch)

    def initialize(
        self, timeout_ms: int, expected: ProducerIdentity | None, fresh_producer_id: int | None, now_ms: int
    ) -> TxnState | ErrorCode:
        """Decide InitProducerId by a producer that starts, or by one that names the id and epoch it has had (KIP-360).

        CONCURRENT_TRANSACTIONS while another change is under way, or in a transaction, which then is to be aborted;
        PRODUCER_FENCED when `expected` is not the id's producer.
        """
        state = self.state
        if self.pending is not None or state.status in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if expected is not None and not self._may_be(expected):
            return ErrorCode.PRODUCER_FENCED
        if state.status is ONGOING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.needs_producer_id(expected):
            if fresh_producer_id is None:
                return ErrorCode.CONCURRENT_TRANSACTIONS  # it was not needed when asked; to come again
            producer = ProducerIdentity(fresh_producer_id, 0)
            former = NO_PRODUCER if expected is None else state.producer  # who starts anew fences whoever was before
        elif expected is None:
            producer, former = ProducerIdentity(state.producer.id, state.producer.epoch + 1), NO_PRODUCER
        elif state.producer.epoch in (NO_PRODUCER_EPOCH, expected.epoch):
            producer, former = ProducerIdentity(state.producer.id, state.producer.epoch + 1), state.producer
        elif expected.epoch == state.former.epoch:
            producer, former = state.producer, state.former  # it asks again: the answer to the bump was lost
        else:
            return ErrorCode.PRODUCER_FENCED
        return self._becomes(TxnState(producer, timeout_ms, EMPTY, updated_ms=now_ms, former=former))

    def _may_be(self, expected: ProducerIdentity) -> bool:
        """Tell whether `expected` is the id's producer, or the former one whose epochs were used up.

        A new transactional id has had no producer yet: anybody may be.
        """
        state = self.state
        return (
            state.producer.epoch == NO_PRODUCER_EPOCH
            or expected.id == state.producer.id
            or (expected.id == state.former.id and is_exhausted(expected.epoch))
        )

    def add(self, producer: ProducerIdentity, partitions: Iterable[PartitionKey], now_ms: int) -> TxnState | ErrorCode:
        """Decide AddPartitionsToTxn: NONE when the transaction has all of the partitions already.

        What an earlier leader has written counts once it is written again. Otherwise a replica that never had it might
        come to lead: it would know of no open transaction, and nobody would end what is open in the partitions. Kafka
        answers at once.
        """
        error = self._check_producer(producer)
        if error is not ErrorCode.NONE:
            return error
        state, added = self.state, frozenset(partitions)
        if self.pending is not None or state.status in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if state.status is ONGOING and added <= state.partitions and self.is_replicated:
            return ErrorCode.NONE
        started_ms = state.started_ms if state.status is ONGOING else now_ms
        return self._becomes(
            replace(
                state, status=ONGOING, partitions=state.partitions | added, started_ms=started_ms, updated_ms=now_ms
            )
        )

    def verify(self, producer: ProducerIdentity, partition: PartitionKey, not_in_it: ErrorCode) -> ErrorCode:
        """Check that the producer may write to the partition now (KIP-890); `not_in_it` when it has not been added.

        A change that is on its way does not matter: if it is the end, a marker will overtake what is written.
        """
        error = self._check_producer(producer)
        if error is not ErrorCode.NONE:
            return error
        if self.state.status in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if partition in self.state.partitions else not_in_it

    def _check_producer(self, producer: ProducerIdentity) -> ErrorCode:
        if producer.id != self.state.producer.id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if producer.epoch == self.state.producer.epoch else ErrorCode.PRODUCER_FENCED

    # end

    def end(self, producer: ProducerIdentity, *, commit: bool, now_ms: int) -> TxnState | ErrorCode:
        """Decide EndTxn by the producer: NONE when the transaction has ended that way already.

        It is CONCURRENT_TRANSACTIONS while the markers are being written, even if the other end is asked for.
        """
        error = self._check_producer(producer)
        if error is not ErrorCode.NONE:
            return error
        if self.pending is not None or self.state.status in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.state.status is not ONGOING:
            ended_so = self.state.status is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
            return ErrorCode.NONE if ended_so else ErrorCode.INVALID_TXN_STATE
        return self._becomes(replace(self.state, status=PREPARE_COMMIT if commit else PREPARE_ABORT, updated_ms=now_ms))

    def fence_and_abort(self, now_ms: int) -> TxnState | ErrorCode:
        """Abort the transaction and fence its producer by a higher epoch: it took too long, or has a successor."""
        if self.pending is not None or self.state.status is not ONGOING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        producer = self.state.producer
        if not self.fence_failed and producer.epoch < LARGEST_EPOCH:
            producer = ProducerIdentity(producer.id, producer.epoch + 1)
        return self._becomes(
            replace(self.state, producer=producer, former=NO_PRODUCER, status=PREPARE_ABORT, updated_ms=now_ms)
        )

    def decide_again(self, now_ms: int) -> TxnState:
        """Take over the end that an earlier leader has decided: its markers are sent once it is written again.

        Otherwise a replica that never had the decision might come to lead before all markers are there, and abort
        a transaction that it sees as open for too long: a part would be committed, a part aborted. Kafka sends the
        markers at once.
        """
        assert self.pending is None and self.state.status in PREPARED, (self.state.status, self.pending)
        self.pending = self.state.status
        return replace(self.state, updated_ms=now_ms)

    def markers_written(self, now_ms: int) -> TxnState:
        """Complete the transaction: all partitions know the decision, and nothing is left to do."""
        state = self.state
        return self._becomes(replace(state, status=PREPARED[state.status], partitions=frozenset(), updated_ms=now_ms))

    def forget(self) -> None:
        """Note that the id's tombstone is on its way; `complete` is not called for that."""
        assert self.pending is None and self.state.status in VALID_PREVIOUS[DEAD], (self.state.status, self.pending)
        self.pending = DEAD

    def is_overdue(self, now_ms: int) -> bool:
        """Tell whether the transaction has been open for longer than its producer's timeout.

        One that began further in the future than that was begun before the clock was put back: nobody knows how long it
        has been open, and it would hold up readers until the clock is there again. (Kafka's coordinator waits.)
        """
        state = self.state
        return self.pending is None and state.status is ONGOING and abs(now_ms - state.started_ms) > state.timeout_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Tell whether the id is in no transaction and nobody has used it for `expiration_ms`."""
        state = self.state
        return self.pending is None and state.status in EXPIRABLE and now_ms - state.updated_ms >= expiration_ms

    # the log

    def _becomes(self, next_state: TxnState) -> TxnState:
        assert self.state.status in VALID_PREVIOUS[next_state.status], (self.state.status, next_state.status)
        self.pending = next_state.status
        return next_state

    def complete(self, next_state: TxnState) -> None:
        """Make `next_state` the current one: it is in the log of every in-sync replica."""
        assert self.pending is next_state.status, (self.transactional_id, self.pending, next_state)
        self.pending, self.fence_failed = None, False
        self.state, self.is_replicated = next_state, True

    def fail(self, next_state: TxnState) -> None:
        """Keep the current state: the next one was not written, or nobody knows whether it was.

        An epoch that was raised to fence a producer stays raised, so that the next attempt takes the same one.
        """
        assert self.pending is next_state.status, (self.transactional_id, self.pending, next_state)
        self.pending = None
        if next_state.producer.epoch > self.state.producer.epoch and next_state.status is PREPARE_ABORT:
            self.fence_failed = True
            self.state = replace(self.state, producer=next_state.producer)


def is_exhausted(epoch: int) -> bool:
    """Tell whether a producer id has no epoch left for its producer; the last one is for fencing."""
    return epoch >= LARGEST_EPOCH - 1
