"""Batches by their headers: walking over those of a segment file, checking those that are to be written, and what an
append makes of them.

Of a v2 batch (magic 2) the header is decoded, of a v0/v1 message the part that both have. Payloads are looked at only
to check the CRC, for the markers of transactions, and for the first offset in a compressed old message.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from odradek.broker.settings.topic_settings import CREATE_TIME, LogConfig
from odradek.protocol.compression import CODEC_NAMES
from odradek.protocol.control_records import decode_end_txn_marker
from odradek.protocol.conversion import records_of
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import (
    BATCH_LENGTH_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LEAST_LENGTH,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    NO_TIMESTAMP,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
    CorruptBatch,
    compute_crc,
)
from odradek.protocol.records import decode_records
from odradek.world.files import Buffer, File

LARGEST_EPOCH = 2**31 - 1
LARGEST_CODEC = len(CODEC_NAMES) - 1
OLD_HEADER = struct.Struct(">qiIbb")
OLD_TIMESTAMP = struct.Struct(">q")
OLD_TIMESTAMP_AT = 18
OLD_CRC_FROM = 16

SCAN_CHUNK_BYTES = 16 * 1024
LENGTH = struct.Struct(">i")
OFFSET_AND_LENGTH = struct.Struct(">qi")
"""First fields of every batch and message."""
NEGATIVE = 0x80
"""Least first byte of a negative number, which stands for no producer id."""
HEADERS_CHUNK_BYTES = 64 * 1024
VALIDATE_CHUNK_BYTES = 1024 * 1024


class Batch(NamedTuple):
    """A header and where it stands. `base_offset` of a v0/v1 message is its last offset: the first is not known."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of its records; -1 when compaction has left none, though the header still has theirs."""
        return self.max_timestamp_ms if self.record_count else NO_TIMESTAMP

    @property
    def next_position(self) -> int:
        return self.position + self.size_bytes


class Origin(Enum):
    """Appender of a batch: a client through Produce, or a coordinator here, which may write control batches."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Appended(NamedTuple):
    """Result of an append: offsets of the batches; for a duplicate, those that it got the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """Wall clock of the append with LogAppendTime, -1 with CreateTime; for a duplicate the time of the first one."""
    log_start_offset: int
    duplicate: bool = False


def decode_header(data: Buffer, at: int, position: int) -> Batch:
    """Decode the header at `data[at:]`, which must have 61 bytes (padded where a v0/v1 message is shorter).

    Raises CorruptBatch.
    """
    magic = data[at + MAGIC_AT]
    if magic == 2:
        (
            base, length, epoch, _, crc, attributes, delta, first, largest,
            producer_id, producer_epoch, sequence, count,
        ) = HEADER.unpack_from(data, at)  # fmt: skip
        if length < MIN_BATCH_LENGTH or delta < 0:
            raise CorruptBatch(position, f"batch of length {length} with last offset delta {delta}")
        return tuple.__new__(Batch, (
            position, length + LOG_OVERHEAD, base, base + delta, epoch, magic, crc, attributes, first, largest,
            producer_id, producer_epoch, sequence, count,
        ))  # fmt: skip
    if magic > 2:
        raise CorruptBatch(position, f"magic {magic}")
    offset, length, crc, _, attributes = OLD_HEADER.unpack_from(data, at)
    if length < LEAST_LENGTH[magic]:
        raise CorruptBatch(position, f"message of length {length}")
    timestamp = OLD_TIMESTAMP.unpack_from(data, at + OLD_TIMESTAMP_AT)[0] if magic == 1 else -1
    size = length + LOG_OVERHEAD
    return Batch(position, size, offset, offset, -1, magic, crc, attributes, timestamp, timestamp, -1, -1, -1, 1)


def iterate_headers(file: File, position: int, end: int) -> Iterator[Batch]:
    """Yield the batches between two positions of a file. Raises CorruptBatch at the first bad or incomplete one."""
    while position < end:
        data = file.pread(min(SCAN_CHUNK_BYTES, end - position), position)
        if not data:
            raise CorruptBatch(position, f"the file ends before byte {end}")
        at, limit = 0, len(data) - HEADER_BYTES
        if position + len(data) >= end:
            data, limit = data + bytes(HEADER_BYTES), len(data) - 1
        while at <= limit:
            batch = decode_header(data, at, position + at)
            if batch.next_position > end:
                raise CorruptBatch(position + at, f"batch of {batch.size_bytes} bytes goes past byte {end}")
            yield batch
            at += batch.size_bytes
        position += at


