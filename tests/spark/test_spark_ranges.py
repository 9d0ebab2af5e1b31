"""How ranges are limited, split and checked, by tables and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.records import TopicPartition
from odradek.client.spark.offsets import DataLoss, OffsetRange, Offsets, limited, readable, split, too_few

A, B, C = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("start", "latest", "most", "expected"),
    [
        ({A: 0, B: 0}, {A: 10, B: 10}, 20, {A: 10, B: 10}),
        ({A: 0, B: 0}, {A: 10, B: 10}, 10, {A: 5, B: 5}),
        ({A: 0, B: 0}, {A: 90, B: 10}, 10, {A: 9, B: 1}),
        ({A: 0, B: 0}, {A: 999, B: 1}, 10, {A: 9, B: 1}),
        ({A: 5, B: 7}, {A: 5, B: 107}, 10, {A: 5, B: 17}),
        ({A: 0}, {A: 10, B: 40}, 10, {A: 3, B: 26}),
        ({A: 5, B: 0}, {A: 3, B: 100}, 10, {A: 3, B: 10}),
    ],
    ids=["all fits", "halves", "in proportion", "at least one", "nothing new", "new partition from 20", "went back"],
)
def test_limited(start: Offsets, latest: Offsets, most: int, expected: Offsets) -> None:
    assert limited(start, latest, {A: 0, B: 20}, most) == expected


sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)


@given(sizes, st.integers(1, 5_000))
def test_limited_makes_progress_and_keeps_the_limit(new: list[int], most: int) -> None:
    partitions = [TopicPartition("t", number) for number in range(len(new))]
    start = dict.fromkeys(partitions, 3)
    latest = {one: 3 + size for one, size in zip(partitions, new, strict=True)}
    ends = limited(start, latest, {}, most)
    taken = [ends[one] - start[one] for one in partitions]
    assert all(0 <= part <= size for part, size in zip(taken, new, strict=True))
    assert sum(taken) <= most + len(new)
    assert sum(taken) > 0 or not sum(new)


def ranges(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 100, 100 + length) for number, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "min_partitions", "expected"),
    [
        ((10, 0, 5), None, [10, 5]),
        ((10, 5), 2, [10, 5]),
        ((10,), 3, [3, 3, 4]),
        ((100, 1), 4, [33, 33, 34, 1]),
        ((2,), 5, [1, 1]),
        ((50, 50), 4, [25, 25, 25, 25]),
    ],
)
def test_split(lengths: tuple[int, ...], min_partitions: int | None, expected: list[int]) -> None:
    assert [len(one) for one in split(ranges(*lengths), min_partitions)] == expected


@given(sizes, st.one_of(st.none(), st.integers(1, 40)))
def test_split_covers_every_offset_once(lengths: list[int], min_partitions: int | None) -> None:
    whole = ranges(*lengths)
    parts = split(whole, min_partitions)
    for one in whole:
        own = [part for part in parts if part.partition == one.partition]
        assert [offset for part in own for offset in range(part.start, part.end)] == list(range(one.start, one.end))


@pytest.mark.parametrize(
    ("lengths", "min_partitions", "max_records", "expected"),
    [
        ((10, 3), None, 5, [5, 5, 3]),
        ((11,), None, 5, [3, 4, 4]),
        ((10, 3), 2, 5, [5, 5, 3]),
        ((10,), 5, 5, [1, 2, 2, 1, 2, 2]),
        ((4,), None, 100, [4]),
    ],
)
def test_split_with_a_most(
    lengths: tuple[int, ...], min_partitions: int | None, max_records: int, expected: list[int]
) -> None:
    found = [len(one) for one in split(ranges(*lengths), min_partitions, max_records)]
    assert sum(found) == sum(lengths) and max(found) <= max_records
    assert found == expected


def test_too_few() -> None:
    assert too_few({A: 5}, {A: 8, B: 2}, 6) and not too_few({A: 5}, {A: 8, B: 2}, 5)


def test_readable_names_exactly_what_is_lost() -> None:
    wanted = [
        OffsetRange("t", 0, 10, 50),
        OffsetRange("t", 1, 10, 50),
        OffsetRange("t", 2, 10, 50),
        OffsetRange("t", 3, 50, 20),
    ]
    kept, lost = readable(wanted, {A: 10, B: 30, C: 90})
    assert kept == [OffsetRange("t", 0, 10, 50), OffsetRange("t", 1, 30, 50), OffsetRange("t", 2, 50, 50)]
    assert [one.where for one in lost] == [
        OffsetRange("t", 1, 10, 30),
        OffsetRange("t", 2, 10, 50),
        OffsetRange("t", 3, 20, 50),
    ]
    said = str(DataLoss(lost))
    assert "t-1 offsets 10 to 29 (20): the log now starts at 30" in said
    assert "t-3 offsets 20 to 49 (30): they were read before, but the log now ends at 20" in said
    assert "failOnDataLoss=false" in said
