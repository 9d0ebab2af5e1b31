"""Batches of format v2: round trips, kafka-python as a witness in both directions, patches, damage."""

import importlib.util
import sys
from typing import Any
from unittest import mock

import crcmod.predefined
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from odradek.protocol import checksum, compression, record_batch
from odradek.protocol.control_records import (
    ControlType,
    EndTxnMarker,
    control_type,
    decode_end_txn_marker,
    encode_end_txn_marker,
)
from odradek.protocol.record_batch import (
    CorruptBatch,
    assemble_batch,
    batches,
    check_crc,
    compute_crc,
    crc_matches,
    entries,
    read_header,
)
from odradek.protocol.records import decode_headers, decode_records, encode_batch, encode_headers

CODECS = [compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]
TIME = 1_700_000_000_000
MAX_INT64 = 2**63 - 1

int64s = st.integers(-(2**63), MAX_INT64)
contents = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3)
rows = st.lists(st.tuples(int64s, contents, contents, header_lists), min_size=1, max_size=80)
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

SAMPLE: list[Row] = [
    (TIME, b"k0", b"v0", []),
    (TIME + 70, None, b"v" * 300, [("a", b"1"), ("a", None), ("\u00e9", b"")]),
    (TIME - 5, b"", None, []),
    (TIME + 2000, b"k" * 9000, b"", []),
]


def sample_batch(codec: int = compression.NONE) -> bytearray:
    return encode_batch(
        40,
        [row[0] for row in SAMPLE],
        [row[1] for row in SAMPLE],
        [row[2] for row in SAMPLE],
        [row[3] for row in SAMPLE],
        codec=codec,
        producer_id=9000,
        producer_epoch=3,
        base_sequence=17,
        partition_leader_epoch=5,
    )


@settings(max_examples=60)
@given(rows, st.sampled_from(CODECS), st.integers(0, 2**62))
def test_round_trip(records: list[Row], codec: int, base_offset: int) -> None:
    timestamps, keys, values, headers = (list(column) for column in zip(*records, strict=True))
    batch = encode_batch(base_offset, timestamps, keys, values, headers, codec=codec)
    columns = decode_records(memoryview(batch))
    assert columns.offsets == list(range(base_offset, base_offset + len(records)))
    assert (columns.timestamps, columns.keys, columns.values) == (timestamps, keys, values)
    assert [columns.headers(index) for index in range(len(records))] == headers
    assert (columns.raw_headers is None) == (not any(headers))
    header = read_header(batch)
    assert header.max_timestamp == max(timestamps)
    assert crc_matches(batch, 0, header)


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_ours(codec: int) -> None:
    (batch,) = kafka_python_batches(sample_batch(codec))
    assert batch.validate_crc()
    assert (batch.base_offset, batch.last_offset_delta, batch.leader_epoch) == (40, 3, 5)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9000, 3, 17)
    assert (batch.first_timestamp, batch.max_timestamp, batch.compression_type) == (TIME, TIME + 2000, codec)
    found = [(record.timestamp, record.key, record.value, list(record.headers)) for record in batch]
    assert found == SAMPLE


def kafka_python_batches(data: bytearray) -> list[Any]:
    """kafka-python's batches of some bytes."""
    reader = MemoryRecords(bytes(data))
    found = []
    while reader.has_next():
        found.append(reader.next_batch())
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_kafka_pythons(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 1, 9000, 3, 17, 10_000_000)
    for index, (timestamp, key, value, headers) in enumerate(SAMPLE):
        assert builder.append(index, timestamp, key, value, headers)
    data = bytes(builder.build())
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.is_transactional and not header.is_control and header.record_count == 4
    columns = decode_records(data)
    found = [
        (columns.timestamps[index], columns.keys[index], columns.values[index], columns.headers(index))
        for index in range(len(columns))
    ]
    assert found == SAMPLE


def test_uncompressed_bytes_are_kafka_pythons() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, 9000, 3, 17, 10_000_000)
    for index, (timestamp, key, value, headers) in enumerate(SAMPLE):
        builder.append(index, timestamp, key, value, headers)
    ours = sample_batch()
    record_batch.set_base_offset(ours, 0, 0)
    record_batch.set_leader_epoch(ours, 0, read_header(bytes(builder.build())).leader_epoch)
    assert ours == builder.build()


@given(st.binary(min_size=70, max_size=500))
def test_the_checksum_has_a_second_opinion(data: bytes) -> None:
    second = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
    assert compute_crc(data, 3, 65) == second(data[3 + 21 : 3 + 65])


