"""Validation and rewriting of batches that a leader may not write as they came: rules that look at their records.

A compacted topic needs keys; LogAppendTime sets the time; a forced `compression.type` recompresses; limits on
timestamps are checked record by record; an impossible largest timestamp is corrected. Source: LogValidator.java of
Kafka 3.9.
"""

from struct import Struct
from typing import NamedTuple

from odradek.broker.settings.topic_settings import CREATE_TIME, LOG_APPEND_TIME, NO_LIMIT_MS, LogConfig
from odradek.protocol.compression import codec_number
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    BatchTooLarge,
    CorruptBatch,
    batches,
    check_crc,
    read_header,
    set_log_append_time,
    set_max_timestamp,
)
from odradek.protocol.records import Columns, encode_batch
from odradek.protocol.records_in_steps import decode_in_steps, encode_in_steps
from odradek.protocol.steps import STEP_RECORDS, Steps, at_once

BOTH_TIMESTAMPS = Struct(">qq")
"""Base timestamp and largest timestamp of a batch."""
PRODUCER = "producer"
EXPANSION_MAX = 16
"""A batch whose records are looked at may decompress to this many times `max.message.bytes`: otherwise the records of a
bomb of a kilobyte would take thousands of times its memory, as they do in Kafka. The answer is MESSAGE_TOO_LARGE, on
which producers send the records again in smaller batches."""
BYTES_AT_ONCE = 4096
"""Size up to which a batch's records are looked at in a millisecond or two, unless it is compressed."""
RECORD_ERRORS_MAX = 10_000
"""Bad records of one batch that an answer names one by one; a compressed batch of a megabyte can hold millions."""
RECORD_ERRORS_TOLD = 3
"""Errors that the text of the error repeats."""


class RecordError(NamedTuple):
    """A record for which a batch is refused, by its number in the batch, and why."""

    batch_index: int
    message: str

    def __str__(self) -> str:
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class BadRecords(KafkaError):  # noqa: N818 - what there is in the batch
    """A batch is refused as a whole because of some of its records, the first RECORD_ERRORS_MAX of them listed.

    Code and text are those of LogValidator.processRecordErrors (KIP-467): one bad timestamp makes it INVALID_TIMESTAMP.
    """

    def __init__(self, record_errors: list[RecordError], count: int, bad_timestamp: bool) -> None:
        if bad_timestamp:
            code, text = ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp"
        else:
            told = ", ".join(map(str, record_errors[:RECORD_ERRORS_TOLD]))
            code, text = (
                ErrorCode.INVALID_RECORD,
                (
                    f"One or more records have been rejected due to {count} record errors in total, "
                    f"and only showing the first three errors at most: [{told}]"
                ),
            )
        super().__init__(code, text)
        self.record_errors = record_errors


def needed(config: LogConfig) -> bool:
    """Tell whether any rule of the topic has to see the records. Asked once per configuration, not per append."""
    return (
        config.compacts
        or config.message_timestamp_type != CREATE_TIME
        or config.compression_type != PRODUCER
        or config.message_timestamp_after_max_ms != NO_LIMIT_MS
        or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    )


def misdated(records: Buffer) -> bool:
    """Tell whether the first batch says that its largest timestamp is below that of its first record.

    Sarama always says -1. Uncorrected, the batch would be found neither by a search by time nor by retention.
    """
    if len(records) < HEADER_BYTES or records[MAGIC_AT] != 2:
        return False
    first_ms, largest_ms = BOTH_TIMESTAMPS.unpack_from(records, BASE_TIMESTAMP_AT)
    return bool(largest_ms < first_ms)


class Rewritten(bytearray):
    """Batches as the rules of `config` want them, except for the time of the append."""

    config: LogConfig


def takes_long(records: Buffer) -> bool:
    """Tell whether `rewrite` may need more than a moment for this batch."""
    return len(records) > BYTES_AT_ONCE or records[ATTRIBUTES_AT + 1] & CODEC_MASK != 0


