"""Runs of records of one layout, decoded together: in many batches all records have the same size.

Such records differ only in timestamp, offset, key and value, which are at the same places in each. So the bytes at one
place of all records are a slice with a step; comparing it shows at once how far the run goes. Module `struct` extracts
keys and values. A loop that reads the varints of each record takes four times as long in plain Python.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, read_varint, read_varlong, write_varint

LEAST: Final = 8
"""Fewest records of a run: shorter ones take longer to prepare than they gain."""
_NARROW: Final = 1 << 6
"""Offset delta from which on its varint has two bytes."""
_WIDE: Final = 1 << 13
"""Offset delta from which on its varint has three bytes; such records are not read as runs."""
_FIRST_BYTES: Final = bytes(write_varint(delta)[0] for delta in range(_WIDE))
_SECOND_BYTES: Final = bytes(_NARROW) + bytes(write_varint(delta)[1] for delta in range(_NARROW, _WIDE))


class Run(NamedTuple):
    """Columns of successive records, which have successive offsets."""

    timestamps: list[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    end: int
    """Position behind the run."""


class _Layout:
    """Layout of a record without headers: the places of its parts, counted from its beginning."""

    __slots__ = ("_columns", "_cutters", "_format", "fixed", "has_key", "has_value", "offset_at", "size")

    def __init__(
        self, size: int, fixed: list[tuple[int, int]], offset_at: int, has_key: bool, has_value: bool, form: str
    ) -> None:
        """`form` is the `struct` format that extracts the timestamp, and key and value if the record has them."""
        self.size = size
        self.fixed = fixed
        """Places with the byte that all records of a run have there: those of lengths and of the number of headers."""
        self.offset_at = offset_at
        self.has_key, self.has_value = has_key, has_value
        self._format = form
        self._columns: dict[int, list[tuple[int, bytes]]] = {}
        self._cutters: dict[int, Struct] = {}

    def columns(self, length: int) -> list[tuple[int, bytes]]:
        """Return `fixed` for a number of records: each place with its byte repeated so often."""
        columns = self._columns.get(length)
        if columns is None:
            if len(self._columns) >= _LENGTHS_KEPT:
                self._columns.clear()
            columns = self._columns[length] = [(place, bytes((byte,)) * length) for place, byte in self.fixed]
        return columns

    def cut(self, data: bytes, at: int, length: int) -> tuple[bytes, ...]:
        """Return the parts of a number of records, one after the other, extracted by one call for all."""
        cutter = self._cutters.get(length)
        if cutter is None:
            if len(self._cutters) >= _LENGTHS_KEPT:
                self._cutters.clear()
            cutter = self._cutters[length] = Struct(self._format * length)
        return cutter.unpack_from(data, at)


_layouts: dict[bytes, _Layout] = {}
"""Layouts seen last, by the first bytes of a record. They are suggestions: each record is compared with its layout."""
_LAYOUTS_KEPT: Final = 64
_LENGTHS_KEPT: Final = 4
"""Numbers of records for which a layout keeps columns and formats: batches of one producer often have the same."""
_DELTA_BYTES_MAX: Final = 8
"""Longest varint of a time delta in a run: 56 bits."""
MOST: Final = 128
"""Most records of one run: the format that extracts them takes a hundred bytes for each."""
_FIRST: Final = 3
"""Number of bytes at a record's beginning by which layouts are found; most of them are its length."""


def read_run(data: bytes, at: int, index: int, count: int, base_timestamp: int) -> Run | None:
    """Return the records from `at` on, the `index`-th of `count`, that have the layout of the first one.

    None if they are few, or if something is unusual or damaged; the records are then to be read one by one.
    """
    most = count - index
    if most > MOST:
        most = MOST
    wide = _NARROW if index < _NARROW else _WIDE
    if index + most > wide:
        most = wide - index
    if most < LEAST:
        return None
    layout = _layouts.get(data[at : at + _FIRST])
    length = 0 if layout is None else _alike(data, at, index, most, layout)
    if length < LEAST:
        layout = _read_layout(data, at)
        length = 0 if layout is None else _alike(data, at, index, most, layout)
    if layout is None or length < LEAST:
        return None
    parts = layout.cut(data, at, length)
    width = 1 + layout.has_key + layout.has_value
    timestamps = _timestamps(parts[::width], base_timestamp)
    if timestamps is None:
        return None
    keys = parts[1::width] if layout.has_key else (None,) * length
    values = parts[width - 1 :: width] if layout.has_value else (None,) * length
    return Run(timestamps, keys, values, at + length * layout.size)


def _alike(data: bytes, at: int, index: int, most: int, layout: _Layout) -> int:
    """Return how many records from `at` on have this layout, at most `most`; 0 if their offset deltas are not `index`,
    `index` + 1 and so on, as after compaction."""
    size = layout.size
    length = (len(data) - at) // size
    if length > most:
        length = most
    if length < LEAST:
        return 0
    end = at + length * size
    for place, column in layout.columns(length):
        if data[at + place : end : size] != column:
            length = _shorter(data, at, length, layout)
            end = at + length * size
            break
    start = at + layout.offset_at
    if data[start:end:size] != _FIRST_BYTES[index : index + length]:
        return 0
    if index >= _NARROW and data[start + 1 : end : size] != _SECOND_BYTES[index : index + length]:
        return 0
    return length


def _shorter(data: bytes, at: int, length: int, layout: _Layout) -> int:
    """Return how many of the first `length` records have this layout, before the first that does not."""
    size = layout.size
    for place, byte in layout.fixed:
        column = data[at + place : at + length * size : size]
        if column.count(byte) < length:
            length -= len(column.lstrip(bytes((byte,))))
    return length


def _read_layout(data: bytes, at: int) -> _Layout | None:
    """Return the layout of the record at `at`; None if it has headers, or if the next one has another size."""
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
        f"{body + 1 - at}x{offset_at - body - 1}s{key}{value}x",
    )
    if len(_layouts) >= _LAYOUTS_KEPT:
        _layouts.clear()
    _layouts[data[at : at + _FIRST]] = layout
    return layout


def _timestamps(raw: Sequence[bytes], base_timestamp: int) -> list[int] | None:
    """Return the timestamps of these deltas, varints of one length; None if one is shorter, or has almost 64 bits."""
    if len(raw[0]) == 1:
        deltas = b"".join(raw)
        if not deltas.isascii():
            return None
        times = {delta: base_timestamp + SIGNED[delta] for delta in set(deltas)}  # mostly few different ones
        return list(map(times.__getitem__, deltas))
    if len(raw[0]) > _DELTA_BYTES_MAX:
        return None
    moments: dict[bytes, int] = {}
    for varint in set(raw):
        try:
            delta, end = read_varlong(varint, 0)
        except (IndexError, MalformedMessage):
            return None
        if end != len(varint):
            return None
        moments[varint] = base_timestamp + delta
    return list(map(moments.__getitem__, raw))
