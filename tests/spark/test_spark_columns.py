"""Arrow columns are what the plain record codec says, for all codecs, headers, nulls and damage."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.consumer.chunks import Chunk
from odradek.client.errors import CorruptRecords
from odradek.client.records import TopicPartition
from odradek.client.spark import columns, fetching, reading
from odradek.client.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS, locate, record_batch, sections
from odradek.client.spark.data_source import spark_schema
from odradek.client.spark.offsets import OffsetRange
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    RECORD_COUNT_AT,
    assemble_batch,
    entries,
    read_header,
    update_crc,
)
from odradek.protocol.records import encode_batch
from odradek.testing.old_segments import expected, golden_bytes

T0 = TopicPartition("t", 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
blobs = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=60, max_size=300))
records = st.tuples(
    st.integers(0, 2**42),
    blobs,
    blobs,
    st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=2),
    st.integers(1, 9000),
)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=20), st.integers(0, 4), st.booleans()), min_size=1, max_size=4
)


def arrow_rows(data: bytes, start: int = 0, end: int = 2**62) -> list[dict[str, Any]]:
    chunk = Chunk(T0, memoryview(data), 0, 0, None)
    found = sections(chunk.records, chunk.visible(check_crcs=True))
    made = record_batch(found, locate(found), "t", 0, start, end, include_headers=True)
    made.validate(full=True)
    rows: list[dict[str, Any]] = made.to_pylist()
    return rows


@given(batches)
@settings(max_examples=60, deadline=None)
def test_as_the_record_codec_says(given_batches: list[tuple[list[Any], int, bool]]) -> None:
    data, expected, offset = bytearray(), [], 1000
    for rows, codec, appended in given_batches:
        base, offsets = offset, []
        for row in rows:
            offsets.append(offset)
            offset += row[4]
        data += encode_batch(
            base,
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows],
            offsets=offsets,
            codec=codec,
            log_append_time_ms=1_700_000_000_000 if appended else None,
        )
        for at, (timestamp, key, value, headers, _) in zip(offsets, rows, strict=True):
            when = EPOCH + timedelta(milliseconds=1_700_000_000_000 if appended else timestamp)
            said = [{"key": name, "value": content} for name, content in headers] or None
            numbers = {"topic": "t", "partition": 0, "offset": at, "timestamp": when, "timestampType": int(appended)}
            expected.append({"key": key, "value": value, **numbers, "headers": said})
    assert arrow_rows(bytes(data)) == expected
    middle = expected[len(expected) // 2]["offset"]
    assert arrow_rows(bytes(data), middle) == [row for row in expected if row["offset"] >= middle]
    assert arrow_rows(bytes(data), 0, middle) == [row for row in expected if row["offset"] < middle]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_damage_is_refused_or_gives_rows(draw: st.DataObject) -> None:
    count = 12
    batch = encode_batch(0, list(range(0, 3000, 250)), [b"k"] * count, [b"v" * 70] * count)
    at = draw.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] = draw.draw(st.integers(0, 255))
    update_crc(batch, 0)
    try:
        rows = arrow_rows(bytes(batch))
    except MalformedMessage:
        return
    assert len(rows) <= count


def test_a_time_that_spark_cannot_hold_is_null() -> None:
    """Multiplied out, it came round to some other year."""
    times = [5, 1_700_000_000_000_000_000, -(2**62), -1]
    rows = arrow_rows(bytes(encode_batch(0, times, [None] * 4, [b"v"] * 4)))
    held = [EPOCH + timedelta(milliseconds=5), None, None, EPOCH - timedelta(milliseconds=1)]
    assert [row["timestamp"] for row in rows] == held


def test_a_count_that_does_not_fit_is_refused() -> None:
    two = encode_batch(0, [1, 2], [None, None], [b"a", b"b"]) + encode_batch(2, [1, 2], [None, None], [b"c", b"d"])
    second = [entry.position for entry in entries(two)][1]
    for at, count in ((0, 1), (second, 3)):
        two[at + RECORD_COUNT_AT : at + RECORD_COUNT_AT + 4] = count.to_bytes(4, "big")
        update_crc(two, at)
    with pytest.raises(MalformedMessage, match="do not fill it"):
        arrow_rows(bytes(two))


@pytest.mark.parametrize("record", [0, 1])
def test_a_length_below_zero_is_refused(record: int) -> None:
    """The lowest bit of a length is its sign: it was left out, and the record taken for whole."""
    batch = encode_batch(0, [1, 2], [None, None], [b"a", b"b"])
    batch[HEADER_BYTES + record * (len(batch) - HEADER_BYTES) // 2] |= 1
    update_crc(batch, 0)
    with pytest.raises(MalformedMessage, match="a record of negative size"):
        arrow_rows(bytes(batch))


def test_a_length_that_leads_back_to_itself_is_refused_at_once() -> None:
    """A batch may say that it has two thousand million records: no place is noted for each in advance."""
    header = read_header(encode_batch(0, [0], [None], [b""]))._replace(record_count=300_000, last_offset_delta=299_999)
    batch = assemble_batch(header, b"\x85\x80\x00" + bytes(10))  # -3, in three bytes
    arrow_rows(bytes(encode_batch(0, [0], [None], [b""])))
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            arrow_rows(bytes(batch))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(("at_once", "sizes"), [(1, [2, 2, 2]), (20, [4, 2]), (1000, [6])])
def test_an_answer_that_decompresses_to_very_much_is_decoded_in_parts(
    monkeypatch: pytest.MonkeyPatch, at_once: int, sizes: list[int]
) -> None:
    """Arrow's places are of 32 bits: behind two gigabytes they would begin anew."""
    monkeypatch.setattr(columns, "DECOMPRESSED_AT_ONCE", at_once)
    decoded = decoded_batches(monkeypatch, three_batches()[0])
    assert [len(rows) for rows in decoded] == sizes
    assert [*chain.from_iterable(decoded)] == [10, 11, 20, 21, 30, 31]


