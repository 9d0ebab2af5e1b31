"""Conversion of message sets to record batches and back, for readers that know only one of them.

The input may hold all three formats, one behind the other: a log that an older Kafka began continues in the present
format. Offsets, keys, values and codecs stay. Conversions yield piece by piece, so that a caller with a limit can stop.

Source of the downward rules: RecordsUtil.downConvert of Kafka 3.9. Upwards Kafka converts only when it appends.
"""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from odradek.protocol import compression
from odradek.protocol.message_set import LegacyMessage, add_records, down_convert_in_steps, read_message
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import (
    CODEC_MASK,
    MAGIC_V2,
    MAX_INT32,
    CorruptBatch,
    Entry,
    check_crc,
    entries,
    read_header,
)
from odradek.protocol.records import Columns, decode_records, encode_batch
from odradek.protocol.records_in_steps import decode_in_steps, encode_in_steps
from odradek.protocol.steps import STEP_RECORDS, Steps, at_once

RUN_BYTES: Final = 64 * 1024
"""Size up to which single messages become one batch."""


def has_messages(records: Buffer) -> bool:
    """Tell whether there are messages of formats before record batches; ignore a cut-off end. Raises CorruptBatch."""
    return any(entry.magic != MAGIC_V2 for entry in entries(records, allow_partial_tail=True))


def end_offset(records: Buffer, default: int) -> int:
    """Return the offset behind the last whole batch or message; `default` when there is none. Raises CorruptBatch."""
    last = deque(entries(records, allow_partial_tail=True), maxlen=1)
    if not last:
        return default
    return (read_header(records, last[0].position).last_offset if last[0].magic == MAGIC_V2 else last[0].offset) + 1


def records_of(batch: Buffer) -> Columns:
    """Return the records of one batch, or of one message, of any format. Raises CorruptBatch."""
    entry = next(entries(batch), None)
    if entry is None or entry.magic == MAGIC_V2:
        return decode_records(batch)
    columns = Columns([], [], [], [])
    at_once(add_records(columns, read_message(batch, 0, entry.size_bytes)))
    return columns


# ---- upwards


def to_batches(records: Buffer, *, compressed: bool) -> Iterator[Buffer]:
    """Convert as `batches_in_steps` does, without a pause."""
    return (piece for piece in batches_in_steps(records, compressed=compressed) if piece is not None)


def batches_in_steps(records: Buffer, *, compressed: bool) -> Iterator[Buffer | None]:
    """Yield all records as record batches; those that are batches already stay as they are. A cut-off end is ignored.

    It also yields None, where the caller may pause, as one batch may take long.
    `compressed`: a batch made of a wrapper gets the wrapper's codec, else none. Successive messages without compression
    share a batch. The batches have leader epoch -1, as old formats have none, and timestamps -1 for magic 0.
    Raises CorruptBatch, also for a wrong checksum.
    """
    run: list[LegacyMessage] = []
    run_bytes = 0
    try:
        for entry in entries(records, allow_partial_tail=True):
            message = None
            if entry.magic != MAGIC_V2:
                message = read_message(records, entry.position, entry.size_bytes)
            if run and (message is None or run_bytes >= RUN_BYTES or not _same_batch(run, message)):
                yield (yield from _batch(run, compression.NONE))
                run, run_bytes = [], 0
            if message is None:
                yield memoryview(records)[entry.position : entry.position + entry.size_bytes]
            elif message.codec != compression.NONE:
                yield (yield from _batch([message], message.codec if compressed else compression.NONE))
            else:
                run.append(message)
                run_bytes += message.size_bytes
                if len(run) % STEP_RECORDS == 0:
                    yield None
    except CorruptBatch:
        if run:  # the valid messages before the fault
            yield (yield from _batch(run, compression.NONE))
        raise
    if run:
        yield (yield from _batch(run, compression.NONE))


def _same_batch(run: list[LegacyMessage], message: LegacyMessage) -> bool:
    """Tell whether a message fits into the batch of these: a batch has one type of timestamps, and if that is
    LogAppendTime, one timestamp."""
    first = run[0]
    same_time = not first.is_log_append_time or message.timestamp == first.timestamp
    return (
        message.codec == compression.NONE
        and message.is_log_append_time == first.is_log_append_time
        and same_time
        and message.offset - first.offset <= MAX_INT32
    )


def _batch(run: list[LegacyMessage], codec: int) -> Steps[bytearray]:
    columns = Columns([], [], [], [])
    for message in run:
        yield from add_records(columns, message)
    offsets = columns.offsets
    if any(one >= following for one, following in pairwise(offsets)):
        raise CorruptBatch(run[0].position, f"offsets do not rise: {offsets[:10]}")
    if offsets[-1] - offsets[0] > MAX_INT32:
        raise CorruptBatch(run[0].position, f"offsets from {offsets[0]} to {offsets[-1]} in one message")
    section = yield from encode_in_steps(columns, [offset - offsets[0] for offset in offsets], codec)
    return encode_batch(
        offsets[0],
        columns.timestamps,
        columns.keys,
        columns.values,
        offsets=offsets,
        codec=codec,
        log_append_time_ms=run[0].timestamp if run[0].is_log_append_time else None,
        section=section,
    )


# ---- downwards


def messages_in_steps(
    records: Buffer, magic: int, from_offset: int, decompressed_limit: int = compression.MAX_DECOMPRESSED_BYTES
) -> Iterator[Buffer | None]:
    """Yield the records as messages of at most `magic` (0 or 1); messages that are so old already stay as they are.

    It also yields None, where the caller may pause, as one batch may take long.
    Headers, control batches, producer ids and epochs are dropped. A compressed batch becomes one wrapper. Of other
    batches the records before `from_offset`, where the reader wants to begin, are left out: each would be a message of
    its own, and librdkafka relies on their absence. Raises CorruptBatch, also for a batch that decompresses to more
    than the limit, and UnknownCodec for zstd.
    """
    for entry in entries(records, allow_partial_tail=True):
        if entry.magic <= magic:
            yield memoryview(records)[entry.position : entry.position + entry.size_bytes]
        elif entry.magic == MAGIC_V2:
            yield (yield from _messages_of_batch(records, entry, magic, from_offset, decompressed_limit))
        else:
            message = read_message(records, entry.position, entry.size_bytes)
            columns = Columns([], [], [], [])
            yield from add_records(columns, message)
            yield (yield from down_convert_in_steps(columns, magic, message.codec))


def _messages_of_batch(
    records: Buffer, entry: Entry, magic: int, from_offset: int, decompressed_limit: int
) -> Steps[bytes]:
    header = read_header(records, entry.position)
    if header.is_control:
        return b""
    if header.attributes & CODEC_MASK == compression.ZSTD:
        raise compression.UnknownCodec("zstd does not exist in message sets")
    check_crc(records, entry.position, header)
    columns = yield from decode_in_steps(records, entry.position, header, decompressed_limit)
    if header.codec == compression.NONE:
        columns = _from_offset(columns, from_offset)
    steps = down_convert_in_steps(columns, magic, header.codec, log_append_time=header.is_log_append_time)
    return (yield from steps)


def _from_offset(columns: Columns, offset: int) -> Columns:
    skip = sum(1 for one in columns.offsets if one < offset)
    return Columns(columns.offsets[skip:], columns.timestamps[skip:], columns.keys[skip:], columns.values[skip:])
