"""Message sets of magic 0 and 1: round trips, kafka-python as a witness, damage."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from odradek.protocol import compression, message_set
from odradek.protocol.message_set import down_convert, encode_message, messages, up_convert
from odradek.protocol.record_batch import LOG_APPEND_TIME_BIT, CorruptBatch
from odradek.protocol.records import Columns

CODECS = [compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4]
MAGICS = [message_set.MAGIC_V0, message_set.MAGIC_V1]
SHARED = [(magic, codec) for magic in MAGICS for codec in CODECS if (magic, codec) != (0, compression.LZ4)]
"""kafka-python lacks the old lz4 checksum; test_compression has it."""
TIME = 1_400_000_000_000

small_bytes = st.none() | st.binary(max_size=20)
rows = st.lists(st.tuples(st.integers(0, 2**62), small_bytes, small_bytes), min_size=1, max_size=10)


def columns_of(records: list[tuple[int, bytes | None, bytes | None]], first_offset: int) -> Columns:
    offsets = list(range(first_offset, first_offset + len(records)))
    return Columns(offsets, [row[0] for row in records], [row[1] for row in records], [row[2] for row in records])


def content(columns: Columns) -> tuple[list[int], list[int], list[bytes | None], list[bytes | None]]:
    return columns.offsets, columns.timestamps, columns.keys, columns.values


@settings(max_examples=60)
@given(rows, st.integers(1, 2**62), st.sampled_from(MAGICS), st.sampled_from(CODECS))
def test_round_trip(records: list[tuple[int, bytes | None, bytes | None]], offset: int, magic: int, codec: int) -> None:
    columns = columns_of(records, offset)
    back = up_convert(memoryview(down_convert(columns, magic, codec)))
    if magic == message_set.MAGIC_V0:
        columns.timestamps = [-1] * len(columns)
    assert content(back) == content(columns)
    assert back.raw_headers is None


@pytest.mark.parametrize(("magic", "codec"), SHARED)
def test_kafka_python_reads_ours(magic: int, codec: int) -> None:
    columns = Columns([7, 8, 11], [TIME, TIME + 5, TIME + 2], [b"a", None, b"c"], [b"one", None, b"three" * 100])
    found = []
    batches = MemoryRecords(down_convert(columns, magic, codec))
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    timestamps = columns.timestamps if magic else [None] * 3
    assert found == list(zip(columns.offsets, timestamps, columns.keys, columns.values, strict=True))


@pytest.mark.parametrize(("magic", "codec"), SHARED)
def test_we_read_kafka_pythons(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1_000_000)
    for index in range(5):
        builder.append(index, TIME + index, b"k%d" % index, None if index == 2 else b"v%d" % index)
    columns = up_convert(bytes(builder.build()))
    assert columns.offsets == [0, 1, 2, 3, 4]
    assert columns.timestamps == ([TIME + index for index in range(5)] if magic else [-1] * 5)
    assert columns.keys == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    assert columns.values == [b"v0", b"v1", None, b"v3", b"v4"]


def test_uncompressed_bytes_are_kafka_pythons() -> None:
    for magic in MAGICS:
        builder = LegacyRecordBatchBuilder(magic, 0, 1_000_000)
        builder.append(9, TIME, b"key", b"value")
        assert encode_message(magic, 9, TIME, b"key", b"value") == builder.build()


def test_a_wrapper_has_the_offset_of_its_last_message_and_the_largest_timestamp() -> None:
    columns = Columns([100, 103], [TIME + 9, TIME], [None, None], [b"a", b"b"])
    for magic, inner_offsets in ((0, [100, 103]), (1, [0, 3])):
        (wrapper,) = messages(down_convert(columns, magic, compression.GZIP))
        assert wrapper.offset == 103
        assert wrapper.timestamp == (TIME + 9 if magic else -1)
        assert wrapper.value is not None
        inner = compression.decompress(wrapper.codec, wrapper.value)
        assert [message.offset for message in messages(inner)] == inner_offsets


def test_a_wrapper_of_append_time_gives_its_time_to_all() -> None:
    inner = b"".join(bytes(encode_message(1, index, TIME + index, None, b"v")) for index in range(3))
    attributes = compression.GZIP | LOG_APPEND_TIME_BIT
    wrapper = encode_message(1, 12, TIME + 500, None, compression.compress(compression.GZIP, inner), attributes)
    columns = up_convert(wrapper)
    assert columns.timestamps == [TIME + 500] * 3
    assert columns.offsets == [10, 11, 12]


def test_a_wrapper_with_offset_zero_leaves_inner_offsets() -> None:
    inner = b"".join(bytes(encode_message(1, index, TIME, None, b"v")) for index in range(3))
    wrapper = encode_message(1, 0, TIME, None, compression.compress(compression.GZIP, inner), compression.GZIP)
    assert up_convert(wrapper).offsets == [0, 1, 2]


def test_refusals() -> None:
    inner = bytes(encode_message(1, 5, TIME, None, b"v"))
    zipped = compression.compress(compression.GZIP, inner)
    wrapped = bytes(encode_message(1, 5, TIME, None, zipped, compression.GZIP))
    bad = {
        "offset 3 is less": encode_message(1, 3, TIME, None, zipped, compression.GZIP),
        "value None": encode_message(1, 5, TIME, None, None, compression.GZIP),
        "codec 4": encode_message(1, 5, TIME, None, compression.compress(4, inner), compression.ZSTD),
        "nothing in it": encode_message(1, 5, TIME, None, compression.compress(1, b""), compression.GZIP),
        "in a compressed message": encode_message(1, 5, TIME, None, compression.compress(1, wrapped), 1),
        "compressed messages: batch": encode_message(1, 5, TIME, None, compression.compress(1, inner[:-1]), 1),
        "checksum": bytes(encode_message(0, 5, TIME, b"k", b"v")[:-1]) + b"w",
        "magic 2": bytes(80),
    }
    bad["magic 2"] = b"\0\0\0\0\0\0\0\0\0\0\0\x44\0\0\0\0\x02" + bytes(63)
    for reason, data in bad.items():
        with pytest.raises(CorruptBatch, match=reason):
            up_convert(bytes(data))
    with pytest.raises(compression.UnknownCodec):
        down_convert(columns_of([(1, None, b"v")], 5), 1, compression.ZSTD)


def test_the_limit_holds_for_all_wrappers_together() -> None:
    one = down_convert(columns_of([(TIME, None, bytes(1000))], 5), 1, compression.GZIP)
    assert len(up_convert(one * 3, decompressed_limit=3200)) == 3
    with pytest.raises(CorruptBatch):
        up_convert(one * 3, decompressed_limit=2500)


def test_a_cut_off_end_is_an_error_or_the_end() -> None:
    data = down_convert(columns_of([(TIME, b"k", b"v"), (TIME, b"k", b"w")], 5), 0)
    for cut in range(len(data) // 2 + 1, len(data)):
        with pytest.raises(CorruptBatch):
            up_convert(data[:cut])
        assert up_convert(data[:cut], allow_partial_tail=True).values == [b"v"]


@settings(max_examples=200)
@given(st.sampled_from(MAGICS), st.sampled_from(CODECS), st.data())
def test_damage_raises_nothing_but_corrupt_batch(magic: int, codec: int, data: st.DataObject) -> None:
    damaged = bytearray(down_convert(columns_of([(TIME, b"key", b"value")] * 3, 5), magic, codec))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        up_convert(damaged)
        assert at % (len(damaged) if codec else len(damaged) // 3) < 8, "only the offset is outside of the checksum"
    except CorruptBatch:
        pass
    with contextlib.suppress(CorruptBatch):
        list(messages(damaged, check_crc=False))
