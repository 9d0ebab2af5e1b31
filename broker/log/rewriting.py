"""Batches that a leader may not write as they came: the rules that look at records, or change them.

A compacted topic needs keys; LogAppendTime sets the time; a forced `compression.type` recompresses; limits on
timestamps are checked record by record. Source: LogValidator.java of Kafka 3.9.
"""

from odradek.broker.log.config import CREATE_TIME, LOG_APPEND_TIME, NO_LIMIT_MS, LogConfig
from odradek.protocol.compression import codec_number
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
    set_log_append_time,
)
from odradek.protocol.records import Columns, decode_records, encode_batch

PRODUCER = "producer"
EXPANSION_MAX = 16
"""A batch whose records are looked at may decompress to so many times `max.message.bytes`: a bomb of a kilobyte would
otherwise keep the loop busy for seconds, and its records a hundred times its memory."""


def needed(config: LogConfig) -> bool:
    """Whether any rule of the topic has to see the records. Asked once per configuration, not per append."""
    return (
        config.compacts
        or config.message_timestamp_type != CREATE_TIME
        or config.compression_type != PRODUCER
        or config.message_timestamp_after_max_ms != NO_LIMIT_MS
        or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    )


def rewrite(config: LogConfig, records: memoryview, now_ms: int) -> tuple[memoryview, int]:
    """The batches as this topic has them, and the log append time given to them or -1.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP; damaged batches are CORRUPT_MESSAGE. The checks of headers
    come after this, on the result.
    """
    append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else -1
    parts: list[memoryview | bytearray] = []
    at = 0
    try:
        while at < len(records):
            header = read_header(records, at)
            size = header.batch_length + LOG_OVERHEAD
            check_crc(records, at, header)
            parts.append(_rewrite_batch(config, records[at : at + size], header, now_ms, append_time_ms))
            at += size
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from None
    return memoryview(parts[0] if len(parts) == 1 else bytearray(b"".join(parts))), append_time_ms


def _rewrite_batch(
    config: LogConfig, batch: memoryview, header: BatchHeader, now_ms: int, append_time_ms: int
) -> memoryview | bytearray:
    recompress = config.compression_type != PRODUCER and codec_number(config.compression_type) != header.codec
    looks = append_time_ms < 0 and (
        config.message_timestamp_after_max_ms != NO_LIMIT_MS or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    )
    result: memoryview | bytearray = batch
    if (recompress or looks or config.compacts) and not header.is_control and len(batch) > HEADER_BYTES:
        if header.is_log_append_time and append_time_ms < 0:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")
        records = decode_records(batch, decompressed_limit=EXPANSION_MAX * config.max_message_bytes)
        _check_records(config, records, now_ms, looks)
        if recompress:
            result = _recompress(codec_number(config.compression_type), header, records)
    if append_time_ms >= 0:
        set_log_append_time(result, 0, append_time_ms)
    return result


def _check_records(config: LogConfig, records: Columns, now_ms: int, check_timestamps: bool) -> None:
    if config.compacts and None in records.keys:
        index = records.keys.index(None)
        raise KafkaError(ErrorCode.INVALID_RECORD, f"record {index} has no key and the topic is compacted")
    if not check_timestamps:
        return
    earliest, latest = now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    for index, timestamp in enumerate(records.timestamps):
        if not earliest <= timestamp <= latest and timestamp != -1:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"record {index} has timestamp {timestamp}, allowed are {earliest} to {latest}",
            )


def _recompress(codec: int, header: BatchHeader, records: Columns) -> bytearray:
    return encode_batch(
        header.base_offset,
        records.timestamps,
        records.keys,
        records.values,
        raw_headers=records.raw_headers,
        codec=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
