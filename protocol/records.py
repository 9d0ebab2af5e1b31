"""The records of a batch, by columns: offsets, timestamps, keys, values, headers.

The code is made for speed: loops are plain and typed, no objects are made for a record but its key and value, and mypyc
can compile the file. The batch around the records is in record_batch.py.

A record: length (varint of all that follows), attributes (unused), timestamp delta (varlong), offset delta, key
length (-1 null) and key, value length and value, header count and headers: all numbers zigzag varints.
Sources: Kafka's DefaultRecord, KIP-82, KIP-98.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, Buffer, read_varint, read_varlong, write_varint
from odradek.protocol.record_batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_V2,
    MAX_INT32,
    MAX_INT64,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    BatchTooLarge,
    CorruptBatch,
    assemble_batch,
    batch_attributes,
    read_header,
)
from odradek.protocol.record_runs import read_run

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""A record's headers in their order; there may be several with the same key."""

NO_HEADERS: Final = b"\x00"
"""Header section of a record without headers."""
_NULL: Final = b"\x01"
_SMALL: Final = 1024
_VARINTS: Final[list[bytes]] = [write_varint(value) for value in range(_SMALL)]
_INT64_SPAN: Final = 2**64
_FAR: Final = 2**62
COMPILED: Final = not __file__.endswith(".py")
"""True when mypyc has compiled this module to C."""


class Columns:
    """Records of one batch; the i-th element of each list is that of the i-th record."""

    __slots__ = ("keys", "offsets", "raw_headers", "timestamps", "values")

    def __init__(
        self,
        offsets: list[int],
        timestamps: list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        raw_headers: list[bytes] | None = None,
    ) -> None:
        """`raw_headers`: the encoded header section of each record; None if no record has headers."""
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.raw_headers = raw_headers

    def __len__(self) -> int:
        return len(self.offsets)

    def headers(self, index: int) -> list[tuple[str, bytes | None]]:
        """Decode the headers of one record. Raises CorruptBatch."""
        return [] if self.raw_headers is None else decode_headers(self.raw_headers[index])


def encode_headers(headers: Headers) -> bytes:
    """Return the header section of a record."""
    if not headers:
        return NO_HEADERS
    out = bytearray(write_varint(len(headers)))
    for key, value in headers:
        name = key.encode()
        out += write_varint(len(name))
        out += name
        if value is None:
            out += _NULL
        else:
            out += write_varint(len(value))
            out += value
    return bytes(out)


def decode_headers(section: bytes) -> list[tuple[str, bytes | None]]:
    """Decode what `encode_headers` returns; a key that is not UTF-8 gets replacement characters. Raises
    CorruptBatch."""
    headers: list[tuple[str, bytes | None]] = []
    try:
        count, at = read_varint(section, 0)
        for _ in range(count):
            length, at = read_varint(section, at)
            if length < 0:
                raise CorruptBatch(0, "a header without a key")
            key = section[at : at + length].decode("utf-8", "like-java")
            length, at = read_varint(section, at + length)
            value = None if length < 0 else section[at : at + length]
            at += max(0, length)
            headers.append((key, value))
    except MalformedMessage as error:
        raise CorruptBatch(0, f"headers: {error}") from None
    if count < 0 or at != len(section):
        raise CorruptBatch(0, f"{count} headers do not fill their {len(section)} bytes")
    return headers


