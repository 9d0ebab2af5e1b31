"""Rules of what is left of one batch: all of it, some of its records, an empty header, or nothing.

A record stays when no newer one has its key; a tombstone stays until the delete horizon, which is written into its
batch when it is first seen here. Offsets, sequences and the codec stay as they were.
Source: Cleaner.cleanInto and shouldRetainRecord in LogCleaner.scala, MemoryRecords.filterTo of Kafka 3.9 (KIP-534).
"""

from collections.abc import Iterable

from odradek.broker.log.batches import Batch, decode_end_of_transaction
from odradek.broker.log.compaction.messages import Request
from odradek.broker.log.compaction.offset_map import OffsetMap, RecordVerdicts
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.conversion import records_of
from odradek.protocol.message_set import down_convert
from odradek.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assemble_batch,
    read_header,
)
from odradek.protocol.record_filter import GONE, STAYS, TOMBSTONE, Keys, keys_of, without_gone
from odradek.protocol.records import Columns

GONE_BYTE, TOMBSTONE_BYTE = bytes([GONE]), bytes([TOMBSTONE])
KEPT_ATTRIBUTES = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""Attributes that a batch keeps when it is emptied."""


class WalkedTransactions:
    """Transactions of the batches that compaction walks over, in order: which were aborted, which markers may go.

    Data of aborted transactions goes at once. A marker stays as long as a batch of its transaction is there.
    Source: CleanedTransactionMetadata in LogCleaner.scala of Kafka 3.9.
    """

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
        """Take a batch of records; tell whether its transaction was aborted, so that nothing of it counts."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted_open:
            self._seen.add(batch.producer_id)
            return True
        self._committed_open.add(batch.producer_id)
        return False

    def marker(self, batch: Batch, content: bytes) -> tuple[bool, AbortedTransaction | None]:
        """Take a control batch; return whether no batch needs it any more, and the transaction index's entry to keep.

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


class Filter:
    """Filter of records, which is given the batches of all groups in order. `aborted` collects entries for the
    transaction index."""

    def __init__(self, request: Request, offset_map: OffsetMap, verdicts: RecordVerdicts) -> None:
        self.aborted: list[AbortedTransaction] = []
        self.keep_old_tombstones = True
        """True if tombstones of message formats 0 and 1 stay in the segment that is being read."""
        self._map = offset_map
        self._verdicts = verdicts
        self._now_ms = request.now_ms
        self._delete_retention_ms = request.delete_retention_ms
        self._last = {one.producer_id: one for one in request.producers}
        self._transactions = WalkedTransactions(request.aborted, request.segments[0].base_offset)

    def keep(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        """Return what to write for this batch, if anything. Raises CorruptBatch; KafkaError for a damaged marker."""
        if batch.is_control:
            return self._keep_marker(batch, content)
        if self._transactions.data(batch):
            return self._emptied(batch, content)
        if batch.magic != MAGIC_V2:
            return self._keep_messages(batch, content)
        verdicts = self._verdicts_of(batch, content)
        horizon_ms = batch.base_timestamp_ms if batch.attributes & DELETE_HORIZON_BIT else None
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            verdicts = verdicts.replace(TOMBSTONE_BYTE, GONE_BYTE)
        kept = len(verdicts) - verdicts.count(GONE)
        if not kept:
            return self._emptied(batch, content)
        if horizon_ms is None and TOMBSTONE in verdicts:  # their older values are gone now, so that their time begins
            horizon_ms = self._now_ms + self._delete_retention_ms
        elif kept == batch.record_count:
            return content
        return without_gone(content, verdicts, horizon_ms)

    def _verdicts_of(self, batch: Batch, content: bytes) -> bytearray:
        """Return a byte for each record; the keys have to be looked at when the map was not told of all of them."""
        verdicts = self._verdicts.of(batch) if batch.last_offset <= self._map.latest_offset else None
        return self._looked_up(keys_of(content)) if verdicts is None else verdicts

    def _looked_up(self, records: Keys) -> bytearray:
        """Return a byte for each record by its key; records without one have no place in a compacted log."""
        latest, verdicts = self._map.latest_offset, records.verdicts
        newest = zip(records.offsets, records.keys, self._map.get(records.keys), strict=True)
        for index, (offset, key, newest_offset) in enumerate(newest):
            if offset > latest:
                verdicts[index] = STAYS
            elif key is None or newest_offset > offset:
                verdicts[index] = GONE
        return verdicts

    def _keep_messages(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        """Filter messages of formats 0 and 1."""
        columns = records_of(content)
        verdicts = self._looked_up(_keys_of_columns(columns))
        if not self.keep_old_tombstones:
            verdicts = verdicts.replace(TOMBSTONE_BYTE, GONE_BYTE)
        kept = [index for index, verdict in enumerate(verdicts) if verdict != GONE]
        if not kept or len(kept) == len(columns):
            return content if kept else None
        append_time = bool(batch.attributes & LOG_APPEND_TIME_BIT)
        return down_convert(
            _select(columns, kept), batch.magic, batch.attributes & CODEC_MASK, log_append_time=append_time
        )

    def _keep_marker(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        unneeded, entry = self._transactions.marker(batch, content)
        if entry is not None:
            self.aborted.append(entry)
        horizon_ms = read_header(content).delete_horizon_ms
        if not unneeded or batch.last_offset > self._map.latest_offset:
            return content
        if batch.record_count == 0 or (horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(batch, content)
        if horizon_ms is not None:
            return content
        return without_gone(content, bytes([STAYS]) * batch.record_count, self._now_ms + self._delete_retention_ms)

    def _emptied(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        """Return None, or the header of an active producer's last batch, which tells its sequence or epoch."""
        last = self._last.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return None
        if last.last_data_offset >= 0:
            is_last = batch.last_offset == last.last_data_offset
        else:
            is_last = batch.is_control and batch.producer_epoch == last.producer_epoch
        if not is_last:
            return None
        return content if batch.record_count == 0 else empty_batch(read_header(content))


def keys_of_any(batch: Batch, content: bytes) -> Keys:
    """Return the keys of a batch of any message format. Raises CorruptBatch."""
    return keys_of(content) if batch.magic == MAGIC_V2 else _keys_of_columns(records_of(content))


def _keys_of_columns(columns: Columns) -> Keys:
    return Keys(columns.offsets, columns.keys, bytearray(value is None for value in columns.values))


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the header without records: offsets, sequence, epochs and largest timestamp stay."""
    attributes = header.attributes & KEPT_ATTRIBUTES
    return assemble_batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0))


def end_mark(batch: Batch) -> bytearray:
    """Return an empty batch where `batch` ended, without anything of it but its epoch."""
    header = BatchHeader(
        batch.last_offset, 0, batch.leader_epoch, MAGIC_V2, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0
    )
    return assemble_batch(header)


def _select(columns: Columns, kept: list[int]) -> Columns:
    return Columns(
        [columns.offsets[index] for index in kept],
        [columns.timestamps[index] for index in kept],
        [columns.keys[index] for index in kept],
        [columns.values[index] for index in kept],
    )
