"""State of each idempotent or transactional producer of a partition (KIP-98).

Source: org.apache.kafka.storage.internals.log.ProducerStateManager, ProducerStateEntry and ProducerAppendInfo of 3.9.
"""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.broker.log.batches import Batch, decode_end_of_transaction
from odradek.broker.log.producer_entry import NO_EPOCH, NO_OFFSET, ProducerEntry, RememberedBatch
from odradek.broker.log.producer_sequences import Refusals, sequence_after
from odradek.broker.log.verifications import UNGUARDED, VerificationGuard, Verifications
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
)
from odradek.world.files import Buffer


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended: data from `first_offset` on, marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """Producers of one partition, and the transactions that hold back the last stable offset.

    `map_end_offset` is the offset up to which this state was built: what a snapshot taken now is named after.
    """

    __slots__ = ("_ongoing", "_refusals", "_unreplicated", "map_end_offset", "producers", "verifications")

    def __init__(self, map_end_offset: int = 0, producers: Iterable[ProducerEntry] = ()) -> None:
        self.map_end_offset = map_end_offset
        self.producers = {producer.producer_id: producer for producer in producers}
        begun = sorted((one.transaction_first_offset, one.producer_id) for one in self.producers.values())
        self._ongoing = {first_offset: producer_id for first_offset, producer_id in begun if first_offset >= 0}
        """First offset of each open transaction → its producer, in the order in which they began."""
        self._unreplicated: dict[int, int] = {}
        """First offset of each transaction whose marker is not replicated yet → that of the marker, as they ended."""
        self.verifications = Verifications()
        self._refusals = Refusals()

    def check_batch(
        self, fields: tuple[int, ...], batch: memoryview, *, client: bool, guard: VerificationGuard | None = UNGUARDED
    ) -> RememberedBatch | None:
        """Return the batch that this one repeats, None when it is to be appended. `fields` are those of its header.

        `client` is False for what coordinators write; `guard` as for `check`. Raises what `check` and `check_marker`
        do; INVALID_RECORD.
        """
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, _ = fields
        if attributes & CONTROL_BIT:
            end = decode_end_of_transaction(batch)
            if end is not None:
                self.check_marker(producer_id, epoch, end.coordinator_epoch)
            return None
        return self.check(
            producer_id,
            epoch,
            sequence,
            sequence_after(sequence, delta),
            transactional=bool(attributes & TRANSACTIONAL_BIT),
            client=client,
            guard=guard,
        )

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        *,
        transactional: bool,
        client: bool,
        guard: VerificationGuard | None = UNGUARDED,
    ) -> RememberedBatch | None:
        """Refuse a batch that may not be appended; return the batch it repeats, when it is a duplicate.

        `client` is False for what coordinators write, which carries no sequences. `guard`: of the verification that has
        let a transaction begin, None when there was none (KIP-890). Raises KafkaError:
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, or the error with which the batch
        before it was refused (`note_refusal`). Changes nothing.
        """
        producer = self.producers.get(producer_id)
        if client and producer is not None and epoch == producer.epoch:
            repeated = producer.batch_of(first_sequence, last_sequence)
            if repeated is not None:
                producer.check_repeated(repeated, transactional=transactional)
                return repeated
        if transactional and client and guard is not UNGUARDED and not self._is_open(producer_id):
            self.verifications.check(producer_id, epoch, first_sequence, guard)
        if producer is None:
            if client:
                self._refusals.check(producer_id, epoch, first_sequence)
            return None
        producer.check_epoch(epoch)
        if client:
            self._check_sequence(producer, epoch, first_sequence)
        if producer.transaction_first_offset >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has a transaction open since offset {producer.transaction_first_offset}",
            )
        return None

    def begin_verification(
        self, producer_id: int, epoch: int, first_sequence: int, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard to give to `check` when the coordinator has said that the transaction has begun.

        Epoch and sequence are those of the batch that is to be written. None when the transaction is open here already:
        then nobody has to be asked (KIP-890). A newer epoch has not opened it: unasked, it could write what the
        transaction's marker cannot end any more, which is of the older epoch (UnifiedLog.hasOngoingTransaction, since
        Kafka 4).
        """
        if self._is_open(producer_id) and epoch <= self.producers[producer_id].epoch:
            return None
        return self.verifications.begin(producer_id, epoch, first_sequence, now_ms)

    def is_verified(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Tell whether no transaction has ended since the guard was given: the answer might be about the one before."""
        return self._is_open(producer_id) or self.verifications.stands(producer_id, guard)

    def _is_open(self, producer_id: int) -> bool:
        producer = self.producers.get(producer_id)
        return producer is not None and producer.transaction_first_offset >= 0

    def note_refusal(self, batch: Buffer | None, code: ErrorCode) -> None:
        """Note that a client's batch was refused with an error after which it is sent again: see `Refusals`."""
        if batch is None or len(batch) < HEADER_BYTES or batch[MAGIC_AT] != MAGIC_V2:
            return
        producer_id, epoch, first_sequence, _ = HEADER.unpack_from(batch)[-4:]
        if producer_id < 0:
            return
        producer = self.producers.get(producer_id)
        last = producer.last_sequence if producer is not None and producer.epoch == epoch else -1
        self._refusals.note(producer_id, epoch, first_sequence, code, last)

    def _check_sequence(self, producer: ProducerEntry, epoch: int, first_sequence: int) -> None:
        if epoch != producer.epoch:
            expected = 0 if producer.epoch != NO_EPOCH else first_sequence
        elif producer.epoch == NO_EPOCH:
            return
        else:
            expected = sequence_after(producer.last_sequence, 1)
        if first_sequence != expected:
            self._refusals.check(producer.producer_id, epoch, first_sequence, expected)
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer.producer_id} epoch {epoch}: sequence {first_sequence}, expected {expected}",
            )

    def append(self, batch: Batch, content: Buffer) -> CompletedTransaction | None:
        """Take in a batch that is in the log; return the transaction that it ends, if it does.

        `content`, the whole batch, is read only when it is a control batch. Raises KafkaError INVALID_RECORD.
        """
        if batch.producer_id < 0:
            return None
        if not batch.is_control:
            self.append_data(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
                transactional=batch.is_transactional,
            )
            return None
        end = decode_end_of_transaction(content) if batch.record_count else None
        if end is None:
            return None
        return self.append_marker(
            batch.producer_id,
            batch.producer_epoch,
            end.coordinator_epoch,
            batch.base_offset,
            batch.max_timestamp_ms,
            aborted=end.aborted,
        )

    def append_data(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp_ms: int,
        *,
        transactional: bool,
    ) -> None:
        """Note a data batch that was written."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = ProducerEntry(producer_id)
        producer.adopt_epoch(epoch)
        last_sequence = sequence_after(first_sequence, last_offset - first_offset) if first_sequence >= 0 else -1
        producer.remember(RememberedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp_ms))
        if transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first_offset
            self._ongoing[first_offset] = producer_id
            self.verifications.forget(producer_id)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Refuse the end of a transaction by a coordinator that a newer one has fenced. Raises KafkaError."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        producer.check_epoch(epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} is older than "
                f"{producer.coordinator_epoch}",
            )

    def append_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp_ms: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Note a transaction's marker, which was written; return the transaction, None when it had no data here."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = ProducerEntry(producer_id)
        first_offset = producer.transaction_first_offset
        self.verifications.forget(producer_id)
        producer.adopt_epoch(epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        producer.transaction_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        return CompletedTransaction(producer_id, first_offset, offset, aborted)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset once `completed` is replicated: what the transaction index records with it."""
        others = (first for first, producer_id in self._ongoing.items() if producer_id != completed.producer_id)
        return next(others, completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """End a transaction: its marker holds back the last stable offset until the high watermark passes it."""
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset

    def replicated_up_to(self, high_watermark: int) -> None:
        """Let go of the markers before the high watermark: they hold back nobody any more. To be called whenever it has
        moved."""
        if not self._unreplicated:
            return
        done = []
        for first_offset, last_offset in self._unreplicated.items():
            if last_offset >= high_watermark:
                break
            done.append(first_offset)
        for first_offset in done:
            del self._unreplicated[first_offset]

    @property
    def oldest_transaction_ms(self) -> int | None:
        """Timestamp of the last batch in the open transaction that began first; None without one."""
        producer = self.producers.get(next(iter(self._ongoing.values()), -1))
        return None if producer is None or producer.last_timestamp_ms <= 0 else producer.last_timestamp_ms

    @property
    def first_ongoing_offset(self) -> int | None:
        """Offset at which the first transaction without a marker begins; None when there is none."""
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where readers of committed data have to stop; None when nothing is open."""
        if not self._ongoing and not self._unreplicated:
            return None
        self.replicated_up_to(high_watermark)
        first = self.first_ongoing_offset
        if self._unreplicated:
            ended = min(self._unreplicated)
            first = ended if first is None else min(first, ended)
        return first

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers without an open transaction that wrote nothing for that long, guards as old, and refusals.

        Source: ProducerStateManager.removeExpiredProducers of Kafka 3.9.
        """
        for producer_id, producer in list(self.producers.items()):
            if producer.has_expired(now_ms, expiration_ms) and producer.transaction_first_offset < 0:
                del self.producers[producer_id]
        self._refusals.clear()
        self.verifications.expire(now_ms, expiration_ms)