def in_order(file: File, position: int, end: int, first_offset: int) -> Iterator[Batch]:
    """Yield what `iterate_headers` does. Raises CorruptBatch also where an offset does not rise, or is before
    `first_offset`."""
    least_offset = first_offset
    for batch in iterate_headers(file, position, end):
        if batch.base_offset < least_offset:
            raise CorruptBatch(batch.position, f"offset {batch.base_offset} after {least_offset - 1}")
        least_offset = batch.last_offset + 1
        yield batch


def position_of(offset: int, file: File, position: int, end: int) -> int:
    """Return where the first batch with a last offset of `offset` or later begins; `end` when there is none.

    The search begins at the batch at `position`. Raises CorruptBatch when the file is damaged on the way: a header that
    makes no sense, or whose offset does not rise.
    """
    previous = -1
    while position < end:
        data = file.pread(SCAN_CHUNK_BYTES, position)
        at, limit = 0, len(data) - HEADER_BYTES
        if position + len(data) >= end:
            data, limit = data + bytes(HEADER_BYTES), len(data) - 1
        while at <= limit:
            base, length, _, magic, _, _, delta, _, _, _, _, _, _ = HEADER.unpack_from(data, at)
            last = base + delta if magic == MAGIC_V2 else base
            following = position + at + length + LOG_OVERHEAD
            if length < LEAST_LENGTH.get(magic, end) or following > end or not previous < base <= last:
                raise CorruptBatch(position + at, f"no batch of {length} bytes at offset {base} in {file.path}")
            if last >= offset:
                return position + at
            at = following - position
            previous = last
        if at == 0:
            raise CorruptBatch(position, f"{file.path} ends within a batch")
        position += at
    return end


def begins_batch(file: File, position: int, end: int, first_offset: int, last_offset: int) -> bool:
    """Tell whether a batch begins at `position` that ends by `end`, with a base offset from the first to the last."""
    head = file.pread(MAGIC_AT + 1, position)
    if len(head) <= MAGIC_AT:
        return False
    base_offset, length = OFFSET_AND_LENGTH.unpack_from(head)
    least = LEAST_LENGTH.get(head[MAGIC_AT], end)
    return least <= length <= end - position - LOG_OVERHEAD and bool(first_offset <= base_offset <= last_offset)


def iterate_headers_of_producers(file: File, position: int, end: int) -> Iterator[Batch]:
    """Yield, of the batches that `iterate_headers` yields, those with a producer id: without decoding the others.

    Raises CorruptBatch."""
    while position < end:
        data = file.pread(min(HEADERS_CHUNK_BYTES, end - position), position)
        at, size = 0, len(data)
        while at + HEADER_BYTES <= size and data[at + MAGIC_AT] == 2:
            (length,) = LENGTH.unpack_from(data, at + BATCH_LENGTH_AT)
            if length < MIN_BATCH_LENGTH or position + at + length + LOG_OVERHEAD > end:
                break
            if data[at + PRODUCER_ID_AT] < NEGATIVE:
                yield decode_header(data, at, position + at)
            at += length + LOG_OVERHEAD
        if at == 0:  # an old message, or damage: iterate_headers tells which, and where
            yield from (batch for batch in iterate_headers(file, position, end) if batch.producer_id >= 0)
            return
        position += at


def iterate_valid(file: File, end: int) -> Iterator[tuple[Batch, bytes]]:
    """Yield the batches of a file with their bytes, the CRC of each checked. Raises CorruptBatch at the first that does
    not pass."""
    position, wanted = 0, VALIDATE_CHUNK_BYTES
    while position < end:
        asked = min(wanted, end - position)
        data = file.pread(asked, position)
        at, size = 0, len(data)
        if not size:
            raise CorruptBatch(position, f"the file ends before byte {end}")
        last = size < asked or position + size == end
        if last:
            data += bytes(HEADER_BYTES)
        wanted = VALIDATE_CHUNK_BYTES
        while at < size if last else at + HEADER_BYTES <= size:
            batch = decode_header(data, at, position + at)
            following = at + batch.size_bytes
            if following > size:
                if last:
                    reason = f"batch of {batch.size_bytes} bytes goes past byte {position + size}"
                    raise CorruptBatch(position + at, reason)
                wanted = max(wanted, batch.size_bytes)
                break
            content = data[at:following]
            computed = checksum_of(content)
            if computed != batch.crc:
                raise CorruptBatch(position + at, f"checksum is {computed}, stored {batch.crc}")
            yield batch, content
            at = following
        position += at


def first_offset_of(file: File, batch: Batch) -> int:
    """Return the offset of the first record: of a compressed v0/v1 message it lies inside. Raises CorruptBatch."""
    if batch.magic == 2 or batch.attributes & CODEC_MASK == 0:
        return batch.base_offset
    return records_of(file.pread(batch.size_bytes, batch.position)).offsets[0]


