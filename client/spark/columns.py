"""Columns of records for Arrow, straight from record batches: no object is made for a record.

A loop goes from record to record by their lengths; numpy then reads everything inside of them for all records of an
answer at once. Arrow copies keys and values once, out of one array of all the bytes. protocol/records.py describes the
layout of a record; this module must agree with `decode_section` there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
from numpy.typing import NDArray

from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer, read_varint
from odradek.protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch
from odradek.protocol.records import decode_headers

Integers = NDArray[numpy.int64]
PADDING = bytes(16)
"""Bytes behind the last record, so that a number that is cut off is noticed by its position, and not by IndexError."""
DECOMPRESSED_AT_ONCE = 1 << 28
"""Bytes of decompressed records after which no further batch is added. Arrow's offsets have 32 bits, and a single batch
may have half of this."""
MICROSECONDS = 1000
MILLISECONDS_MAX = (2**63 - 1) // MICROSECONDS
HEADER_TYPE = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", tz="UTC")),
        ("timestampType", pyarrow.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pyarrow.field("headers", pyarrow.list_(HEADER_TYPE)))
_KEY, _VALUE, _PIECES = 0, 2, 4
"""Index of key and value among the pieces of a record: the key, bytes between, the value, bytes up to the next key."""


@dataclass(frozen=True, slots=True)
class Sections:
    """Decompressed records of some batches, one after the other in `data`, which ends with PADDING."""

    data: bytes
    headers: Sequence[BatchHeader]
    ends: Integers
    """End of each batch's records in `data`."""


def sections(records: memoryview, batches: Iterable[tuple[int, BatchHeader]]) -> Sections:
    """Return the decompressed records of the first batches, until there are DECOMPRESSED_AT_ONCE bytes. Raises
    MalformedMessage."""
    parts: list[Buffer] = []
    headers: list[BatchHeader] = []
    size_bytes = 0
    for position, header in batches:
        if size_bytes >= DECOMPRESSED_AT_ONCE:
            break
        content = records[position + HEADER_BYTES : position + header.size_bytes]
        part = content if header.codec == compression.NONE else compression.decompress(header.codec, content)
        size_bytes += len(part)
        parts.append(part)
        headers.append(header)
    ends = numpy.cumsum([len(part) for part in parts], dtype=numpy.int64)
    return Sections(b"".join((*parts, PADDING)), headers, ends)


@dataclass(frozen=True, slots=True)
class Located:
    """Positions of keys, values and headers in the bytes, and all numbers; index i of each array is record i."""

    offsets: Integers
    timestamps_ms: Integers
    timestamp_types: NDArray[numpy.int32]
    key_starts: Integers
    key_lengths: Integers
    value_starts: Integers
    value_lengths: Integers
    header_starts: Integers
    ends: Integers


def locate(found: Sections) -> Located:
    """Read the numbers of all records. Raises CorruptBatch when a length is wrong."""
    counts = numpy.array([header.record_count for header in found.headers], dtype=numpy.int64)
    try:
        bodies, ends = _bounds(found.data, int(counts.sum()))
        return _located(found, counts, bodies, ends)
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(0, f"records: {error}") from None


def _bounds(data: bytes, count: int) -> tuple[Integers, Integers]:
    """Return where the records start, behind their length fields, and where they end. The only loop over records."""
    bodies: list[int] = []
    ends: list[int] = []
    at = 0
    for _ in range(count):
        number = data[at]
        if number < 0x80:
            at += 1
        elif data[at + 1] < 0x80:
            number = (number & 0x7F) | (data[at + 1] << 7)
            at += 2
        else:
            length, at = read_varint(data, at)
            if length < 0:
                raise MalformedMessage("a record of negative size")
            number = length << 1
        bodies.append(at)
        at += number >> 1
        ends.append(at)
    return numpy.array(bodies, dtype=numpy.int64), numpy.array(ends, dtype=numpy.int64)


def _located(found: Sections, counts: Integers, bodies: Integers, ends: Integers) -> Located:
    raw = numpy.frombuffer(found.data, dtype=numpy.uint8)
    ends_of_batches = numpy.concatenate(([0], ends))[numpy.cumsum(counts)]  # 0 in front: first batches may be empty
    if (counts < 0).any() or not numpy.array_equal(ends_of_batches, found.ends):
        raise MalformedMessage("the records of a batch do not fill it")
    if (raw[numpy.concatenate(([0], ends))[:-1]] & 1).any():
        raise MalformedMessage("a record of negative size")
    timestamp_deltas, at = _varints(raw, bodies + 1)  # behind the attributes
    offset_deltas, at = _varints(raw, at)
    key_lengths, key_starts = _varints(raw, at)
    value_lengths, value_starts = _varints(raw, key_starts + numpy.maximum(key_lengths, 0))
    header_starts = value_starts + numpy.maximum(value_lengths, 0)
    if (header_starts >= ends).any():
        raise MalformedMessage("a record is longer than its length field says")
    if ((raw[header_starts] == 0) & (header_starts + 1 != ends)).any():
        raise MalformedMessage("a record is not as long as its length field says")
    appended = numpy.repeat([header.is_log_append_time for header in found.headers], counts)
    of_batch = numpy.repeat([header.max_timestamp for header in found.headers], counts)
    base = numpy.repeat([header.base_timestamp for header in found.headers], counts)
    return Located(
        offset_deltas + numpy.repeat([header.base_offset for header in found.headers], counts),
        numpy.where(appended, of_batch, base + timestamp_deltas),
        appended.astype(numpy.int32),
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        header_starts,
        ends,
    )


