"""Record batches, format v2, seen from outside: the header, the checksum, what the broker patches in place.

A batch is 61 bytes of header and its records, compressed as a whole or not. Its CRC-32C covers everything from the
attributes on, so base offset and leader epoch, which the broker assigns, are outside of it. The records themselves
are the business of records.py.

Sources: Kafka's DefaultRecordBatch, KIP-98, KIP-101.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple, TypeAlias

from odradek.protocol.checksum import crc32c
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer

WritableBuffer: TypeAlias = bytearray | memoryview

# Where the fields stand in a batch.
BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16  # the same in message sets of magic 0 and 1
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
RECORD_COUNT_AT: Final = 57
RECORDS_AT: Final = 61
HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length, which the length does not count."""
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD
MIN_LEGACY_LENGTH: Final = 14
"""The shortest message of magic 0: crc, magic, attributes and two null lengths."""
LEAST_LENGTH: Final = {0: MIN_LEGACY_LENGTH, 1: MIN_LEGACY_LENGTH + 8, 2: MIN_BATCH_LENGTH}
"""Smallest value of the length field, by magic; magic 1 has a timestamp more."""

# Bits of the attributes.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

MAGIC_V2: Final = 2
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1

HEADER: Final = Struct(">qiibIhiqqqhii")
_ENTRY: Final = Struct(">qi")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")


class CorruptBatch(MalformedMessage):
    """Bytes that are not record batches. `position`: where the batch begins in the buffer that was given."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class BatchTooLarge(CorruptBatch):
    """A batch whose records take more memory than the reader gives them."""


class BatchHeader(NamedTuple):
    """The 61 bytes, in their order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time when compaction may drop the batch's tombstones or its transaction marker; None when not decided yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; NO_SEQUENCE without one."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


class Entry(NamedTuple):
    """A batch (magic 2) or one message (magic 0 or 1) of a buffer, as far as all formats agree."""

    position: int
    size_bytes: int
    magic: int
    offset: int
    """A batch's base offset; a message's own offset, which for a compressed one is that of its last inner message."""


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequences go from 0 to 2^31 - 1 and round again."""
    return (sequence + increment) & MAX_INT32


def entries(buffer: Buffer, at: int = 0, *, allow_partial_tail: bool = False) -> Iterator[Entry]:
    """Yield what stands in `buffer` from `at` on, of any format, bounds checked and nothing else.

    Raises CorruptBatch. `allow_partial_tail`: stop quietly when the last one is cut off, as fetch answers may be.
    """
    size = len(buffer)
    while at < size:
        if size - at <= MAGIC_AT:
            if allow_partial_tail:
                return
            raise CorruptBatch(at, f"{size - at} bytes are too few")
        offset, length = _ENTRY.unpack_from(buffer, at)
        magic = buffer[at + MAGIC_AT]
        if magic > MAGIC_V2:
            raise CorruptBatch(at, f"unknown magic {magic}")
        if length < (MIN_BATCH_LENGTH if magic == MAGIC_V2 else MIN_LEGACY_LENGTH):
            raise CorruptBatch(at, f"length {length} is too small for magic {magic}")
        whole = length + LOG_OVERHEAD
        if whole > size - at:
            if allow_partial_tail:
                return
            raise CorruptBatch(at, f"{whole} bytes announced, {size - at} there")
        yield Entry(at, whole, magic, offset)
        at += whole


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Return the header of the batch at `at`, whether the rest of the batch is there or not. Raises CorruptBatch."""
    try:
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, at))  # as _make does, which is a call more
    except error:
        raise CorruptBatch(at, f"{len(buffer) - at} bytes are too few for a header") from None
    if header.magic != MAGIC_V2:
        raise CorruptBatch(at, f"magic {header.magic} where 2 is needed")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptBatch(at, f"length {header.batch_length} is too small")
    return header


def batches(buffer: Buffer, at: int = 0, *, allow_partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of the batches from `at` on; like `entries`, for buffers of magic 2 only."""
    for entry in entries(buffer, at, allow_partial_tail=allow_partial_tail):
        yield entry.position, read_header(buffer, entry.position)


def compute_crc(buffer: Buffer, at: int, size_bytes: int) -> int:
    """CRC-32C of the batch at `at`, from its attributes to its end."""
    return crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : at + size_bytes])


def crc_matches(buffer: Buffer, at: int, header: BatchHeader) -> bool:
    """Tell whether the whole batch is in the buffer and its checksum is right."""
    size = header.size_bytes
    return len(buffer) - at >= size and compute_crc(buffer, at, size) == header.crc


def check_crc(buffer: Buffer, at: int, header: BatchHeader) -> None:
    """Check the checksum of the batch. Raises CorruptBatch unless crc_matches."""
    if not crc_matches(buffer, at, header):
        raise CorruptBatch(at, f"checksum is not {header.crc:#010x}")


def set_base_offset(buffer: WritableBuffer, at: int, base_offset: int) -> None:
    """Set the base offset of the batch at `at`; the checksum does not cover it."""
    _INT64.pack_into(buffer, at + BASE_OFFSET_AT, base_offset)


def set_leader_epoch(buffer: WritableBuffer, at: int, leader_epoch: int) -> None:
    """Set the leader epoch of the batch at `at`; the checksum does not cover it."""
    _INT32.pack_into(buffer, at + LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, at: int, timestamp_ms: int) -> None:
    """Make the whole batch one of LogAppendTime `timestamp_ms`: the bit, the largest timestamp, the checksum."""
    (attributes,) = _INT16.unpack_from(buffer, at + ATTRIBUTES_AT)
    _INT16.pack_into(buffer, at + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    set_max_timestamp(buffer, at, timestamp_ms)


def set_max_timestamp(buffer: WritableBuffer, at: int, timestamp_ms: int) -> None:
    """Correct the largest timestamp, and the checksum."""
    _INT64.pack_into(buffer, at + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buffer, at)


def update_crc(buffer: WritableBuffer, at: int) -> None:
    """Write the checksum of the batch at `at` anew, after something under it was changed."""
    (length,) = _INT32.unpack_from(buffer, at + BATCH_LENGTH_AT)
    _UINT32.pack_into(buffer, at + CRC_AT, compute_crc(buffer, at, length + LOG_OVERHEAD))


def batch_attributes(codec: int, transactional: bool, control: bool, append_time: bool, delete_horizon: bool) -> int:
    """Return the attribute bits of a header."""
    return (
        codec
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (LOG_APPEND_TIME_BIT if append_time else 0)
        | (DELETE_HORIZON_BIT if delete_horizon else 0)
    )


def assemble_batch(header: BatchHeader, section: Buffer = b"") -> bytearray:
    """Return a batch of this header and these encoded (and compressed) records; length and checksum are filled in.

    Without records: what compaction leaves of a batch whose producer's sequence is still needed (record_count 0).
    """
    size = HEADER_BYTES + len(section)
    batch = bytearray(size)
    batch[HEADER_BYTES:] = section
    HEADER.pack_into(batch, 0, header.base_offset, size - LOG_OVERHEAD, *header[2:4], 0, *header[5:])
    update_crc(batch, 0)
    return batch
