import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import (
    UNSIGNED_VARINTS,
    length_tail,
    read_long_array,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
    unsigned_varint,
    write_long_array,
    write_unsigned_varint,
    write_varint,
)

UNSIGNED = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16384, "808001"),
    (2**32 - 1, "ffffffff0f"),
]
SIGNED = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-64, "7f"),
    (64, "8001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
LONG = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "expected"), UNSIGNED)
def test_unsigned_varints(value: int, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert unsigned_varint(value) == write_unsigned_varint(value) == data
    assert read_unsigned_varint(b"\xff" + data, 1) == (value, 1 + len(data))


@pytest.mark.parametrize(("value", "expected"), SIGNED)
def test_varints(value: int, expected: str) -> None:
    assert write_varint(value) == bytes.fromhex(expected)
    assert read_varint(bytes.fromhex(expected), 0) == (value, len(expected) // 2)
    assert read_varlong(bytes.fromhex(expected), 0) == (value, len(expected) // 2)


@pytest.mark.parametrize(("value", "expected"), LONG)
def test_varlongs(value: int, expected: str) -> None:
    assert write_varint(value) == bytes.fromhex(expected)
    assert read_varlong(bytes.fromhex(expected), 0) == (value, 10)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_round(value: int) -> None:
    data = write_varint(value)
    assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "ffffffffff00", "8080808080808001"])
def test_varints_that_do_not_end(data: str) -> None:
    with pytest.raises(MalformedMessage):
        read_unsigned_varint(bytes.fromhex(data), 0)


def test_the_table_of_small_varints_is_right() -> None:
    assert [read_unsigned_varint(data, 0) for data in UNSIGNED_VARINTS] == [
        (value, 1 if value < 128 else 2) for value in range(512)
    ]


def test_lengths() -> None:
    assert length_tail(b"\xac\x02", 1, 0xAC) == (300, 2)
    for wrong in ("8000", "ffffffff0f", "80808000"):
        with pytest.raises(MalformedMessage, match="compact length"):
            length_tail(bytes.fromhex(wrong), 1, 0x80)


def test_skipping_tagged_fields() -> None:
    assert skip_tagged_fields(bytes.fromhex("00 02 aabb 8101 01 cc ff"), 0, 2) == 8
    for wrong in ("00 03 aabb", "00", "00 ffffffffff01"):
        with pytest.raises(MalformedMessage):
            skip_tagged_fields(bytes.fromhex(wrong), 0, 1)


@pytest.mark.parametrize(("code", "width"), [("b", 1), ("h", 2), ("i", 4), ("q", 8)])
def test_long_arrays(code: str, width: int) -> None:
    values = [*range(-50, 50)]
    data = write_long_array(values, code)
    assert data[:width] == (-50).to_bytes(width, "big", signed=True)
    assert read_long_array(b"x" + data, 1, 100, code) == values
    with pytest.raises(MalformedMessage, match="101 elements"):
        read_long_array(data, 0, 101, code)