def _varints(raw: NDArray[numpy.uint8], at: Integers) -> tuple[Integers, Integers]:
    """Return the signed varints at these positions, and the positions behind them. Raises IndexError,
    MalformedMessage."""
    first = raw[at]
    number = (first & 0x7F).astype(numpy.uint64)
    behind = at + 1
    longer = numpy.flatnonzero(first & 0x80)
    shift = 7
    while len(longer):
        if shift > 63:
            raise MalformedMessage("a number is longer than ten bytes")
        byte = raw[behind[longer]]
        number[longer] |= (byte & 0x7F).astype(numpy.uint64) << numpy.uint64(shift)
        behind[longer] += 1
        longer = longer[(byte & 0x80) != 0]
        shift += 7
    half = (number >> numpy.uint64(1)).astype(numpy.int64)
    return half ^ -(number & numpy.uint64(1)).astype(numpy.int64), behind


def record_batch(
    found: Sections, located: Located, topic: str, partition: int, start: int, end: int, *, include_headers: bool
) -> pyarrow.RecordBatch:
    """Return the records with offsets from `start` to before `end`."""
    keep = numpy.flatnonzero((located.offsets >= start) & (located.offsets < end))
    pieces = _pieces(found.data, located)
    count = len(keep)
    arrays: list[Any] = [
        _taken(pieces, keep, _KEY, located.key_lengths[keep] < 0),
        _taken(pieces, keep, _VALUE, located.value_lengths[keep] < 0),
        pyarrow.repeat(topic, count),
        pyarrow.repeat(pyarrow.scalar(partition, pyarrow.int32()), count),
        pyarrow.array(located.offsets[keep]),
        _timestamps(located.timestamps_ms[keep]),
        pyarrow.array(located.timestamp_types[keep]),
    ]
    if not include_headers:
        return pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    arrays.append(_headers(found.data, located, keep))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS)


def _timestamps(milliseconds: Integers) -> Any:
    """Return Arrow timestamps, null where Spark's type is too small: producers may set any number, even nanoseconds."""
    out_of_range = (milliseconds > MILLISECONDS_MAX) | (milliseconds < -MILLISECONDS_MAX)
    microseconds = numpy.where(out_of_range, 0, milliseconds) * MICROSECONDS
    mask = out_of_range if out_of_range.any() else None
    return pyarrow.array(microseconds, mask=mask).view(pyarrow.timestamp("us", tz="UTC"))


def _pieces(data: bytes, located: Located) -> Any:
    """Return all bytes as one binary array of four pieces per record. Nothing is copied."""
    bounds = numpy.empty(len(located.ends) * _PIECES + 1, dtype=numpy.int32)
    bounds[0:-1:_PIECES] = located.key_starts
    bounds[1::_PIECES] = located.key_starts + numpy.maximum(located.key_lengths, 0)
    bounds[2::_PIECES] = located.value_starts
    bounds[3::_PIECES] = located.header_starts
    bounds[-1] = located.ends[-1] if len(located.ends) else 0
    buffers = [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(data)]
    return pyarrow.BinaryArray.from_buffers(pyarrow.binary(), len(bounds) - 1, buffers)


def _taken(pieces: Any, keep: Integers, piece: int, nulls: NDArray[numpy.bool_]) -> Any:
    if nulls.all():
        return pyarrow.nulls(len(keep), pyarrow.binary())
    return pieces.take(pyarrow.array(keep * _PIECES + piece, mask=nulls))


def _headers(data: bytes, located: Located, keep: Integers) -> Any:
    """Return the headers; null for a record without any, as in Spark's source."""
    starts, ends = located.header_starts[keep], located.ends[keep]
    if (starts + 1 == ends).all():
        return pyarrow.nulls(len(keep), pyarrow.list_(HEADER_TYPE))
    lists: list[list[dict[str, object]] | None] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        found = decode_headers(data[start:end]) if end - start > 1 else []
        lists.append([{"key": key, "value": value} for key, value in found] or None)
    return pyarrow.array(lists, pyarrow.list_(HEADER_TYPE))