def apply(config: LogConfig, partition: str, records: memoryview | bytearray, now_ms: int) -> tuple[memoryview, int]:
    """Return the batches as the topic's rules want them, and the log append time given to them or -1.

    What `rewrite` has done before, under the same settings, is not done again. Raises what `rewrite` raises.
    """
    done = isinstance(records, Rewritten) and records.config is config
    view = memoryview(records if done else at_once(rewrite(config, partition, memoryview(records), now_ms)))
    if config.message_timestamp_type != LOG_APPEND_TIME:
        return view, -1
    for at, _ in batches(view):
        set_log_append_time(view, at, now_ms)
    return view, now_ms


def rewrite(config: LogConfig, partition: str, records: memoryview, now_ms: int) -> Steps[Rewritten]:
    """Return the batches as the topic's rules want them, for `apply`.

    `partition`: `topic-0`, for the texts of errors. Raises BadRecords; KafkaError INVALID_TIMESTAMP for a batch of
    LogAppendTime, CORRUPT_MESSAGE for a damaged one, MESSAGE_TOO_LARGE for one that is too large or decompresses to too
    much. The checks of headers come after this, on the result.
    """
    result = Rewritten()
    result.config = config
    at = 0
    try:
        while at < len(records):
            header = read_header(records, at)
            size = header.batch_length + LOG_OVERHEAD
            if size > config.max_message_bytes:  # also what compression would make small enough
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes, max.message.bytes is {config.max_message_bytes}"
                )
            check_crc(records, at, header)
            result += yield from _rewrite_batch(config, partition, records[at : at + size], header, now_ms)
            at += size
    except BatchTooLarge as large:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(large)) from None
    except CorruptBatch as bad:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(bad)) from None
    return result


def _rewrite_batch(
    config: LogConfig, partition: str, batch: memoryview, header: BatchHeader, now_ms: int
) -> Steps[memoryview | bytearray]:
    recompress = config.compression_type != PRODUCER and codec_number(config.compression_type) != header.codec
    times_are_its_own = config.message_timestamp_type == CREATE_TIME
    looks = times_are_its_own and (
        config.message_timestamp_after_max_ms != NO_LIMIT_MS or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    )
    corrects = times_are_its_own and header.max_timestamp < header.base_timestamp
    if not (recompress or looks or corrects or config.compacts) or header.is_control or len(batch) == HEADER_BYTES:
        return batch
    if header.is_log_append_time and times_are_its_own:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")
    records = yield from decode_in_steps(batch, 0, header, EXPANSION_MAX * config.max_message_bytes)
    yield from _check_records(config, partition, records, now_ms, looks)
    if recompress:
        return (yield from _recompress(config, header, records))
    if not corrects or not records.timestamps:
        return batch
    corrected = bytearray(batch)
    set_max_timestamp(corrected, 0, max(records.timestamps))
    return corrected


def _check_records(
    config: LogConfig, partition: str, records: Columns, now_ms: int, check_timestamps: bool
) -> Steps[None]:
    """Look at every record, so that the answer can name all that are bad. Raises BadRecords."""
    earliest, latest = now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms
    times = records.timestamps
    keyless = config.compacts and None in records.keys
    untimely = check_timestamps and len(times) > 0 and not earliest <= min(times) <= max(times) <= latest
    if not keyless and not untimely:
        return
    errors: list[RecordError] = []
    count = 0
    bad_timestamp = False
    for index, (key, timestamp) in enumerate(zip(records.keys, times, strict=True)):
        if index % STEP_RECORDS == 0:
            yield
        if keyless and key is None:
            message = f"Compacted topic cannot accept message without key in topic partition {partition}."
        elif untimely and not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            bad_timestamp = True
            message = (
                f"Timestamp {timestamp} of message with offset {records.offsets[index]} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
        else:
            continue
        count += 1
        if len(errors) < RECORD_ERRORS_MAX:
            errors.append(RecordError(index, message))
    if count:
        raise BadRecords(errors, count, bad_timestamp)


def _recompress(config: LogConfig, header: BatchHeader, records: Columns) -> Steps[bytearray]:
    codec = codec_number(config.compression_type)
    section = yield from encode_in_steps(records, range(len(records)), codec, config.compression_level)
    return encode_batch(
        header.base_offset,
        records.timestamps,
        records.keys,
        records.values,
        raw_headers=records.raw_headers,
        codec=codec,
        section=section,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
