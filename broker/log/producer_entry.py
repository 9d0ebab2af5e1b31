"""What a log knows of one idempotent or transactional producer (KIP-98).

Source: org.apache.kafka.storage.internals.log.ProducerStateEntry of 3.9.
"""

from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
NO_EPOCH = -1
NO_OFFSET = -1


class RememberedBatch(NamedTuple):
    """A batch among a producer's latest: enough to answer a duplicate of it."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """State of one producer id; `transaction_first_offset` is -1 when no transaction is open."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "known_offset",
        "known_since_ms",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[RememberedBatch] = []
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.transaction_first_offset = NO_OFFSET
        self.known_offset = NO_OFFSET
        """Last offset of the newest batch when `has_expired` was asked last."""
        self.known_since_ms = -1
        """Time of the first such question after that batch, if its timestamp was too old already; else -1."""

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Tell whether the producer has written nothing for that long, by the timestamps of its batches.

        A producer that writes old timestamps, as when a topic is filled from an archive, would always have expired: for
        it the time counts from the first question after a batch. Kafka forgets such a producer while it is writing, and
        then appends repeated batches once more.
        """
        newest = self.batches[-1].last_offset if self.batches else NO_OFFSET
        expired = now_ms - self.last_timestamp_ms >= expiration_ms
        if newest != self.known_offset:
            self.known_offset, self.known_since_ms = newest, now_ms if expired else -1
        return expired and (self.known_since_ms < 0 or now_ms - self.known_since_ms >= expiration_ms)

    @property
    def last_sequence(self) -> int:
        """Last sequence of the newest batch; -1 when no batch of this epoch is remembered."""
        return self.batches[-1].last_sequence if self.batches else -1

    def adopt_epoch(self, epoch: int) -> None:
        """Take over an epoch; a new one forgets the batches of the one before."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def check_epoch(self, epoch: int) -> None:
        """Check that no newer epoch has fenced this one. Raises KafkaError INVALID_PRODUCER_EPOCH."""
        if epoch < self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id}: epoch {epoch} is older than {self.epoch}",
            )

    def batch_of(self, first_sequence: int, last_sequence: int) -> RememberedBatch | None:
        """Return the remembered batch of these sequences, None when there is none."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def check_repeated(self, repeated: RememberedBatch, *, transactional: bool) -> None:
        """Refuse a transaction's batch with the sequences of one that the open transaction does not hold.

        Producers await the answer to a batch before they end its transaction. But librdkafka, when it aborts, may give
        up a batch that is in the log already, and give its sequences to records of the next transaction in the same
        epoch. To Kafka these are duplicates: it acknowledges them with the offsets of aborted records, and they are
        lost. INVALID_TXN_STATE makes librdkafka abort the transaction and take a new epoch; after
        OUT_OF_ORDER_SEQUENCE_NUMBER it would give up for good. Raises KafkaError INVALID_TXN_STATE.
        """
        if transactional and not repeated.first_offset >= self.transaction_first_offset >= 0:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {self.producer_id} epoch {self.epoch}: sequence {repeated.first_sequence} is that of"
                f" offset {repeated.first_offset}, in a transaction that has ended",
            )

    def remember(self, batch: RememberedBatch) -> None:
        """Remember the newest batch, and forget the oldest of more than five."""
        if len(self.batches) == BATCHES_REMEMBERED:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp_ms = batch.timestamp_ms
