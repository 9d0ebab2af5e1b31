"""What a batch must be before it is written, and the values that pass between an append and its caller.

Only the 61-byte header and the checksum are looked at. Source of the rules and of their codes: UnifiedLog.scala
(analyzeAndValidateRecords), LogValidator.java, of 3.9.
"""

from enum import Enum
from typing import NamedTuple

from odradek.broker.log.batches import Batch, checksum_of, decode_header
from odradek.broker.log.log_config import CREATE_TIME, LogConfig
from odradek.protocol.compression import CODEC_NAMES
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    CorruptBatch,
    compute_crc,
)

LARGEST_CODEC = len(CODEC_NAMES) - 1


class Origin(Enum):
    """Who appends: a client through Produce, or a coordinator of this broker, which may write control batches."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Appended(NamedTuple):
    """What an append did. Of a duplicate these are the offsets of the first time."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 with CreateTime."""
    log_start_offset: int
    duplicate: bool = False


def checked_fields(records: memoryview, at: int, config: LogConfig, origin: Origin) -> tuple[int, ...]:
    """The header fields of the batch at `records[at:]`, in order, after every check that needs no record.

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
    if origin is Origin.CLIENT and (base_offset or attributes & CONTROL_BIT or (producer_id >= 0 and sequence < 0)):
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


def checked_batches(view: memoryview) -> list[Batch]:
    """Return the whole batches in what a leader has sent, each checked. Raises KafkaError CORRUPT_MESSAGE."""
    batches: list[Batch] = []
    at, end, last_offset = 0, len(view), -1
    try:
        while end - at >= LOG_OVERHEAD:
            size = int.from_bytes(view[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD
            if size > end - at:
                break
            if size < LOG_OVERHEAD + MIN_LEGACY_LENGTH:
                raise CorruptBatch(at, f"{size} bytes are too few")
            content = view[at : at + size]
            header = content if size >= HEADER_BYTES else bytes(content) + bytes(HEADER_BYTES)
            batch = decode_header(header, 0, at)
            if checksum_of(content) != batch.crc:
                raise CorruptBatch(at, f"stored checksum {batch.crc} is not that of the batch")
            if batch.base_offset <= last_offset:
                raise CorruptBatch(at, f"offset {batch.base_offset} after {last_offset}")
            last_offset = batch.last_offset
            batches.append(batch)
            at += size
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from None
    return batches