def test_known_checksum() -> None:
    """The check value of CRC-32C: that of the digits 1 to 9."""
    assert compute_crc(bytes(21) + b"123456789", 0, 30) == 0xE3069283


def test_patches_outside_of_the_checksum() -> None:
    buffer = bytearray(b"\xaa" * 7) + sample_batch() + b"\xbb" * 7
    before = read_header(buffer, 7)
    record_batch.set_base_offset(buffer, 7, MAX_INT64 - 10)
    record_batch.set_leader_epoch(memoryview(buffer), 7, 99)
    after = read_header(buffer, 7)
    assert after == before._replace(base_offset=MAX_INT64 - 10, leader_epoch=99)
    assert crc_matches(buffer, 7, after)
    assert buffer[:7] == b"\xaa" * 7 and buffer[-7:] == b"\xbb" * 7


def test_patches_under_the_checksum() -> None:
    batch = sample_batch()
    record_batch.set_log_append_time(batch, 0, TIME + 9)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.is_log_append_time and header.max_timestamp == TIME + 9 and header.base_timestamp == TIME
    assert decode_records(batch).timestamps == [TIME + 9] * 4


def test_header_properties() -> None:
    header = read_header(sample_batch(compression.ZSTD))
    assert (header.last_offset, header.next_offset, header.last_sequence) == (43, 44, 20)
    assert header.size_bytes == len(sample_batch(compression.ZSTD))
    assert header.producer_id == 9000 and not header.is_transactional and header.delete_horizon_ms is None
    plain = read_header(encode_batch(0, [TIME], [None], [b""]))
    assert plain.producer_id == record_batch.NO_PRODUCER_ID and plain.last_sequence == record_batch.NO_SEQUENCE


def test_sequences_wrap_around() -> None:
    most = 2**31 - 1
    assert record_batch.increment_sequence(most, 1) == 0
    assert record_batch.increment_sequence(most - 1, 5) == 3
    header = read_header(encode_batch(0, [TIME] * 4, [None] * 4, [b""] * 4, producer_id=1, base_sequence=most - 1))
    assert header.last_sequence == 1


def test_timestamps_wrap_around_as_in_java() -> None:
    timestamps = [-1, MAX_INT64, -(2**63)]
    batch = encode_batch(0, timestamps, [None] * 3, [None] * 3)
    assert decode_records(batch).timestamps == timestamps
    (witness,) = kafka_python_batches(batch)
    assert [record.timestamp % 2**64 for record in witness] == [timestamp % 2**64 for timestamp in timestamps]


def test_what_compaction_leaves() -> None:
    batch = encode_batch(
        100,
        [TIME, TIME + 1],
        [b"a", b"b"],
        [b"1", None],
        offsets=[103, 107],
        last_offset=110,
        delete_horizon_ms=TIME + 50,
    )
    header = read_header(batch)
    assert (header.last_offset, header.record_count, header.delete_horizon_ms) == (110, 2, TIME + 50)
    columns = decode_records(batch)
    assert columns.offsets == [103, 107] and columns.timestamps == [TIME, TIME + 1]
    empty = assemble_batch(header._replace(record_count=0))
    check_crc(empty, 0, read_header(empty))
    assert len(empty) == 61 and len(decode_records(empty)) == 0
    assert read_header(empty).last_offset == 110


def test_raw_headers_can_be_handed_on() -> None:
    columns = decode_records(sample_batch())
    again = encode_batch(40, columns.timestamps, columns.keys, columns.values, raw_headers=columns.raw_headers)
    assert decode_records(again).headers(1) == SAMPLE[1][3]


def test_batches_of_a_buffer() -> None:
    first, second = sample_batch(), sample_batch(compression.LZ4)
    buffer = bytes(first + second)
    assert [at for at, _ in batches(buffer)] == [0, len(first)]
    for cut in range(len(first) + 1, len(buffer)):
        assert [entry.size_bytes for entry in entries(buffer[:cut], allow_partial_tail=True)] == [len(first)]
        with pytest.raises(CorruptBatch):
            list(batches(buffer[:cut]))


