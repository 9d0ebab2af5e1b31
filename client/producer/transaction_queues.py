"""Accumulator and sequences as a transactional producer has them. Pure.

They are the plain ones, with the rules of transactions before theirs: a producer without transactions has none of it in
its way.
"""

from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits, Appended
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.sequences import ProducerSequences
from odradek.client.producer.transaction import Transaction
from odradek.client.records import Headers, TopicPartition
from odradek.protocol.errors import RETRIABLE, ErrorCode

SEQUENCE_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class TransactionalAccumulator(Accumulator):
    """Takes records in a transaction only, and notes where they go."""

    def __init__(self, limits: AccumulatorLimits, transaction: Transaction) -> None:
        super().__init__(limits)
        self._transaction = transaction

    def append(
        self,
        topic_partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        now_ms: float,
    ) -> Appended | None:
        """As Accumulator.append. Raises also what Transaction.check raises."""
        self._transaction.add(topic_partition)
        return super().append(topic_partition, timestamp_ms, key, value, headers, now_ms)


class TransactionalSequences(ProducerSequences):
    """Sequences whose gaps only an abort closes: the epoch is the coordinator's to raise (KIP-360).

    A batch that needs a new epoch therefore fails, where a producer without transactions numbers it anew.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction

    @property
    def producer(self) -> tuple[int, int]:
        """Its id and epoch now."""
        return self.producer_id, self.producer_epoch

    def may_send(self, batch: ProducerBatch) -> bool:
        """Not before the coordinator knows that the partition is in the transaction (KIP-98)."""
        transaction = self._transaction
        named = batch.topic_partition in transaction.partitions
        return named and transaction.writing and super().may_send(batch)

    def may_retry(self, batch: ProducerBatch, error: ErrorCode) -> bool:
        """As long as the transaction goes on, and an earlier batch may still close a gap."""
        if not self._transaction.writing:
            return False
        if error in SEQUENCE_LOST:
            return self.partitions[batch.topic_partition].unacknowledged[0] is not batch
        return error in RETRIABLE

    def lost(self) -> bool:
        """Tell whether a broker may expect another sequence than comes next. When nothing is on the wire."""
        self.settle(())
        return bool(self._unresolved or self._restart_wanted)

    def _raise_epoch(self) -> bool:
        return False
