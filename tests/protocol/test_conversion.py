"""Message sets to batches and back: generated ones, Kafka's own, and kafka-python as a second reader."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from odradek.protocol import compression
from odradek.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, UnknownCodec
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.conversion import RUN_BYTES, end_offset, has_messages, messages_in_steps, records_of, to_batches
from odradek.protocol.message_set import down_convert, encode_message, messages, up_convert
from odradek.protocol.record_batch import LOG_APPEND_TIME_BIT, CorruptBatch, batches, entries
from odradek.protocol.records import Columns, decode_records, encode_batch
from odradek.testing.old_segments import GOLDEN, OldRecord, expected, golden_bytes

TIME = 1_400_000_000_000
OLD_CODECS = (NONE, GZIP, SNAPPY, LZ4)


def rows(one: Columns) -> list[OldRecord]:
    return list(zip(one.offsets, one.timestamps, one.keys, one.values, strict=True))


def of_batches(data: bytes) -> list[OldRecord]:
    return [row for at, _ in batches(data) for row in rows(decode_records(data, at))]


def by_kafka_python(data: bytes) -> list[OldRecord]:
    found = []
    readable = MemoryRecords(data)
    while readable.has_next():
        batch = readable.next_batch()
        assert batch.validate_crc()
        found += [(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value) for one in batch]
    return found


def up(data: bytes, *, compressed: bool = True) -> bytes:
    return b"".join(to_batches(data, compressed=compressed))


def down(data: bytes, magic: int, from_offset: int = 0) -> bytes:
    return b"".join(piece for piece in messages_in_steps(data, magic, from_offset) if piece is not None)


small = st.none() | st.binary(max_size=12)


@st.composite
def stored(draw: st.DrawFn) -> tuple[bytes, list[OldRecord], list[int]]:
    """Some batches and messages with rising offsets, what is in them, and which codecs they have."""
    out, offset = bytearray(), draw(st.integers(0, 2**50))
    records: list[OldRecord] = []
    codecs: list[int] = []
    for _ in range(draw(st.integers(1, 5))):
        magic = draw(st.integers(0, 2))
        codec = draw(st.sampled_from((*OLD_CODECS, ZSTD) if magic == 2 else OLD_CODECS))
        offsets = []
        for gap in draw(st.lists(st.sampled_from([1, 1, 1, 7]), min_size=1, max_size=4)):
            offset += gap
            offsets.append(offset)
        times = [TIME + draw(st.integers(-5, 5)) for _ in offsets]
        keys, values = [draw(small) for _ in offsets], [draw(small) for _ in offsets]
        if magic == 2:
            out += encode_batch(offsets[0], times, keys, values, offsets=offsets, codec=codec)
        else:
            out += down_convert(Columns(offsets, times, keys, values), magic, codec)
        records += zip(offsets, [-1] * len(offsets) if magic == 0 else times, keys, values, strict=True)
        codecs.append(codec)
    return bytes(out), records, codecs


@settings(max_examples=50)
@given(stored())
def test_up(found: tuple[bytes, list[OldRecord], list[int]]) -> None:
    data, records, codecs = found
    converted = up(data)
    assert of_batches(converted) == records == by_kafka_python(converted)
    assert not has_messages(converted) and up(converted) == converted
    assert end_offset(data, -1) == end_offset(converted, -1) == records[-1][0] + 1
    assert {header.codec for _, header in batches(converted)} == set(codecs)
    assert of_batches(up(data, compressed=False)) == records
    assert up(data[:-1]) == up(data[: list(entries(data))[-1].position]), "what is cut off is left out"


@settings(max_examples=50)
@given(stored(), st.integers(0, 1))
def test_down(found: tuple[bytes, list[OldRecord], list[int]], magic: int) -> None:
    data, records, codecs = found
    if ZSTD in codecs:
        with pytest.raises(UnknownCodec):
            down(data, magic)
        return
    converted = down(data, magic)
    wanted = [(offset, -1 if magic == 0 else time, key, value) for offset, time, key, value in records]
    assert rows(up_convert(converted)) == wanted
    if LZ4 not in codecs:  # kafka-python has not the wrong checksum of that time
        assert by_kafka_python(converted) == wanted
    for message in messages(converted):
        assert message.magic <= magic
        if message.codec:
            inside = [
                one.offset
                for one in messages(compression.decompress(message.codec, message.value or b"", lenient_lz4=True))
            ]
            assert inside[-1] == message.offset if message.magic == 0 else inside[0] == 0


@pytest.mark.parametrize("name", ["v0-0", "v1-0", "mixed-0"])
def test_kafkas_own(name: str) -> None:
    data = golden_bytes(name)
    assert of_batches(up(data)) == expected(name) == by_kafka_python(up(data))
    for magic in (0, 1):
        wanted = [(n, time if magic else -1, key, value) for n, time, key, value in expected(name)]
        assert rows(up_convert(down(data, magic))) == wanted
    assert down(golden_bytes("v0-0"), 0) == golden_bytes("v0-0"), "nothing is done to what is right already"
    assert down(golden_bytes("v0-0"), 1) == golden_bytes("v0-0"), "a reader of format 1 reads 0 too"
    assert [
        row for entry in entries(data) for row in rows(records_of(data[entry.position :][: entry.size_bytes]))
    ] == expected(name)


def shape(data: bytes) -> list[tuple[object, ...]]:
    """Everything in a message set but what compression makes of it; a cut-off end is left."""
    found: list[tuple[object, ...]] = []
    for one in messages(data, allow_partial_tail=True):
        value = None if one.value is None else bytes(one.value)
        if one.codec:
            inside = compression.decompress(one.codec, value or b"", lenient_lz4=one.magic == 0)
            found.append((one.offset, one.magic, one.attributes, one.timestamp, one.key, shape(inside)))
        else:
            found.append((one.offset, one.magic, one.attributes, one.timestamp, one.key, value))
    return found


@pytest.mark.parametrize(
    "answer", sorted(GOLDEN.glob("down*/*.bin")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_kafka_converts_to_the_same(answer: Path) -> None:
    """Offsets inside and outside of wrappers, attributes, times; without headers, markers and producer ids."""
    version, offset = int(answer.stem[7]), int(answer.stem.rpartition("-")[2])
    stored = (answer.parent / "00000000000000000000.log").read_bytes()
    begin = next(at for at, header in batches(stored) if header.last_offset >= offset)
    ours = shape(down(stored[begin:], 0 if version < 2 else 1, offset))
    assert ours == shape(answer.read_bytes())
    assert len(ours) >= 4


def test_kinds_of_time_do_not_mix() -> None:
    """A batch of the broker's time has one time."""
    data = b"".join(
        bytes(encode_message(1, offset, time, None, b"v", bit))
        for offset, time, bit in (
            (0, TIME, 0),
            (1, TIME + 5, 0),
            (2, TIME + 9, LOG_APPEND_TIME_BIT),
            (3, TIME + 9, LOG_APPEND_TIME_BIT),
            (4, TIME + 10, LOG_APPEND_TIME_BIT),
            (5, TIME, 0),
        )
    )
    found = [(header.base_offset, header.last_offset, header.is_log_append_time) for _, header in batches(up(data))]
    assert found == [(0, 1, False), (2, 3, True), (4, 4, True), (5, 5, False)]
    assert [row[1] for row in of_batches(up(data))] == [TIME, TIME + 5, TIME + 9, TIME + 9, TIME + 10, TIME]
    back = up_convert(down(up(data), 1))
    assert back.timestamps == [TIME, TIME + 5, TIME + 9, TIME + 9, TIME + 10, TIME]
    assert [one.is_log_append_time for one in messages(down(up(data), 1))] == [False, False, True, True, True, False]


