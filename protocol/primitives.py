"""The smallest parts of messages: variable-length integers, arrays of fixed-width integers, texts, the zero uuid.

Integers of fixed width are big-endian. Variable-length integers are base 128, least significant group first; signed
ones are zigzagged before that. Reading functions take a position, and return the value and the position behind it. They
raise MalformedMessage for bad bytes.
"""

import codecs
import re
import sys
from array import array
from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import Any, Final, TypeAlias

from odradek.protocol.errors import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Any
"""Record batches in a message: a memoryview of the input when decoded; to encode, a value with a length, or None."""
Part: TypeAlias = Any
"""Piece of an encoded message: bytes, or the value of a `records` field."""

ZERO_UUID = bytes(16)

SMALL_VARINTS = 512
LENGTH_LIMIT = 0x7FFF_FFFF
"""Upper bound of lengths and counts, which are int32 in Kafka in all encodings."""
TEXT_BYTES_MAX = 0x7FFF
"""Longest text in bytes, in all encodings (as in Kafka's generated classes): a text from a flexible request may be sent
in answers whose lengths are int16."""
CUT = "…".encode()
"""End of a text that was cut."""
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Pattern of a surrogate in UTF-8: all of it, or its first two bytes."""


def _like_java(error: UnicodeError) -> tuple[str, int]:
    """Replace bytes that are not UTF-8 as Java's String does: a surrogate is one fault, where Python sees three."""
    assert isinstance(error, UnicodeDecodeError)
    surrogate = SURROGATE.match(error.object, error.start)
    return "\ufffd", error.end if surrogate is None else surrogate.end()


def _text_like_java(error: UnicodeError) -> tuple[str, int]:
    """Do the same in a text of a message. Raises MalformedMessage if it may become too long, as each bad byte may be
    replaced by three."""
    assert isinstance(error, UnicodeDecodeError)
    if len(error.object) > TEXT_BYTES_MAX // 3:
        raise MalformedMessage(f"a text of {len(error.object)} bytes that is not UTF-8")
    return _like_java(error)


codecs.register_error("like-java", _like_java)
codecs.register_error("text-like-java", _text_like_java)


def encode_text(text: str) -> bytes:
    """Encode a text for people; cut it if it is longer than TEXT_BYTES_MAX."""
    content = text.encode()
    if len(content) > TEXT_BYTES_MAX:
        content = content[: TEXT_BYTES_MAX - len(CUT)].decode(errors="ignore").encode() + CUT
    return content


def write_unsigned_varint(value: int) -> bytes:
    """Encode a value, which is 0 or more, as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


UNSIGNED_VARINTS: list[bytes] = [write_unsigned_varint(value) for value in range(SMALL_VARINTS)]
"""The encoded forms of small values, which most values are."""


def unsigned_varint(value: int) -> bytes:
    """Encode as `write_unsigned_varint` does, from a table when the value is small."""
    return UNSIGNED_VARINTS[value] if value < SMALL_VARINTS else write_unsigned_varint(value)


def write_varint(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits, zigzagged."""
    return unsigned_varint((value << 1) if value >= 0 else ((-value << 1) - 1))


SIGNED: Final[list[int]] = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""Values of signed varints of one byte, which most are, by that byte."""


def read_unsigned_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes (32 bits); return it and the position behind it."""
    return _read_groups(data, at, 5)


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Read a zigzagged int32; return it and the position behind it."""
    value, at = _read_groups(data, at, 5)
    return (value >> 1) ^ -(value & 1), at


def read_varlong(data: Buffer, at: int) -> tuple[int, int]:
    """Read a zigzagged int64; return it and the position behind it."""
    value, at = _read_groups(data, at, 10)
    return (value >> 1) ^ -(value & 1), at


def _read_groups(data: Buffer, at: int, most: int) -> tuple[int, int]:
    size = len(data)
    value = 0
    shift = 0
    for position in range(at, min(at + most, size)):
        group = data[position]
        value |= (group & 0x7F) << shift
        if group < 0x80:
            return value, position + 1
        shift += 7
    raise MalformedMessage("varint runs past the end" if size - at < most else "varint is too long")


def length_tail(data: Buffer, at: int, first: int, most: int = LENGTH_LIMIT) -> tuple[int, int]:
    """Read the rest of a compact length whose first byte, 128 or more, was read already; `at` is behind that byte.

    The result is never zero: a null of more than one byte is refused, so that a decoder that subtracts 1 never goes
    backwards. `most`: highest value that is accepted.
    """
    value, at = read_unsigned_varint(data, at - 1)
    if not 0 < value <= most:
        raise MalformedMessage(f"a compact length of {value}, first byte {first}")
    return value, at


def length_not_null(data: Buffer, at: int, first: int, most: int = LENGTH_LIMIT) -> tuple[int, int]:
    """Read as `length_tail` does, for a field that must not be null: a first byte of zero is refused."""
    if first == 0:
        raise MalformedMessage(f"null where a value is needed, at byte {at - 1}")
    return length_tail(data, at, first, most)


def skip_tagged_fields(data: Buffer, at: int, count: int) -> int:
    """Return the position behind `count` unknown tagged fields. A `count` above 127 is the first byte of a varint that
    continues at `at`."""
    if count > 0x7F:
        count, at = read_unsigned_varint(data, at - 1)
    size = len(data)
    for _ in range(count):
        _, at = read_unsigned_varint(data, at)
        length, at = read_unsigned_varint(data, at)
        at += length
        if at > size:
            raise MalformedMessage(f"a tagged field of {length} bytes runs past the end")
    return at


SHORT_ARRAY = 32
"""Arrays of fixed-width elements up to this length are read and written by a precompiled layout."""


def array_readers(code: str) -> list[Callable[[Buffer, int], tuple[Any, ...]]]:
    """Return readers of arrays of 0…SHORT_ARRAY elements of one struct code, by length."""
    return [Layout(f">{length}{code}").unpack_from for length in range(SHORT_ARRAY + 1)]


def array_writers(code: str) -> list[Callable[..., bytes]]:
    """Return writers of arrays of 0…SHORT_ARRAY elements of one struct code, by length."""
    return [Layout(f">{length}{code}").pack for length in range(SHORT_ARRAY + 1)]


def read_long_array(data: Buffer, at: int, length: int, code: str) -> list[Any]:
    """Read `length` numbers of one struct code; for the codes used here `array` and `struct` have the same sizes."""
    values = array(code)
    end = at + length * values.itemsize
    if end > len(data):
        raise MalformedMessage(f"an array of {length} elements in the last {len(data) - at} bytes")
    values.frombytes(data[at:end])
    if sys.byteorder == "little":
        values.byteswap()
    return values.tolist()


def write_long_array(values: Sequence[Any], code: str) -> bytes:
    """Encode values so that `read_long_array` can read them."""
    out = array(code, values)
    if sys.byteorder == "little":
        out.byteswap()
    return out.tobytes()