@pytest.mark.parametrize("count", [3, 1, 0, -1])
@pytest.mark.parametrize("damaged", range(3))
def test_the_damaged_one_of_several_batches_is_named(monkeypatch: pytest.MonkeyPatch, damaged: int, count: int) -> None:
    """It was always the first one of the answer, and whoever went on behind it met the damage again. One that says it
    is empty was passed over in silence when it was the last."""
    data, positions = three_batches()
    at = positions[damaged]
    data[at + RECORD_COUNT_AT : at + RECORD_COUNT_AT + 4] = count.to_bytes(4, "big", signed=True)
    update_crc(data, at)
    with pytest.raises(CorruptRecords) as raised:
        decode(monkeypatch, data)
    assert (raised.value.offset, raised.value.next_offset) == (10 * damaged + 10, 10 * damaged + 12)


@pytest.mark.parametrize("damaged", range(3))
def test_the_batch_with_a_damaged_header_is_named(monkeypatch: pytest.MonkeyPatch, damaged: int) -> None:
    """Headers are decoded last, and only when they are asked for: their damage was reported without a place."""
    data, positions = three_batches(headers=[[("n", b"1")]] * 2)
    key_length = data.rindex(b"\x02n", 0, [*positions, len(data)][damaged + 1])
    data[key_length] = 100
    update_crc(data, positions[damaged])
    assert decode(monkeypatch, data) == [10, 11, 20, 21, 30, 31]
    with pytest.raises(CorruptRecords, match="headers: ") as raised:
        decode(monkeypatch, data, include_headers=True)
    assert (raised.value.offset, raised.value.next_offset) == (10 * damaged + 10, 10 * damaged + 12)


@pytest.mark.parametrize("empty", [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}])
def test_batches_that_compaction_has_emptied_are_passed_over(monkeypatch: pytest.MonkeyPatch, empty: set[int]) -> None:
    data, positions = three_batches()
    made = bytearray()
    for number, (start, end) in enumerate(pairwise([*positions, len(data)])):
        header = read_header(data, start)
        made += assemble_batch(header._replace(record_count=0)) if number in empty else data[start:end]
    left = [base + delta for number, base in enumerate((10, 20, 30)) if number not in empty for delta in (0, 1)]
    assert decode(monkeypatch, made) == left


def three_batches(headers: list[Any] | None = None) -> tuple[bytearray, list[int]]:
    """Two records at offset 10, two at 20, two at 30; and where the batches begin."""
    data = bytearray()
    for base in (10, 20, 30):
        data += encode_batch(base, [1, 2], [None, None], [b"a", b"b"], headers)
    return data, [entry.position for entry in entries(data)]


def decode(monkeypatch: pytest.MonkeyPatch, data: bytearray, *, include_headers: bool = False) -> list[int]:
    """Return the offsets of all rows."""
    return [*chain.from_iterable(decoded_batches(monkeypatch, data, include_headers=include_headers))]


def decoded_batches(
    monkeypatch: pytest.MonkeyPatch, data: bytearray, *, include_headers: bool = False
) -> list[list[int]]:
    """Decode an answer as a Spark task does, that nothing had to be fetched for; return the offsets of each part."""
    session = SimpleNamespace(settings=SimpleNamespace(check_crcs=True))
    chunk = Chunk(T0, memoryview(bytes(data)), 10, 0, None)
    monkeypatch.setattr(reading, "session_for", lambda options: session)
    monkeypatch.setattr(fetching, "read_range", lambda *_, **__: [chunk])
    monkeypatch.setattr(reading, "here", lambda: SimpleNamespace(iterate=iter))
    options: Any = SimpleNamespace(
        client=None, fail_on_data_loss=True, poll_timeout_ms=None, include_headers=include_headers
    )
    decoded = reading._decoded(options, OffsetRange("t", 0, 10, 40))
    return [batch.column("offset").to_pylist() for batch in decoded]


def test_the_arrow_schema_is_sparks() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    assert SCHEMA.equals(to_arrow_schema(spark_schema(include_headers=False), timezone="UTC"))
    assert SCHEMA_WITH_HEADERS.equals(to_arrow_schema(spark_schema(include_headers=True), timezone="UTC"))


@pytest.mark.parametrize("name", ["v0-0", "v1-0", "mixed-0"])
def test_message_sets_of_a_broker_with_old_segments(name: str) -> None:
    """A broker of Kafka may have them from its past."""
    rows = arrow_rows(golden_bytes(name), 12)
    found = [(row["offset"], row["timestamp"].timestamp() * 1000, row["key"], row["value"]) for row in rows]
    assert found == expected(name)[12:]
    assert all(row["headers"] is None for row in rows)