def test_long_runs_are_divided() -> None:
    one = encode_message(0, 0, -1, None, bytes(1000))
    data = b"".join(bytes(encode_message(0, offset, -1, None, bytes(1000))) for offset in range(200))
    sizes = [len(batch) for batch in to_batches(data, compressed=True)]
    assert len(sizes) == -(-len(data) // (RUN_BYTES + len(one))) and max(sizes) < RUN_BYTES + 2 * len(one)
    far = bytes(encode_message(1, 0, TIME, b"k", None)) + bytes(encode_message(1, 2**31, TIME, b"k", None))
    assert [header.base_offset for _, header in batches(up(far))] == [0, 2**31]


def test_what_cannot_be_a_batch_is_damage() -> None:
    falling = bytes(encode_message(1, 5, TIME, b"k", b"v")) * 2
    wide = down_convert(Columns([0, 2**31], [1, 1], [None, None], [b"a", b"b"]), 0, GZIP)
    for data in (falling, wide):
        with pytest.raises(CorruptBatch):
            up(data)
    beyond = bytearray(down_convert(Columns([2**63 - 2, 2**63 - 1], [1, 1], [None, None], [b"a", b"b"]), 1, NONE))
    beyond[:8] = (2**63 - 1).to_bytes(8, "big")
    second = len(beyond) // 2
    beyond[second : second + 8] = (5).to_bytes(8, "big")
    packed = bytes(encode_message(1, 2**63 - 1, TIME, None, compression.compress(GZIP, beyond), GZIP))
    for convert in (up, lambda data: down(data, 0)):
        with pytest.raises(CorruptBatch, match="beyond"):
            convert(packed)
    damaged = bytearray(encode_message(1, 5, TIME, b"k", b"v"))
    damaged[-1] ^= 1
    for convert in (up, lambda data: down(data, 0)):
        with pytest.raises(CorruptBatch, match="checksum"):
            convert(bytes(damaged))


def test_an_old_reader_gets_records_alone() -> None:
    """No control batches, no headers, and of plain batches nothing before the offset it asked for."""
    batch = encode_batch(
        0,
        [TIME] * 3,
        [b"k"] * 3,
        [b"0", b"1", b"2"],
        [[("h", b"x")]] * 3,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    marker = bytearray(encode_end_txn_marker(EndTxnMarker(True, 0), TIME, 7, 0))
    marker[:8] = (3).to_bytes(8, "big")
    packed = encode_batch(4, [TIME] * 2, [None] * 2, [b"4", b"5"], codec=GZIP)
    data = bytes(batch + marker + packed)
    for magic in (0, 1):
        assert up_convert(down(data, magic)).values == [b"0", b"1", b"2", b"4", b"5"]
        assert up_convert(down(data, magic, 2)).values == [b"2", b"4", b"5"]
        assert up_convert(down(data, magic, 5)).values == [b"4", b"5"], "a compressed message stays whole"
        assert down(bytes(marker), magic) == b""
    assert end_offset(bytes(batch + marker), -1) == 4 and end_offset(b"", 17) == 17


def test_zstd_is_found_where_it_begins() -> None:
    good = encode_batch(0, [TIME], [None], [b"a"], codec=SNAPPY)
    data = bytes(good + encode_batch(1, [TIME], [None], [b"b"], codec=ZSTD))
    pieces = (piece for piece in messages_in_steps(data, 1, 0) if piece is not None)
    assert up_convert(next(pieces)).values == [b"a"]
    with pytest.raises(UnknownCodec):
        next(pieces)
