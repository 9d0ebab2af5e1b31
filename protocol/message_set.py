"""Message sets, the formats before record batches: magic 0 (0.8, 0.9) and magic 1 (0.10, which brought timestamps).

    offset int64, length int32, crc uint32, magic int8, attributes int8, [timestamp int64 from magic 1 on],
    key length int32 (-1 null), key, value length int32 (-1 null), value

The CRC-32 (zlib's) covers everything from the magic on. A compressed message, the wrapper, has a whole message set as
its value, and the offset of the last message in that; the inner offsets are absolute in magic 0, and count from the
first in magic 1. The timestamp of a wrapper with LogAppendTime is that of all its messages.

Sources: Kafka's LegacyRecord, AbstractLegacyRecordBatch, KIP-31, KIP-32.
"""

import zlib
from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from odradek.protocol import compression
from odradek.protocol.primitives import Buffer
from odradek.protocol.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAX_INT64,
    NO_TIMESTAMP,
    CorruptBatch,
    entries,
)
from odradek.protocol.records import Columns
from odradek.protocol.steps import STEP_RECORDS, Steps, at_once

MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MESSAGE_CRC_AT: Final = 12
MESSAGE_MAGIC_AT: Final = 16

_HEAD_V0: Final = Struct(">qiIbb")
_HEAD_V1: Final = Struct(">qiIbbq")
_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_NULL: Final = _LENGTH.pack(-1)


class InvalidWrapper(CorruptBatch):
    """A compressed message whose checksum is right, but whose content is not valid: sending it again does not help."""


class LegacyMessage(NamedTuple):
    """A message of a set; the value of a wrapper is still compressed."""

    position: int
    size_bytes: int
    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.magic == MAGIC_V1 and self.attributes & LOG_APPEND_TIME_BIT != 0


def read_message(buffer: Buffer, at: int, size_bytes: int, *, check_crc: bool = True) -> LegacyMessage:
    """Return the message that fills `size_bytes` from `at` on. Raises CorruptBatch."""
    view = memoryview(buffer)[at : at + size_bytes]
    try:
        offset, length, crc, magic, attributes = _HEAD_V0.unpack_from(view)
        timestamp, head = NO_TIMESTAMP, _HEAD_V0.size
        if magic == MAGIC_V1:
            timestamp, head = _HEAD_V1.unpack_from(view)[5], _HEAD_V1.size
        key, position = _sized(view, head)
        value, position = _sized(view, position)
    except error:
        raise CorruptBatch(at, f"{size_bytes} bytes are too few for what the message says") from None
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise CorruptBatch(at, f"magic {magic} in a message set")
    if position != size_bytes or length + LOG_OVERHEAD != size_bytes:
        raise CorruptBatch(at, f"key and value end at byte {position} of {length + LOG_OVERHEAD}")
    if check_crc and zlib.crc32(view[MESSAGE_MAGIC_AT:]) != crc:
        raise CorruptBatch(at, f"checksum is not {crc:#010x}")
    whole_key = None if key is None else bytes(key)
    return LegacyMessage(at, size_bytes, offset, crc, magic, attributes & 0xFF, timestamp, whole_key, value)


