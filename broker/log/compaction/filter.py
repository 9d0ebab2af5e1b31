"""What is left of one batch: all of it, some of its records, an empty header, or nothing.

A record stays when no newer one has its key; a tombstone stays until the delete horizon, which is written into its
batch when it is first seen here. Offsets, sequences and the codec stay as they were.
Source: Cleaner.cleanInto and shouldRetainRecord in LogCleaner.scala, MemoryRecords.filterTo of Kafka 3.9 (KIP-534).
"""

from odradek.broker.log.batches import Batch
from odradek.broker.log.compaction.messages import Request
from odradek.broker.log.compaction.offset_map import OffsetMap
from odradek.broker.log.compaction.transactions import WalkedTransactions
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.conversion import records_of
from odradek.protocol.message_set import down_convert
from odradek.protocol.record_batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)
from odradek.protocol.records import Columns, assemble, decode_records, encode_batch

KEPT_ATTRIBUTES = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""Of a batch that is emptied."""


class Filter:
    """Fed with the batches of all groups, in order. `aborted` collects entries for the transaction index."""

    def __init__(self, request: Request, offset_map: OffsetMap) -> None:
        self.aborted: list[AbortedTransaction] = []
        self.keep_old_tombstones = True
        """Of message formats 0 and 1, in the segment that is being read."""
        self._map = offset_map
        self._now_ms = request.now_ms
        self._delete_retention_ms = request.delete_retention_ms
        self._last = {one.producer_id: one for one in request.producers}
        self._transactions = WalkedTransactions(request.aborted, request.segments[0].base_offset)

    def keep(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        """What to write in place of this batch. Raises CorruptBatch, and KafkaError for a damaged marker."""
        if batch.is_control:
            return self._keep_marker(batch, content)
        if self._transactions.data(batch):
            return self._emptied(batch, content)
        columns = records_of(content)
        horizon_ms = read_header(content).delete_horizon_ms if batch.magic == MAGIC_V2 else None
        kept = self._kept(batch, columns, horizon_ms)
        if not kept:
            return self._emptied(batch, content)
        if horizon_ms is None and batch.magic == MAGIC_V2 and self._has_tombstone(columns, kept):
            horizon_ms = self._now_ms + self._delete_retention_ms
        elif len(kept) == len(columns):
            return content
        return _encode(batch, content, _select(columns, kept), horizon_ms)

    def _kept(self, batch: Batch, columns: Columns, horizon_ms: int | None) -> list[int]:
        """Numbers of the records that stay. Records without a key have no place in a compacted log."""
        latest, get = self._map.latest_offset, self._map.get
        if batch.magic == MAGIC_V2:
            tombstones_stay = horizon_ms is None or self._now_ms < horizon_ms
        else:
            tombstones_stay = self.keep_old_tombstones
        kept = []
        for index, offset in enumerate(columns.offsets):
            if offset <= latest:
                key = columns.keys[index]
                if key is None or get(key) > offset or (columns.values[index] is None and not tombstones_stay):
                    continue
            kept.append(index)
        return kept

    def _has_tombstone(self, columns: Columns, kept: list[int]) -> bool:
        """One whose older values are gone now, so that its time begins."""
        latest = self._map.latest_offset
        return any(columns.values[index] is None and columns.offsets[index] <= latest for index in kept)

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
        return _encode(batch, content, decode_records(content), self._now_ms + self._delete_retention_ms)

    def _emptied(self, batch: Batch, content: bytes) -> bytes | bytearray | None:
        """Nothing, unless the batch is the last of an active producer, whose sequence or epoch it tells."""
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


def empty_batch(header: BatchHeader) -> bytearray:
    """The header without records: offsets, sequence, epochs and largest timestamp stay."""
    attributes = header.attributes & KEPT_ATTRIBUTES
    return assemble(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0))


def end_mark(batch: Batch) -> bytearray:
    """An empty batch where `batch` ended, without anything of it but its epoch."""
    header = BatchHeader(
        batch.last_offset, 0, batch.leader_epoch, MAGIC_V2, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0
    )
    return assemble(header)


def _select(columns: Columns, kept: list[int]) -> Columns:
    raw_headers = columns.raw_headers
    return Columns(
        [columns.offsets[index] for index in kept],
        [columns.timestamps[index] for index in kept],
        [columns.keys[index] for index in kept],
        [columns.values[index] for index in kept],
        None if raw_headers is None else [raw_headers[index] for index in kept],
    )


def _encode(batch: Batch, content: bytes, columns: Columns, horizon_ms: int | None) -> bytes | bytearray:
    if batch.magic != MAGIC_V2:
        append_time = bool(batch.attributes & LOG_APPEND_TIME_BIT)
        return down_convert(columns, batch.magic, batch.attributes & 0x07, log_append_time=append_time)
    header = read_header(content)
    return encode_batch(
        header.base_offset,
        columns.timestamps,
        columns.keys,
        columns.values,
        raw_headers=columns.raw_headers,
        offsets=columns.offsets,
        last_offset=header.last_offset,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        partition_leader_epoch=header.leader_epoch,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=horizon_ms,
    )
