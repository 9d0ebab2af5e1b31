"""Compaction of a batch: the keys of its records, and a batch without some of them.

Records that stay are copied; only their length and their timestamp, which counts from the first record of the batch,
are written anew. The code is made for speed, as in records.py. Source: MemoryRecords.filterTo of Kafka 3.9.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.protocol import compression
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import SIGNED, Buffer, write_varint
from odradek.protocol.record_batch import DELETE_HORIZON_BIT, NO_TIMESTAMP, CorruptBatch, assemble_batch, read_header
from odradek.protocol.records import read_wide, section_of, wrap_int64

STAYS: Final = 0
TOMBSTONE: Final = 1
"""Verdict about a record without value, which stays for a while."""
GONE: Final = 2
"""Verdict about a record that is dropped."""


class Keys(NamedTuple):
    """Columns of one batch's records; the i-th element of each is that of the i-th record."""

    offsets: Sequence[int]
    keys: list[bytes | None]
    verdicts: bytearray
    """STAYS or TOMBSTONE for each record; the caller sets GONE for those whose key a newer record has."""


def keys_of(batch: Buffer) -> Keys:
    """Return the keys of a whole v2 batch. The checksum is not checked. Raises CorruptBatch."""
    header = read_header(batch)
    section = section_of(batch, 0, header)
    base_offset, count = header.base_offset, header.record_count
    deltas: list[int] | None = None if header.last_offset_delta + 1 == count else []
    try:
        keys, verdicts = _scan(section, count, deltas)
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(0, f"records: {error}") from None
    if deltas is None:
        return Keys(range(base_offset, base_offset + count), keys, verdicts)
    if deltas and not 0 <= min(deltas) <= max(deltas) <= header.last_offset_delta:
        raise CorruptBatch(0, f"offset deltas outside of 0 to {header.last_offset_delta}")
    return Keys([base_offset + delta for delta in deltas], keys, verdicts)


def _scan(data: bytes, count: int, deltas: list[int] | None) -> tuple[list[bytes | None], bytearray]:
    """Return keys and verdicts. Offset deltas are added to `deltas`; they are not read if that is None, as there are no
    gaps then."""
    keys: list[bytes | None] = []
    verdicts = bytearray()
    at = 0
    for index in range(count):
        number = data[at]
        number, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
        end = at + number
        at += 1  # behind the attributes
        while data[at] >= 0x80:
            at += 1
        at += 1  # behind the timestamp
        if deltas is not None:
            number, _ = read_wide(data, at, data[at]) if data[at] >= 0x80 else (SIGNED[data[at]], at)
            deltas.append(number)
        while data[at] >= 0x80:
            at += 1
        number = data[at + 1]  # behind the offset
        number, at = (SIGNED[number], at + 2) if number < 0x80 else read_wide(data, at + 1, number)
        if number >= 0:
            keys.append(data[at : at + number])
            at += number
        else:
            keys.append(None)
        if at >= end:
            raise MalformedMessage(f"record {index} is longer than it says")
        verdicts.append(data[at] & 1)  # the length of the value, as a varint, is odd when it is below zero
        at = end
    if at != len(data):
        raise MalformedMessage(f"{count} records do not fill {len(data)} bytes")
    return keys, verdicts


def without_gone(batch: Buffer, verdicts: bytes | bytearray, delete_horizon_ms: int | None) -> bytearray:
    """Return a v2 batch with the records that stay. `verdicts` has a byte for each record; one at least is not GONE.

    Offsets, sequence numbers, codec and epochs stay as they are. `delete_horizon_ms`: time for the header, or None.
    Raises CorruptBatch.
    """
    header = read_header(batch)
    section = section_of(batch, 0, header)
    append_ms = header.max_timestamp if header.is_log_append_time else None
    try:
        kept, first_ms, largest_ms = _kept(section, verdicts, header.base_timestamp, append_ms, delete_horizon_ms)
    except (IndexError, MalformedMessage) as error:
        raise CorruptBatch(0, f"records: {error}") from None
    attributes = header.attributes | (0 if delete_horizon_ms is None else DELETE_HORIZON_BIT)
    header = header._replace(
        attributes=attributes,
        base_timestamp=first_ms,
        max_timestamp=largest_ms,
        record_count=len(verdicts) - verdicts.count(GONE),
    )
    return assemble_batch(
        header, kept if header.codec == compression.NONE else compression.compress(header.codec, kept)
    )


def _kept(
    data: bytes, verdicts: bytes | bytearray, base_ms: int, append_ms: int | None, horizon_ms: int | None
) -> tuple[bytearray, int, int]:
    """Return the records that stay, the timestamp from which theirs count, and their largest timestamp."""
    out, at, largest_ms, new_base_ms = bytearray(), 0, NO_TIMESTAMP, horizon_ms
    for verdict in verdicts:
        begin, number = at, data[at]
        number, at = (SIGNED[number], at + 1) if number < 0x80 else read_wide(data, at, number)
        end = at + number
        if verdict != GONE:
            number = data[at + 1]
            number, rest = (SIGNED[number], at + 2) if number < 0x80 else read_wide(data, at + 1, number)
            timestamp = wrap_int64(base_ms + number) if append_ms is None else append_ms
            if new_base_ms is None:
                new_base_ms = timestamp
            if timestamp > largest_ms:
                largest_ms = timestamp
            if new_base_ms == base_ms and append_ms is None:
                out += data[begin:end]
            else:
                delta = write_varint(wrap_int64(timestamp - new_base_ms))
                out += write_varint(1 + len(delta) + end - rest) + b"\x00" + delta + data[rest:end]
        at = end
    assert new_base_ms is not None, "no record stays"
    return out, new_base_ms, largest_ms
