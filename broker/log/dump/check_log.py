"""Checks of a `.log` file."""

from collections.abc import Iterator
from itertools import pairwise

from odradek.broker.log.batches import (
    Batch,
    checksum_of,
    decode_end_of_transaction,
    iterate_headers,
    iterate_headers_of_producers,
)
from odradek.broker.log.dump.batch_rows import control_fields
from odradek.broker.log.dump.internal_topics import Decoder
from odradek.broker.log.index import LARGEST_RELATIVE_OFFSET
from odradek.protocol.conversion import records_of
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.protocol.record_batch import LOG_APPEND_TIME_BIT, MAGIC_V2, CorruptBatch
from odradek.protocol.records import Columns
from odradek.world.files import File

Complaint = tuple[int, str]
"""The byte where a batch begins, and what is wrong with it."""
ZEROS_CHUNK_BYTES = 1 << 20


def check_log(file: File, base_offset: int, decode: Decoder | None) -> Iterator[Complaint]:
    """Check every batch, and go on as long as one can tell where the next begins."""
    order = _Order(base_offset)
    try:
        for batch in iterate_headers(file, 0, file.size()):
            yield from order.complaints(batch)
            content = file.pread(batch.size_bytes, batch.position)
            computed = checksum_of(content)
            if computed != batch.crc:
                yield batch.position, f"checksum is {computed}, stored {batch.crc}"
            else:
                yield from ((batch.position, reason) for reason in _wrong_records(batch, content, decode))
    except CorruptBatch as bad:
        left = file.size() - bad.position
        nothing = "zeros" if _only_zeros(file, bad.position) else "bytes"
        yield bad.position, f"{bad.reason}; {left} {nothing} from here to the end are no batches"


class _Order:
    """Base offsets and leader epochs, which no checksum covers, have to rise from batch to batch."""

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._ended, self._ended_before = base_offset - 1, base_offset - 1
        """Last offset of the previous batch, and of the one before it."""
        self._position, self._began, self._epoch = 0, base_offset, -1

    def complaints(self, batch: Batch) -> Iterator[Complaint]:
        """Say what is wrong with the place of this batch; or of the one before, when this one is where it should be."""
        if batch.base_offset <= self._ended:
            if self._began != self._ended_before + 1 == batch.base_offset:
                yield self._position, f"ends at {self._ended} between {self._ended_before} and {batch.base_offset}"
            else:
                yield batch.position, f"offset {batch.base_offset} after {self._ended}"
        if batch.last_offset - self._base_offset > LARGEST_RELATIVE_OFFSET:
            yield batch.position, f"offset {batch.last_offset} is too far from the segment's first, {self._base_offset}"
        if batch.magic == MAGIC_V2 and batch.leader_epoch < self._epoch:
            yield batch.position, f"leader epoch {batch.leader_epoch} after {self._epoch}"
        self._ended, self._ended_before = batch.last_offset, self._ended
        self._position, self._began, self._epoch = batch.position, batch.base_offset, batch.leader_epoch


def _only_zeros(file: File, position: int) -> bool:
    while chunk := file.pread(ZEROS_CHUNK_BYTES, position):
        if any(chunk):
            return False
        position += len(chunk)
    return True


def _wrong_records(batch: Batch, content: bytes, decode: Decoder | None) -> Iterator[str]:
    try:
        columns = records_of(content)
        for index in range(len(columns)):
            columns.headers(index)
    except CorruptBatch as bad:
        yield bad.reason
        return
    if batch.magic == MAGIC_V2:
        yield from _not_as_the_header_says(batch, columns)
    for offset, key, value in zip(columns.offsets, columns.keys, columns.values, strict=True):
        try:
            if batch.is_control:
                control_fields(key, value)
            elif decode is not None:
                decode(key, value)
        except CorruptBatch as bad:
            yield f"record {offset}: {bad.reason}"
        except MalformedMessage as bad:
            yield f"record {offset}: {bad}"


def _not_as_the_header_says(batch: Batch, columns: Columns) -> Iterator[str]:
    offsets = columns.offsets
    if offsets and not batch.base_offset <= offsets[0] <= offsets[-1] <= batch.last_offset:
        yield f"records {offsets[0]} to {offsets[-1]} in a batch of {batch.base_offset} to {batch.last_offset}"
    if any(after <= before for before, after in pairwise(offsets)):
        yield "the offsets of its records do not rise"
    largest = max(columns.timestamps, default=batch.max_timestamp_ms)
    if largest != batch.max_timestamp_ms and not batch.attributes & LOG_APPEND_TIME_BIT:
        yield f"its largest timestamp is {largest}, its header says {batch.max_timestamp_ms}"


def missing_aborted(file: File, indexed: set[int]) -> Iterator[Complaint]:
    """Yield the markers that abort what this segment has data of, and that are not in the transaction index.

    `indexed`: the offsets of those that are. Damage of the log itself is passed over.
    """
    open_since: dict[int, int] = {}
    try:
        for batch in iterate_headers_of_producers(file, 0, file.size()):
            if not batch.is_control:
                if batch.is_transactional and batch.record_count:
                    open_since.setdefault(batch.producer_id, batch.base_offset)
                continue
            first = open_since.pop(batch.producer_id, None)
            if first is None or not batch.record_count or batch.last_offset in indexed:
                continue
            end = decode_end_of_transaction(file.pread(batch.size_bytes, batch.position))
            if end is not None and end.aborted:
                yield (
                    batch.position,
                    f"the transaction of producer {batch.producer_id} from {first} to {batch.last_offset} was aborted, "
                    "and is not in the transaction index",
                )
    except (CorruptBatch, KafkaError):
        return