def encode_batch(
    base_offset: int,
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers] | None = None,
    *,
    raw_headers: Sequence[bytes] | None = None,
    offsets: Sequence[int] | None = None,
    last_offset: int | None = None,
    codec: int = compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    section: bytes | None = None,
) -> bytearray:
    """Encode one batch of at least one record.

    Headers are given as `headers`, or encoded as `raw_headers`. `offsets`: default base_offset, base_offset + 1, …;
    `last_offset`: default the last record's; compaction, which leaves gaps, needs both. `log_append_time_ms`: the
    timestamp of a batch of LogAppendTime. `delete_horizon_ms`: see `BatchHeader`. `section`: these records as
    `encode_in_steps` has encoded and compressed them.
    """
    count = len(timestamps)
    assert count > 0 and len(keys) == count and len(values) == count, (count, len(keys), len(values))
    if headers is not None:
        raw_headers = [encode_headers(one) for one in headers]
    base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
    deltas = range(count) if offsets is None else [offset - base_offset for offset in offsets]
    if section is None:
        section = encode_section(deltas, timestamps, base_timestamp, keys, values, raw_headers)
        if codec != compression.NONE:
            section = compression.compress(codec, section, level=level)
    header = BatchHeader(
        base_offset,
        0,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        batch_attributes(codec, transactional, control, log_append_time_ms is not None, delete_horizon_ms is not None),
        deltas[-1] if last_offset is None else last_offset - base_offset,
        base_timestamp,
        max(timestamps) if log_append_time_ms is None else log_append_time_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return assemble_batch(header, section)


def encode_section(
    deltas: Sequence[int],
    timestamps: Sequence[int],
    base_timestamp: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    raw_headers: Sequence[bytes] | None,
) -> bytes:
    """Return all records of a batch, encoded; there is no call for each, as that would take long."""
    parts: list[bytes] = []
    raw = NO_HEADERS
    index = 0
    for delta, moment, key, value in zip(deltas, timestamps, keys, values, strict=True):
        number = moment - base_timestamp
        timestamp = _VARINTS[number] if 0 <= number < _SMALL else write_varint(wrap_int64(number))
        offset = _VARINTS[delta] if delta < _SMALL else write_varint(delta)
        if raw_headers is not None:
            raw = raw_headers[index]
            index += 1
        size = 1 + len(timestamp) + len(offset) + len(raw)
        if key is None:
            key = b""
            key_length = _NULL
        else:
            number = len(key)
            key_length = _VARINTS[number] if number < _SMALL else write_varint(number)
            size += number
        if value is None:
            value = b""
            value_length = _NULL
        else:
            number = len(value)
            value_length = _VARINTS[number] if number < _SMALL else write_varint(number)
            size += number
        size += len(key_length) + len(value_length)
        length = _VARINTS[size] if size < _SMALL else write_varint(size)
        parts += (length, b"\x00", timestamp, offset, key_length, key, value_length, value, raw)
    return b"".join(parts)


def wrap_int64(value: int) -> int:
    """Return a sum or difference as Java's long has it, which overflows at 64 bits."""
    return value if -MAX_INT64 <= value <= MAX_INT64 else (value + MAX_INT64 + 1) % _INT64_SPAN - MAX_INT64 - 1


def decode_records(
    batch: Buffer,
    at: int = 0,
    *,
    header: BatchHeader | None = None,
    decompressed_limit: int = compression.MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Return the records of the batch at `at`. The checksum is not checked.

    `header`: the batch's, if it was read before. Raises CorruptBatch, also if the batch is cut off; BatchTooLarge if it
    decompresses to more than the limit.
    """
    if header is None:
        header = read_header(batch, at)
    if header.attributes & CODEC_MASK:
        section = section_of(batch, at, header, decompressed_limit)
    else:
        section = bytes(stored_section(batch, at, header))
    try:
        columns = decode_section(section, header.record_count, header.base_offset, header.base_timestamp)
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(at, f"records: {error}") from None
    if header.attributes & LOG_APPEND_TIME_BIT:
        columns.timestamps = [header.max_timestamp] * len(columns)
    return columns


def stored_section(batch: Buffer, at: int, header: BatchHeader) -> memoryview:
    """Return the encoded records of the batch at `at`, still compressed. Raises CorruptBatch if it is cut off."""
    size = header.batch_length + LOG_OVERHEAD
    if len(batch) - at < size:
        raise CorruptBatch(at, f"{size} bytes announced, {len(batch) - at} there")
    return memoryview(batch)[at + HEADER_BYTES : at + size]


def section_of(
    batch: Buffer, at: int, header: BatchHeader, decompressed_limit: int = compression.MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Return the encoded records of the batch at `at`, decompressed. Raises CorruptBatch if it is cut off or cannot be
    decompressed; BatchTooLarge if that gives more than the limit."""
    section = stored_section(batch, at, header)
    if header.codec == compression.NONE:
        return bytes(section)
    try:
        return compression.decompress(header.codec, section, decompressed_limit)
    except compression.DecompressesTooLarge as error:
        raise BatchTooLarge(at, f"records: {error}") from None
    except MalformedMessage as error:
        raise CorruptBatch(at, f"records: {error}") from None


def read_wide(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return the signed varint at `at`, of whose bytes `first` is not the last, and the position behind it."""
    second = data[at + 1]
    if second < 0x80:
        number = (first & 0x7F) | (second << 7)
        return (number >> 1) ^ -(number & 1), at + 2
    return read_varlong(data, at)


def decode_section(data: bytes, count: int, base_offset: int, base_timestamp: int) -> Columns:
    """Decode `count` uncompressed records, which must fill `data`. Raises IndexError or MalformedMessage.

    Runs of one layout at the beginning are read together, and the other records one by one; if this module is compiled,
    all are read one by one, which is faster then. Varints of one byte are read without a call, and also those of two
    bytes where they are common: offsets, and the lengths of records and values. This makes the function long, but a
    call for each number would take longer than all the rest.
    """
    if count < 0:
        raise MalformedMessage(f"{count} records")
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    raw_headers: list[bytes] | None = None
    at = 0
    while not COMPILED and len(keys) < count and (run := read_run(data, at, len(keys), count, base_timestamp)):
        at = run.end
        timestamps += run.timestamps
        keys += run.keys
        values += run.values
    offsets = list(range(base_offset, base_offset + len(keys)))
    if len(keys) == count and at == len(data) and -_FAR < base_timestamp < _FAR:  # no timestamp of a run overflows
        return Columns(offsets, timestamps, keys, values)
    for index in range(len(keys), count):
        number = data[at]
        if number < 0x80:
            at += 1
            end = at + SIGNED[number]
        elif (second := data[at + 1]) < 0x80 and not number & 1:
            at += 2
            end = at + (number >> 1 & 0x3F | second << 6)
        else:
            number, at = read_wide(data, at, number)
            end = at + number
        number = data[at + 1]  # behind the attributes
        if number < 0x80:
            at += 2
            timestamps.append(base_timestamp + SIGNED[number])
        else:
            number, at = read_wide(data, at + 1, number)
            timestamps.append(base_timestamp + number)
        number = data[at]
        if number < 0x80:
            at += 1
            offsets.append(base_offset + SIGNED[number])
        elif (second := data[at + 1]) < 0x80 and not number & 1:
            at += 2
            offsets.append(base_offset + (number >> 1 & 0x3F | second << 6))
        else:
            number, at = read_wide(data, at, number)
            if number > MAX_INT32:
                raise MalformedMessage("an offset delta is more than 32 bits")
            offsets.append(base_offset + number)
        number = data[at]
        if number < 0x80:
            number = SIGNED[number]
            at += 1
        else:
            number, at = read_wide(data, at, number)
        if number >= 0:
            keys.append(data[at : at + number])
            at += number
        else:
            keys.append(None)
        number = data[at]
        if number < 0x80:
            number = SIGNED[number]
            at += 1
        elif (second := data[at + 1]) < 0x80 and not number & 1:
            at += 2
            number = number >> 1 & 0x3F | second << 6
        else:
            number, at = read_wide(data, at, number)
        if number >= 0:
            values.append(data[at : at + number])
            at += number
        else:
            values.append(None)
        if end <= at:
            raise MalformedMessage(f"record {index} is longer than it says")
        if data[at] != 0 or raw_headers is not None:
            if raw_headers is None:
                raw_headers = [NO_HEADERS] * index
            raw_headers.append(data[at:end])
        elif at + 1 != end:
            raise MalformedMessage(f"record {index} is not as long as it says")
        at = end
    if at != len(data):
        raise MalformedMessage(f"{count} records do not fill {len(data)} bytes")
    if timestamps and (max(timestamps) > MAX_INT64 or min(timestamps) < -MAX_INT64):
        timestamps = [wrap_int64(timestamp) for timestamp in timestamps]
    return Columns(offsets, timestamps, keys, values, raw_headers)
