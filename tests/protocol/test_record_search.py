"""Records by time: the same as by looking at all of them."""

import tracemalloc

import pytest

from odradek.broker.log.offset_lookup import find_record
from odradek.protocol import compression
from odradek.protocol.record_batch import CorruptBatch, assemble_batch, read_header
from odradek.protocol.records import decode_records, encode_batch
from odradek.protocol.steps import STEP_RECORDS, at_once

TIMES_MS = [1000, 5000, 1000, 1_000_000, 3000, 1_000_000]
OFFSETS = [40, 41, 45, 300, 301, 9000]


def by_looking_at_all(batch: bytearray, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    records = decode_records(batch)
    for found in zip(records.timestamps, records.offsets, strict=True):
        if found[0] >= timestamp_ms and found[1] >= start_offset:
            return found
    return None


@pytest.mark.parametrize("codec", [compression.NONE, compression.LZ4, compression.ZSTD])
@pytest.mark.parametrize("append_time_ms", [None, 4000])
def test_the_first_record_at_or_after_a_time_and_an_offset(codec: int, append_time_ms: int | None) -> None:
    values = [b"x" * size for size in (0, 1, 63, 64, 8191, 8192)]
    batch = encode_batch(
        40, TIMES_MS, [None] * 6, values, offsets=OFFSETS, codec=codec, log_append_time_ms=append_time_ms
    )
    for timestamp_ms in (0, 999, 1000, 1001, 4000, 5000, 5001, 1_000_000, 1_000_001):
        for start in (0, 40, 41, 42, 299, 300, 9000, 9001):
            assert at_once(find_record(batch, timestamp_ms, start)) == by_looking_at_all(batch, timestamp_ms, start)


def test_what_follows_the_record_is_not_looked_at() -> None:
    batch = encode_batch(0, [1, 2, 3], [None] * 3, [b"a", b"b", b"c"])
    del batch[-9:]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    assert at_once(find_record(batch, 2, 0)) == (2, 1)
    with pytest.raises(CorruptBatch):
        at_once(find_record(batch, 4, 0))


def test_a_batch_without_records_has_none() -> None:
    header = read_header(encode_batch(0, [1], [None], [b""]))
    assert at_once(find_record(assemble_batch(header._replace(record_count=0)), 0, 0)) is None


@pytest.mark.parametrize("codec", [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD])
def test_records_that_lie_across_the_pieces(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "DECOMPRESSED_AT_ONCE", 50)
    monkeypatch.setattr(compression, "SNAPPY_BLOCK_BYTES", 50)
    count = 2 * STEP_RECORDS
    values = [b"%d" % number * (number % 40) for number in range(count)]
    times = [number * 977 for number in range(count)]
    batch = encode_batch(40, times, [None] * count, values, codec=codec)
    for wanted in range(0, count, 17):
        assert at_once(find_record(batch, times[wanted], 0)) == (times[wanted], 40 + wanted)
    assert at_once(find_record(batch, times[-1] + 1, 0)) is None
    assert len(list(find_record(batch, times[-1] + 1, 0))) > (2 if codec == compression.ZSTD else count // 10)


def test_what_is_passed_over_is_not_kept() -> None:
    """A record of 64 MB before the one that is looked for, in a few kilobytes."""
    batch = encode_batch(0, [1, 2], [None] * 2, [bytes(64 << 20), b""], codec=compression.ZSTD)
    tracemalloc.start()
    try:
        assert at_once(find_record(batch, 2, 0)) == (2, 1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
