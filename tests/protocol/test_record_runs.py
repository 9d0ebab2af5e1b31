"""Records of one layout are read together, and only where each of them would be read alike by itself."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.primitives import read_varint, read_varlong
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.record_runs import LEAST, MOST, read_run
from odradek.protocol.records import decode_records, encode_batch

BASE = 1_700_000_000_000
Row = tuple[int, int, bytes | None, bytes | None]
"""Timestamp, offset delta, key, value."""


def section(timestamps: list[int], keys: list[bytes | None], values: list[bytes | None], **more: object) -> bytes:
    """Encoded records."""
    return bytes(encode_batch(0, timestamps, keys, values, **more))[HEADER_BYTES:]  # type: ignore[arg-type]


def alike(count: int, key: int | None, value: int | None, step: int = 0) -> bytes:
    """Encoded records of one size, all different."""
    made = random.Random(1)
    keys = [None if key is None else made.randbytes(key) for _ in range(count)]
    values = [None if value is None else made.randbytes(value) for _ in range(count)]
    return section([BASE + number * step for number in range(count)], keys, values)


def one_by_one(data: bytes, at: int, count: int) -> tuple[list[Row], int]:
    """Read `count` records without headers, a varint after the other; and where they end."""
    rows: list[Row] = []
    for _ in range(count):
        size, at = read_varint(data, at)
        end = at + size
        timestamp, at = read_varlong(data, at + 1)
        delta, at = read_varint(data, at)
        size, at = read_varint(data, at)
        key = data[at : at + size] if size >= 0 else None
        size, at = read_varint(data, at + max(0, size))
        value = data[at : at + size] if size >= 0 else None
        at += max(0, size)
        assert (data[at], at + 1) == (0, end)
        rows.append((BASE + timestamp, delta, key, value))
        at = end
    return rows, at


def check(data: bytes, at: int, index: int, count: int) -> int:
    """Compare a run with its records by themselves; how many it has."""
    run = read_run(data, at, index, count, BASE)
    if run is None:
        return 0
    length = len(run.keys)
    deltas = range(index, index + length)
    assert length >= LEAST
    assert (list(zip(run.timestamps, deltas, run.keys, run.values, strict=True)), run.end) == one_by_one(
        data, at, length
    )
    return length


SIZES = st.sampled_from([None, 0, 1, 8, 63, 64, 100, 300])


@given(st.integers(LEAST, 200), SIZES, SIZES, st.sampled_from([0, 1, 70, 9_000]))
@settings(max_examples=60)
def test_a_run_is_what_its_records_are(count: int, key: int | None, value: int | None, step: int) -> None:
    data = alike(count, key, value, step)
    first = check(data, 0, 0, count)
    if step == 0:  # offsets from 64 on take a byte more
        assert first == min(count, 64)
        if count >= 64 + LEAST:
            end = one_by_one(data, 0, 64)[1]
            assert check(data, end, 64, count) == min(count - 64, MOST)


@given(st.data())
@settings(max_examples=120)
def test_a_changed_byte_ends_a_run_or_belongs_to_it(data: st.DataObject) -> None:
    key, value = data.draw(st.sampled_from([None, 0, 8])), data.draw(st.sampled_from([None, 0, 70]))
    whole = bytearray(alike(24, key, value, data.draw(st.sampled_from([0, 5, 100]))))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(whole), 0, 0, 24)


def test_another_layout_with_the_same_beginning() -> None:
    """What was seen last is remembered by a record's first bytes: it says nothing of these."""
    for key, value in ((8, 100), (100, 8), (None, 108), (108, None), (8, 100)):
        assert check(alike(20, key, value), 0, 0, 20) == 20
    assert check(alike(20, 8, 99, 4), 0, 0, 20) == 16  # the timestamps take a byte more from 64 ms on


def test_where_a_run_ends() -> None:
    values: list[bytes | None] = [b"1234"] * 41
    values[20] = b"12345"
    data = section([BASE] * 41, [b"k"] * 41, values)
    assert check(data, 0, 0, 41) == 20
    assert check(data[: one_by_one(data, 0, 10)[1]], 0, 0, 41) == 10
    assert check(data, 0, 0, LEAST) == LEAST
    assert check(data, 0, 0, LEAST - 1) == 0


@pytest.mark.parametrize("unusual", ["gaps", "headers"])
def test_none_of_what_is_unusual(unusual: str) -> None:
    more = {"offsets": [*range(10), *range(11, 21)]} if unusual == "gaps" else {"headers": [[("h", b"1")]] * 20}
    assert check(section([BASE] * 20, [b"k"] * 20, [b"v"] * 20, **more), 0, 0, 20) == 0


@pytest.mark.parametrize("odd", [None, 0, 63, 64, 70, 8_191, 8_192, 8_250])
def test_a_long_batch_comes_whole(odd: int | None) -> None:
    """Runs, one odd record, and offsets of one, two and three bytes."""
    count = 8_300
    keys: list[bytes | None] = [b"%04d" % number for number in range(count)]
    if odd is not None:
        keys[odd] = b"odd"
    moments = [BASE + number // 100 for number in range(count)]
    columns = decode_records(encode_batch(7, moments, keys, keys))
    assert columns.offsets == list(range(7, 7 + count))
    assert (columns.timestamps, columns.keys, columns.values) == (moments, keys, keys)
    assert columns.raw_headers is None
