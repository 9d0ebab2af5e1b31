"""Which transaction a batch belongs to, and whether its marker is still needed, while a log is walked in order.

Data of aborted transactions goes at once. A marker stays as long as a batch of its transaction is there.
Source: CleanedTransactionMetadata in LogCleaner.scala of Kafka 3.9.
"""

from collections.abc import Iterable

from odradek.broker.log.batches import Batch
from odradek.broker.log.producer_state import decode_end_of_transaction
from odradek.broker.log.transaction_index import AbortedTransaction


class WalkedTransactions:
    """Fed with every batch from some offset on, in order."""

    __slots__ = ("_aborted_open", "_coming", "_committed_open", "_seen")

    def __init__(self, aborted: Iterable[AbortedTransaction], start_offset: int) -> None:
        self._coming = sorted(
            (one for one in aborted if one.last_offset >= start_offset), key=lambda one: -one.first_offset
        )
        self._aborted_open: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers of aborted transactions of which a batch was there."""
        self._committed_open: set[int] = set()

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            aborted = self._coming.pop()
            self._aborted_open.setdefault(aborted.producer_id, aborted)

    def data(self, batch: Batch) -> bool:
        """A batch of records: whether its transaction was aborted, so that nothing of it counts."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted_open:
            self._seen.add(batch.producer_id)
            return True
        self._committed_open.add(batch.producer_id)
        return False

    def marker(self, batch: Batch, content: bytes) -> tuple[bool, AbortedTransaction | None]:
        """A control batch: whether no batch needs it any more, and the transaction index's entry to be kept.

        Raises KafkaError INVALID_RECORD for a damaged one.
        """
        self._begin_up_to(batch.last_offset)
        if batch.record_count == 0:
            return True, None
        end = decode_end_of_transaction(content)
        if end is None:
            return False, None
        if not end.aborted:
            needed = batch.producer_id in self._committed_open
            self._committed_open.discard(batch.producer_id)
            return not needed, None
        aborted = self._aborted_open.pop(batch.producer_id, None)
        if aborted is None or batch.producer_id not in self._seen:
            return True, None
        self._seen.discard(batch.producer_id)
        return False, aborted
