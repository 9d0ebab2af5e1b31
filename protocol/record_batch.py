"""Record batches, format v2, without their records: the header, the checksum, and the fields that brokers change.

A batch has 61 bytes of header and its records, which may be compressed as a whole. Its CRC-32C covers everything from
the attributes on, but not base offset and leader epoch, which the broker assigns. The records are decoded and encoded
in records.py.

Sources: Kafka's DefaultRecordBatch, KIP-98, KIP-101.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple, TypeAlias

from odradek.protocol.checksum import crc32c
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer

WritableBuffer: TypeAlias = bytearray | memoryview

# Positions of the fields in a batch.
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
"""Size of base offset and length field, which the length does not include."""
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD
MIN_LEGACY_LENGTH: Final = 14
"""Length of the shortest message of magic 0: crc, magic, attributes and two null lengths."""
LEAST_LENGTH: Final = {0: MIN_LEGACY_LENGTH, 1: MIN_LEGACY_LENGTH + 8, 2: MIN_BATCH_LENGTH}
"""Smallest value of the length field, by magic; magic 1 has a timestamp in addition."""

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
    """Bytes that are not valid record batches. `position`: where the batch begins in the given buffer."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class BatchTooLarge(CorruptBatch):
    """A batch whose records would take more memory than the reader allows."""


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in their order."""

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
        """Time from which on compaction may drop the batch's tombstones or its transaction marker (ms since 1970); None
        if compaction has not set it yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; NO_SEQUENCE if the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


class Entry(NamedTuple):
    """A batch (magic 2) or a message (magic 0 or 1) in a buffer, with what all formats have."""

    position: int
    size_bytes: int
    magic: int
    offset: int
    """Base offset of a batch; offset of a message, which in a compressed one is that of its last inner message."""


def increment_sequence(sequence: int, increment: int) -> int:
    """Return a sequence number plus `increment`; 0 follows 2^31 - 1."""
    return (sequence + increment) & MAX_INT32


def entries(buffer: Buffer, at: int = 0, *, allow_partial_tail: bool = False) -> Iterator[Entry]:
    """Yield the batches and messages of `buffer` from `at` on, of any format. Only magic and sizes are checked.

    Raises CorruptBatch. `allow_partial_tail`: stop without an error if the last one is cut off, as in answers to Fetch.
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
    """Return the header of the batch at `at`; the buffer may end before the batch does. Raises CorruptBatch."""
    try:
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, at))  # as _make does, with one call less
    except error:
        raise CorruptBatch(at, f"{len(buffer) - at} bytes are too few for a header") from None
    if header.magic != MAGIC_V2:
        raise CorruptBatch(at, f"magic {header.magic} where 2 is needed")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptBatch(at, f"length {header.batch_length} is too small")
    return header


def batches(buffer: Buffer, at: int = 0, *, allow_partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Yield positions and headers of the batches from `at` on, as `entries` does. Raises CorruptBatch, also for other
    formats than magic 2."""
    for entry in entries(buffer, at, allow_partial_tail=allow_partial_tail):
        yield entry.position, read_header(buffer, entry.position)


def compute_crc(buffer: Buffer, at: int, size_bytes: int) -> int:
    """Return the CRC-32C of the batch at `at`, from its attributes to its end."""
    return crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : at + size_bytes])


def crc_matches(buffer: Buffer, at: int, header: BatchHeader) -> bool:
    """Tell whether the whole batch is in the buffer and its checksum is right."""
    size = header.size_bytes
    return len(buffer) - at >= size and compute_crc(buffer, at, size) == header.crc


def check_crc(buffer: Buffer, at: int, header: BatchHeader) -> None:
    """Check the checksum of the batch. Raises CorruptBatch if it is wrong or the batch is cut off."""
    if not crc_matches(buffer, at, header):
        raise CorruptBatch(at, f"checksum is not {header.crc:#010x}")


def set_base_offset(buffer: WritableBuffer, at: int, base_offset: int) -> None:
    """Set the base offset of the batch at `at`; the checksum does not cover it."""
    _INT64.pack_into(buffer, at + BASE_OFFSET_AT, base_offset)


def set_leader_epoch(buffer: WritableBuffer, at: int, leader_epoch: int) -> None:
    """Set the leader epoch of the batch at `at`; the checksum does not cover it."""
    _INT32.pack_into(buffer, at + LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, at: int, timestamp_ms: int) -> None:
    """Make the batch one of LogAppendTime with this timestamp: set the bit, the largest timestamp and the checksum."""
    (attributes,) = _INT16.unpack_from(buffer, at + ATTRIBUTES_AT)
    _INT16.pack_into(buffer, at + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    set_max_timestamp(buffer, at, timestamp_ms)


def set_max_timestamp(buffer: WritableBuffer, at: int, timestamp_ms: int) -> None:
    """Set the largest timestamp and the checksum."""
    _INT64.pack_into(buffer, at + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buffer, at)


def update_crc(buffer: WritableBuffer, at: int) -> None:
    """Set the checksum of the batch at `at`, after something that it covers was changed."""
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
    """Return a batch of this header and these records, which are encoded, and compressed. Length and checksum are set.

    A batch without records is what compaction leaves of one whose producer's sequence number is still needed
    (record_count 0).
    """
    size = HEADER_BYTES + len(section)
    batch = bytearray(size)
    batch[HEADER_BYTES:] = section
    HEADER.pack_into(batch, 0, header.base_offset, size - LOG_OVERHEAD, *header[2:4], 0, *header[5:])
    update_crc(batch, 0)
    return batch