def _sized(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    """Return the bytes after their int32 length, or None for null, and the position behind them, which may be past the
    end: the caller checks that."""
    (length,) = _LENGTH.unpack_from(view, at)
    at += _LENGTH.size
    return (None, at) if length < 0 else (view[at : at + length], at + length)


def messages(
    buffer: Buffer, at: int = 0, *, allow_partial_tail: bool = False, check_crc: bool = True
) -> Iterator[LegacyMessage]:
    """Yield the messages of a set of magic 0 and 1, wrappers as they are. Raises CorruptBatch."""
    for entry in entries(buffer, at, allow_partial_tail=allow_partial_tail):
        yield read_message(buffer, entry.position, entry.size_bytes, check_crc=check_crc)


def up_convert(
    message_set: Buffer,
    *,
    allow_partial_tail: bool = False,
    decompressed_limit: int = compression.MAX_DECOMPRESSED_BYTES,
) -> Columns:
    """Return all records of a set, also those in wrappers, with absolute offsets. Raises CorruptBatch, also for a wrong
    checksum.

    Timestamps of magic 0 are NO_TIMESTAMP. `decompressed_limit`: most bytes of all wrappers together, decompressed.
    """
    columns = Columns([], [], [], [])
    room = decompressed_limit
    for message in messages(message_set, allow_partial_tail=allow_partial_tail):
        room -= at_once(add_records(columns, message, room))
    return columns


def add_records(
    columns: Columns, message: LegacyMessage, limit: int = compression.MAX_DECOMPRESSED_BYTES
) -> Steps[int]:
    """Add the record of a message, or the records in a wrapper; return the size to which it was decompressed, else 0.

    Raises CorruptBatch.
    """
    if message.codec != compression.NONE:
        return (yield from _open_wrapper(columns, message, limit))
    value = None if message.value is None else bytes(message.value)
    _add(columns, message.offset, message.timestamp, message.key, value)
    return 0


def _add(columns: Columns, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
    columns.offsets.append(offset)
    columns.timestamps.append(timestamp)
    columns.keys.append(key)
    columns.values.append(value)


def _open_wrapper(columns: Columns, wrapper: LegacyMessage, limit: int) -> Steps[int]:
    """Add the records in a wrapper; return the size to which it was decompressed. Raises CorruptBatch."""
    if wrapper.value is None or wrapper.codec > compression.LZ4:
        raise InvalidWrapper(wrapper.position, f"compressed message of codec {wrapper.codec}, value {wrapper.value!r}")
    inner: list[LegacyMessage] = []
    try:
        content = yield from compression.decompress_in_steps(
            wrapper.codec, wrapper.value, limit, lenient_lz4=wrapper.magic == MAGIC_V0
        )
        for message in messages(content):
            inner.append(message)
            if len(inner) % STEP_RECORDS == 0:
                yield
    except (CorruptBatch, compression.BadCompression) as reason:
        raise CorruptBatch(wrapper.position, f"compressed messages: {reason}") from None
    if not inner:
        raise InvalidWrapper(wrapper.position, "compressed message with nothing in it")
    base = _first_offset(wrapper, inner[-1].offset)
    for index, message in enumerate(inner):
        if index % STEP_RECORDS == 0:
            yield
        if base + message.offset > MAX_INT64:
            raise InvalidWrapper(wrapper.position, f"offsets that go beyond {MAX_INT64}")
        if message.codec != compression.NONE:
            raise InvalidWrapper(wrapper.position, "a compressed message in a compressed message")
        take_wrapper_time = wrapper.is_log_append_time and message.magic == MAGIC_V1
        timestamp = wrapper.timestamp if take_wrapper_time else message.timestamp
        value = None if message.value is None else bytes(message.value)
        _add(columns, base + message.offset, timestamp, message.key, value)
    return len(content)


def _first_offset(wrapper: LegacyMessage, last_inner_offset: int) -> int:
    """Return the number that is to be added to the inner offsets. Raises InvalidWrapper."""
    if wrapper.magic == MAGIC_V0 or wrapper.offset == 0:
        return 0  # absolute; or offset 0, from versions of librdkafka that leave it to the broker
    if wrapper.offset < last_inner_offset:
        raise InvalidWrapper(wrapper.position, f"offset {wrapper.offset} is less than its last, {last_inner_offset}")
    return wrapper.offset - last_inner_offset


def encode_message(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, attributes: int = 0
) -> bytearray:
    """Encode one message of magic 0 (which has no timestamp) or 1, with its checksum."""
    message = bytearray(_HEAD_V1.size if magic == MAGIC_V1 else _HEAD_V0.size)
    for part in (key, value):
        if part is None:
            message += _NULL
        else:
            message += _LENGTH.pack(len(part))
            message += part
    length = len(message) - LOG_OVERHEAD
    if magic == MAGIC_V1:
        _HEAD_V1.pack_into(message, 0, offset, length, 0, magic, attributes, timestamp)
    else:
        assert magic == MAGIC_V0, magic
        _HEAD_V0.pack_into(message, 0, offset, length, 0, magic, attributes)
    _CRC.pack_into(message, MESSAGE_CRC_AT, zlib.crc32(memoryview(message)[MESSAGE_MAGIC_AT:]))
    return message


def down_convert(
    columns: Columns,
    magic: int,
    codec: int = compression.NONE,
    *,
    log_append_time: bool = False,
) -> bytes:
    """Convert as `down_convert_in_steps` does, without a pause."""
    return at_once(down_convert_in_steps(columns, magic, codec, log_append_time=log_append_time))


def down_convert_in_steps(columns: Columns, magic: int, codec: int, *, log_append_time: bool = False) -> Steps[bytes]:
    """Return a message set of these records, in one wrapper unless `codec` is NONE. What the format lacks is dropped.

    `log_append_time`: the timestamps are the broker's. There must be no control records, which old formats do not have.
    Raises UnknownCodec for zstd, which only batches have.
    """
    if codec > compression.LZ4:
        raise compression.UnknownCodec(f"codec {codec} does not exist in message sets")
    if not len(columns):
        return b""
    time_bit = LOG_APPEND_TIME_BIT if log_append_time and magic == MAGIC_V1 else 0
    base = columns.offsets[0] if magic == MAGIC_V1 and codec != compression.NONE else 0
    out = bytearray()
    for index, (offset, timestamp, key, value) in enumerate(
        zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True)
    ):
        if index % STEP_RECORDS == 0:
            yield
        out += encode_message(magic, offset - base, timestamp, key, value, time_bit)
    if codec == compression.NONE:
        return bytes(out)
    content = yield from compression.compress_in_steps(codec, out, for_magic_0=magic == MAGIC_V0)
    last = columns.offsets[-1]
    return bytes(encode_message(magic, last, max(columns.timestamps), None, content, codec | time_bit))