def checksum_of(batch: Buffer) -> int:
    """Compute the checksum that a batch should have: CRC-32C of all that follows the field, or CRC-32 in v0 and v1."""
    if batch[MAGIC_AT] == 2:
        return compute_crc(batch, 0, len(batch))
    return zlib.crc32(memoryview(batch)[OLD_CRC_FROM:])


def checked_fields(records: memoryview, at: int, config: LogConfig, *, from_client: bool) -> tuple[int, ...]:
    """Return the header fields of the batch at `records[at:]`, in order, after every check that needs no record.

    Source of the rules and of their codes: UnifiedLog.analyzeAndValidateRecords and LogValidator of Kafka 3.9.
    Raises KafkaError: CORRUPT_MESSAGE (length, checksum), MESSAGE_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT (magic 0
    and 1), INVALID_RECORD, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE.
    """
    left = len(records) - at
    if left < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{left} bytes are less than the header of a batch")
    fields = HEADER.unpack_from(records, at)
    base_offset, length, _, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count = fields
    size = length + LOG_OVERHEAD
    if magic != 2:
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"batch of magic {magic}")
    if length < MIN_BATCH_LENGTH or size > left:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch of length {length} in {left} bytes")
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size} bytes, max.message.bytes is {config.max_message_bytes}"
        )
    if compute_crc(records, at, size) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"stored checksum {crc} is not that of the batch")
    if count <= 0 or delta + 1 != count:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records with a last offset delta of {delta}")
    if from_client and (base_offset or attributes & CONTROL_BIT or (producer_id >= 0 and sequence < 0)):
        raise KafkaError(ErrorCode.INVALID_RECORD, _why_not_from_client(base_offset, attributes, sequence))
    if attributes & LOG_APPEND_TIME_BIT and config.message_timestamp_type == CREATE_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")
    if attributes & CODEC_MASK > LARGEST_CODEC:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {attributes & CODEC_MASK}")
    return fields


def _why_not_from_client(base_offset: int, attributes: int, sequence: int) -> str:
    if base_offset:
        return f"base offset {base_offset}, a client has to send 0"
    if attributes & CONTROL_BIT:
        return "clients may not write control batches"
    return f"sequence {sequence} with a producer id"


class EndOfTransaction(NamedTuple):
    """Content of a transaction's marker."""

    aborted: bool
    coordinator_epoch: int


def decode_end_of_transaction(batch: Buffer) -> EndOfTransaction | None:
    """Decode a whole control batch; None when it ends no transaction. Raises KafkaError INVALID_RECORD."""
    try:
        records = decode_records(batch)
        marker = decode_end_txn_marker(records.keys[0], records.values[0])
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"control record: {error}") from None
    return None if marker is None else EndOfTransaction(not marker.committed, marker.coordinator_epoch)


def checked_batches(view: memoryview, leader_epoch: int = LARGEST_EPOCH) -> list[Batch]:
    """Return the whole batches of what the leader of an epoch has sent, checked.

    Raises KafkaError: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD for a transaction's marker that makes no sense.
    The list ends before a batch of a later epoch: then the leader has been deposed, and the range of its file that its
    answer names was truncated and overwritten before it was sent (Kafka 4: UnifiedLog.hasHigherPartitionLeaderEpoch).
    """
    batches: list[Batch] = []
    at, end, last_offset = 0, len(view), -1
    try:
        while end - at >= LOG_OVERHEAD:
            (length,) = LENGTH.unpack_from(view, at + BATCH_LENGTH_AT)
            size = length + LOG_OVERHEAD
            if size > end - at:
                break
            if size < LOG_OVERHEAD + MIN_LEGACY_LENGTH:
                raise CorruptBatch(at, f"{size} bytes are too few")
            content = view[at : at + size]
            header = content if size >= HEADER_BYTES else bytes(content) + bytes(HEADER_BYTES)
            batch = decode_header(header, 0, at)
            if checksum_of(content) != batch.crc:
                raise CorruptBatch(at, f"stored checksum {batch.crc} is not that of the batch")
            if batch.leader_epoch > leader_epoch:
                break
            if batch.base_offset <= last_offset:
                raise CorruptBatch(at, f"offset {batch.base_offset} after {last_offset}")
            last_offset = batch.last_offset
            if batch.attributes & CONTROL_BIT and batch.producer_id >= 0 and batch.record_count:
                decode_end_of_transaction(content)
            batches.append(batch)
            at += size
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from None
    return batches
