"""Decoding and encoding in steps of the records of a batch, which may be very many.

A batch of a megabyte can hold a hundred thousand records, and a compressed one millions. Programs with other work to do
meanwhile use these functions, others those of records.py.
"""

from collections.abc import Sequence
from typing import Final

from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, Buffer
from odradek.protocol.record_batch import BatchHeader, BatchTooLarge, CorruptBatch
from odradek.protocol.records import (
    NO_HEADERS,
    Columns,
    decode_section,
    encode_section,
    read_wide,
    stored_section,
)
from odradek.protocol.steps import STEP_RECORDS, Steps

RECORDS_MAX: Final = 1_000_000
"""Most records of one batch that are decoded: each takes a hundred bytes of memory."""
LEAST_RECORD_BYTES: Final = 7
"""Size of a record without key, value and headers."""


def decode_in_steps(batch: Buffer, at: int, header: BatchHeader, decompressed_limit: int) -> Steps[Columns]:
    """Return the records of the batch at `at`, as `decode_records` does.

    Raises CorruptBatch, which is BatchTooLarge for more than RECORDS_MAX records, or if they decompress to more than
    the limit.
    """
    stored = stored_section(batch, at, header)
    columns = Columns([], [], [], [])
    try:
        section = yield from compression.decompress_in_steps(header.codec, stored, decompressed_limit)
        if header.record_count * LEAST_RECORD_BYTES > len(section):
            raise MalformedMessage(f"{header.record_count} of them in {len(section)} bytes")
        if header.record_count > RECORDS_MAX:
            raise BatchTooLarge(at, f"{header.record_count} records, at most {RECORDS_MAX} are decoded")
        position, left = 0, header.record_count
        while left > STEP_RECORDS:
            end = _end_of(section, position, STEP_RECORDS)
            _decode(columns, section[position:end], STEP_RECORDS, header)
            position, left = end, left - STEP_RECORDS
            yield
        _decode(columns, section[position:], left, header)
    except compression.DecompressesTooLarge as error:
        raise BatchTooLarge(at, f"records: {error}") from None
    except BatchTooLarge:
        raise
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(at, f"records: {error}") from None
    if header.is_log_append_time:
        columns.timestamps = [header.max_timestamp] * len(columns)
    return columns


def _end_of(section: bytes, at: int, count: int) -> int:
    """Return the position behind `count` records. Raises IndexError, MalformedMessage."""
    for _ in range(count):
        number = section[at]
        number, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(section, at, number)
        if number < 0:
            raise MalformedMessage(f"a record of {number} bytes")
        at += number
    return at


def _decode(columns: Columns, section: bytes, count: int, header: BatchHeader) -> None:
    """Add the records in `section`, a part of the batch's, to `columns`. Raises IndexError, MalformedMessage."""
    some = decode_section(section, count, header.base_offset, header.base_timestamp)
    if some.raw_headers is not None and columns.raw_headers is None:
        columns.raw_headers = [NO_HEADERS] * len(columns)
    if columns.raw_headers is not None:
        columns.raw_headers += some.raw_headers or [NO_HEADERS] * len(some)
    columns.offsets += some.offsets
    columns.timestamps += some.timestamps
    columns.keys += some.keys
    columns.values += some.values


def encode_in_steps(columns: Columns, deltas: Sequence[int], codec: int, level: int | None = None) -> Steps[bytes]:
    """Return records encoded and compressed, as the `section` that `encode_batch` takes.

    `deltas`: their offsets minus the batch's base offset.
    """
    parts: list[bytes] = []
    raw = columns.raw_headers
    for first in range(0, len(columns), STEP_RECORDS):
        step = slice(first, first + STEP_RECORDS)
        parts.append(
            encode_section(
                deltas[step],
                columns.timestamps[step],
                columns.timestamps[0],
                columns.keys[step],
                columns.values[step],
                None if raw is None else raw[step],
            )
        )
        yield
    section = b"".join(parts)
    if codec == compression.NONE:
        return section
    return (yield from compression.compress_in_steps(codec, section, level=level))
