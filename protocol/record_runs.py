"""Runs of records that are laid out alike, decoded together: many a batch holds records of one size.

Such records differ only in timestamp, offset, key and value, and these stand at the same places in each. So a column of
one byte of every record is a slice with a step, which shows at once how far the run goes; and `struct` cuts out keys
and values. A loop over the records, which reads one varint after the other, takes four times as long in plain Python.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, read_varint, read_varlong, write_varint

LEAST: Final = 8
"""A shorter run is not worth its preparation."""
_NARROW: Final = 1 << 6
"""Offset deltas from here on take two bytes,"""
_WIDE: Final = 1 << 13
"""and from here on three, of which no run is made."""
_FIRST_BYTES: Final = bytes(write_varint(delta)[0] for delta in range(_WIDE))
_SECOND_BYTES: Final = bytes(_NARROW) + bytes(write_varint(delta)[1] for delta in range(_NARROW, _WIDE))


class Run(NamedTuple):
    """Columns of records that follow each other; so do their offsets."""

    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    end: int
    """Where the next record begins."""


class _Layout(NamedTuple):
    """Where the parts of a record without headers stand, counted from its beginning."""

    size: int
    fixed: list[tuple[int, int]]
    """Places and the bytes that stand there in all records of a run: lengths, and the number of headers."""
    offset_at: int
    has_key: bool
    has_value: bool
    cutter: Struct
    """Cuts out the timestamp, and key and value if it has them."""


_layouts: dict[bytes, _Layout] = {}
"""Layouts seen last, by the first bytes of a record. What they say is compared with every record that is read."""
_LAYOUTS_KEPT: Final = 256
_FIRST: Final = 3
"""Bytes of a record that tell its length, mostly."""


def read_run(data: bytes, at: int, index: int, count: int, base_timestamp: int) -> Run | None:
    """Return the records from `at` on, the `index`-th of `count`, that are laid out as the first one.

    None for few of them, and wherever something is unusual or damaged: to be read one by one.
    """
    most = min(count, _NARROW if index < _NARROW else _WIDE) - index
    if most < LEAST:
        return None
    layout = _layouts.get(data[at : at + _FIRST])
    length = 0 if layout is None else _alike(data, at, index, most, layout)
    if length < LEAST:
        layout = _read_layout(data, at)
        length = 0 if layout is None else _alike(data, at, index, most, layout)
    if layout is None or length < LEAST:
        return None
    end = at + length * layout.size
    columns = iter(zip(*layout.cutter.iter_unpack(memoryview(data)[at:end]), strict=True))
    timestamps = _timestamps(next(columns), base_timestamp)
    if timestamps is None:
        return None
    keys = next(columns) if layout.has_key else [None] * length
    return Run(timestamps, keys, next(columns) if layout.has_value else [None] * length, end)


def _alike(data: bytes, at: int, index: int, most: int, layout: _Layout) -> int:
    """Return how many records, at most so many, have this layout, and offset deltas that are their numbers.

    Without the run of deltas, which compaction breaks, none.
    """
    size = layout.size
    length = min(most, (len(data) - at) // size)
    for place, byte in layout.fixed:
        column = data[at + place : at + length * size : size]
        if column.count(byte) < length:
            length -= len(column.lstrip(bytes((byte,))))
    start, end = at + layout.offset_at, at + length * size
    if data[start:end:size] != _FIRST_BYTES[index : index + length]:
        return 0
    if index >= _NARROW and data[start + 1 : end : size] != _SECOND_BYTES[index : index + length]:
        return 0
    return length


def _read_layout(data: bytes, at: int) -> _Layout | None:
    """Return the layout of the record at `at`, for more like it; None where it has headers, or the next is longer."""
    try:
        size, body = read_varint(data, at)
        size += body - at
        if size <= 0 or data[at + size : body + size] != data[at:body]:
            return None
        _, offset_at = read_varlong(data, body + 1)
        _, key_size_at = read_varint(data, offset_at)
        key_size, key_at = read_varint(data, key_size_at)
        value_size_at = key_at + max(0, key_size)
        value_size, value_at = read_varint(data, value_size_at)
        headers_at = value_at + max(0, value_size)
        if headers_at != at + size - 1 or data[headers_at] != 0:
            return None
    except (IndexError, MalformedMessage):
        return None
    fixed = [*range(at, body), *range(key_size_at, key_at), *range(value_size_at, value_at), headers_at]
    key = f"{key_at - offset_at}x" + (f"{key_size}s" if key_size >= 0 else "")
    value = f"{value_at - value_size_at}x" + (f"{value_size}s" if value_size >= 0 else "")
    layout = _Layout(
        size,
        [(place - at, data[place]) for place in fixed],
        offset_at - at,
        key_size >= 0,
        value_size >= 0,
        Struct(f"{body + 1 - at}x{offset_at - body - 1}s{key}{value}x"),
    )
    if len(_layouts) >= _LAYOUTS_KEPT:
        _layouts.clear()
    _layouts[data[at : at + _FIRST]] = layout
    return layout


def _timestamps(raw: Sequence[bytes], base_timestamp: int) -> list[int] | None:
    """Return the timestamps of these varints, of one length; None when one is shorter."""
    if len(raw[0]) == 1:
        deltas = b"".join(raw)
        return [base_timestamp + SIGNED[delta] for delta in deltas] if deltas.isascii() else None
    moments: dict[bytes, int] = {}
    for varint in set(raw):
        try:
            delta, end = read_varlong(varint, 0)
        except (IndexError, MalformedMessage):
            return None
        if end != len(varint):
            return None
        moments[varint] = base_timestamp + delta
    return [moments[varint] for varint in raw]