def test_damaged_headers_are_refused() -> None:
    good = sample_batch()
    for at, value, reason in ((16, 3, "unknown magic"), (8, 0xFF, "too small"), (8, 0x01, "announced")):
        bad = bytearray(good)
        bad[at] = value
        with pytest.raises(CorruptBatch, match=reason):
            list(batches(bad))
    old = bytearray(good)
    old[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1 where 2 is needed"):
        list(batches(old))
    with pytest.raises(CorruptBatch, match="too few for a header"):
        read_header(good[:60])
    bad = bytearray(good)
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum") as caught:
        check_crc(b"12345" + bad, 5, read_header(bad))
    assert caught.value.position == 5
    assert not crc_matches(good[:-1], 0, read_header(good))


@settings(max_examples=300)
@given(st.sampled_from([compression.NONE, compression.SNAPPY]), st.data())
def test_damaged_records_raise_nothing_but_corrupt_batch(codec: int, data: st.DataObject) -> None:
    damaged = encode_batch(5, [TIME, TIME + 1, TIME + 2], [b"k"] * 3, [b"v" * 70] * 3, [[("h", b"x")]] * 3, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(57, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        columns = decode_records(damaged)
        for index in range(len(columns)):
            columns.headers(index)
    except CorruptBatch:
        pass


@given(st.binary(max_size=40))
def test_any_header_section_raises_nothing_but_corrupt_batch(section: bytes) -> None:
    try:
        headers = decode_headers(section)
    except CorruptBatch:
        return
    assert len(headers) <= len(section)


def test_headers() -> None:
    headers = [("k", b"v"), ("k", None), ("", b"")]
    assert decode_headers(encode_headers(headers)) == headers
    assert encode_headers([]) == b"\x00"
    assert decode_headers(b"\x02\x02\xff\x01") == [("\ufffd", None)]
    for bad in (b"\x02\x01\x01", b"\x01", b"\x02\x02k\x02", b"\x00\x00"):
        with pytest.raises(CorruptBatch):
            decode_headers(bad)


def test_records_must_fill_the_batch() -> None:
    for count in (3, 5, 2**31 - 1):
        batch = sample_batch()
        batch[57:61] = count.to_bytes(4, "big")
        with pytest.raises(CorruptBatch):
            decode_records(batch)


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_a_batch_of_less_than_no_records_is_refused(codec: int) -> None:
    """A marker of a transaction has its kind in its first record: who looked for that got an IndexError."""
    header = read_header(encode_end_txn_marker(EndTxnMarker(True, coordinator_epoch=1), TIME, 9000, 4))
    header = header._replace(record_count=-1, attributes=header.attributes | codec)
    with pytest.raises(CorruptBatch, match="-1 records"):
        decode_records(assemble_batch(header, compression.compress(codec, b"")))


def test_a_compressed_batch_has_a_limit() -> None:
    batch = encode_batch(0, [TIME], [None], [bytes(100_000)], codec=compression.GZIP)
    with pytest.raises(CorruptBatch, match="more than 50000"):
        decode_records(batch, decompressed_limit=50_000)


def test_transaction_markers() -> None:
    for committed in (True, False):
        marker = EndTxnMarker(committed, coordinator_epoch=12)
        batch = encode_end_txn_marker(marker, TIME, 9000, 4, base_offset=77, leader_epoch=2)
        header = read_header(batch)
        assert header.is_control and header.is_transactional and header.base_sequence == -1
        assert (header.producer_id, header.producer_epoch, header.base_offset, header.leader_epoch) == (9000, 4, 77, 2)
        columns = decode_records(batch)
        assert decode_end_txn_marker(columns.keys[0], columns.values[0]) == marker
        (witness,) = kafka_python_batches(batch)
        (record,) = list(witness)
        assert witness.is_control_batch and record.commit == committed and record.abort != committed


def test_control_records_that_are_none_of_ours_or_damaged() -> None:
    assert control_type(b"\0\0\0\1") is ControlType.COMMIT
    assert control_type(b"\0\0\0\2") is None
    assert decode_end_txn_marker(b"\0\0\0\4", b"anything") is None
    for key, value in (
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b""),
        (b"\0\0\0\1", b"\0"),
        (b"\0\0\0\1", None),
    ):
        with pytest.raises(CorruptBatch):
            decode_end_txn_marker(key, value)
    with pytest.raises(CorruptBatch):
        decode_end_txn_marker(b"\0\0\0\1", b"\xff\xff\0\0\0\1")


def test_without_the_crc32c_package_the_sum_is_the_same() -> None:
    """A second copy of the module, made as on a machine that has no wheel of it."""
    spec = importlib.util.spec_from_file_location("checksum_in_software", checksum.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"crc32c": None}):
        spec.loader.exec_module(module)
    assert module.crc32c.__module__.startswith("crcmod")
    batch = sample_batch()
    assert module.crc32c(batch[record_batch.ATTRIBUTES_AT :]) == read_header(batch).crc
