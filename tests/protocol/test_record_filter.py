"""Batches that compaction takes apart no further than it has to: the same as if they were decoded and encoded again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.record_batch import HEADER_BYTES, CorruptBatch, check_crc, read_header, update_crc
from odradek.protocol.record_filter import GONE, STAYS, TOMBSTONE, keys_of, without_gone
from odradek.protocol.records import decode_records, encode_batch

BASE_OFFSET, BASE_MS = 5_000_000_000, 1_700_000_000_000
HORIZON_MS = BASE_MS + 86_400_000
CONTENTS = st.none() | st.binary(max_size=150)
RECORDS = st.lists(
    st.tuples(
        st.integers(-100, 10_000) | st.integers(0, 2**40),
        CONTENTS,
        CONTENTS,
        st.lists(st.tuples(st.text(max_size=3), CONTENTS), max_size=2),
        st.sampled_from([GONE, STAYS, TOMBSTONE]),
        st.integers(1, 3) | st.integers(1, 10_000),
    ),
    min_size=1,
    max_size=90,
)


@settings(max_examples=60, deadline=None)
@given(
    records=RECORDS,
    codec=st.sampled_from([0, 0, 1, 4]),
    gaps=st.booleans(),
    append_time=st.booleans(),
    horizons=st.sampled_from([(None, None), (None, HORIZON_MS), (HORIZON_MS, HORIZON_MS)]),
)
def test_it_is_as_if_decoded_and_encoded(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int, int]],
    codec: int,
    gaps: bool,
    append_time: bool,
    horizons: tuple[int | None, int | None],
) -> None:
    deltas, keys, values, headers, verdicts, steps = map(list, zip(*records, strict=True))
    times = [BASE_MS + delta for delta in deltas]
    offsets = [BASE_OFFSET + sum(steps[: index + 1]) if gaps else BASE_OFFSET + index for index in range(len(records))]
    last_offset = offsets[-1] + (3 if gaps else 0)
    append_ms = BASE_MS + 77 if append_time else None

    def batch_of(rows: list[int], timestamps: list[int], horizon_ms: int | None) -> bytearray:
        return encode_batch(
            BASE_OFFSET,
            [timestamps[row] for row in rows],
            [keys[row] for row in rows],
            [values[row] for row in rows],
            [headers[row] for row in rows],
            offsets=[offsets[row] for row in rows],
            last_offset=last_offset,
            codec=codec,
            producer_id=9,
            producer_epoch=1,
            base_sequence=4,
            transactional=True,
            partition_leader_epoch=3,
            log_append_time_ms=append_ms,
            delete_horizon_ms=horizon_ms,
        )

    batch = batch_of(list(range(len(records))), times, horizons[0])
    found = keys_of(batch)
    assert list(found.offsets) == offsets and found.keys == keys
    assert list(found.verdicts) == [TOMBSTONE if value is None else STAYS for value in values]
    stay = [row for row, verdict in enumerate(verdicts) if verdict != GONE]
    if stay:
        left = without_gone(batch, bytes(verdicts), horizons[1])
        check_crc(left, 0, read_header(left))
        times = decode_records(batch).timestamps
        assert left == batch_of(stay, times, horizons[1])


def damaged(section: bytes, *, count: int = 1, last_delta: int = 0) -> bytearray:
    """A batch whose checksum is right and whose records are not."""
    batch = encode_batch(0, [1], [b"k"], [b"v"])[:HEADER_BYTES] + section
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = last_delta.to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    update_crc(batch, 0)
    return batch


GOOD = bytes.fromhex("10 00 00 00 02 6b 02 76 00")


@pytest.mark.parametrize(
    "batch",
    [
        damaged(GOOD[:-1]),
        damaged(GOOD + b"\0"),
        damaged(b""),
        damaged(GOOD, count=2, last_delta=1),
        damaged(GOOD.replace(b"\x02k", b"\x20k")),
        damaged(b"\xff" * 9),
        damaged(b"\x01" + GOOD[1:]),
        damaged(GOOD.replace(b"\0\0\x02k", b"\0\x0a\x02k"), last_delta=3),
        encode_batch(0, [1], [b"k"], [b"v"])[:-1],
    ],
)
def test_damaged_records_are_said_to_be(batch: bytearray) -> None:
    with pytest.raises(CorruptBatch):
        keys_of(batch)


def test_the_example_of_damage_is_good_by_itself() -> None:
    assert keys_of(damaged(GOOD)) == (range(1), [b"k"], bytearray([STAYS]))
