"""Counting: each kind of damage is seen, and a sound log has none."""

import zlib

import pytest

from odradek.demo.readers import Read, runs
from odradek.demo.verdict import Place, Rows, compare, compare_reads, read_out_of_order

SENT = [b"a", b"b", b"c", b"d", b"e", b"f"]
"""Two producers in turn: a, c, e are of the first, b, d, f of the second."""
PLACES: list[Place | None] = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
LOG: Rows = {0: [(0, b"a"), (1, b"b"), (2, b"e"), (3, b"f")], 1: [(0, b"c"), (1, b"d")]}
KINDS = ("lost", "misplaced", "repeated", "out_of_order", "unknown")


def counts(places: list[Place | None], log: Rows) -> dict[str, int]:
    findings = compare(SENT, 2, places, log)
    found = {kind: getattr(findings, kind) for kind in KINDS}
    return {kind: count for kind, count in found.items() if count}


def test_a_sound_log() -> None:
    findings = compare(SENT, 2, PLACES, LOG)
    assert (findings.produced, findings.acknowledged, findings.in_log) == (6, 6, 6)
    assert counts(PLACES, LOG) == {}
    assert findings.problems == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param({0: [(0, b"a"), (1, b"b"), (2, b"e")], 1: LOG[1]}, {"lost": 1}, id="the end is gone"),
        pytest.param({0: LOG[0]}, {"lost": 2}, id="a partition is gone"),
        pytest.param({0: LOG[0], 1: [(0, b"c"), (1, b"x")]}, {"lost": 1, "unknown": 1}, id="another value"),
        pytest.param({0: LOG[0], 1: [(0, b"c"), (2, b"d")]}, {"misplaced": 1}, id="another offset"),
        pytest.param({0: [*LOG[0], (4, b"d")], 1: [(0, b"c")]}, {"misplaced": 1, "out_of_order": 1}, id="elsewhere"),
        pytest.param({0: [*LOG[0], (4, b"f")], 1: LOG[1]}, {"repeated": 1}, id="the last one twice"),
        pytest.param({0: LOG[0], 1: [*LOG[1], (2, b"a")]}, {"repeated": 1, "out_of_order": 1}, id="again elsewhere"),
        pytest.param({0: LOG[0], 1: [*LOG[1], (2, b"x")]}, {"unknown": 1}, id="one more that nobody sent"),
        pytest.param(
            {0: [(0, b"e"), (1, b"b"), (2, b"a"), (3, b"f")], 1: LOG[1]},
            {"misplaced": 2, "out_of_order": 1},
            id="two of a producer have changed places",
        ),
    ],
)
def test_each_kind_of_damage_is_seen(log: Rows, expected: dict[str, int]) -> None:
    assert counts(PLACES, log) == expected
    assert len(compare(SENT, 2, PLACES, log).problems) == len(expected)


def test_order_is_counted_partition_by_partition() -> None:
    log = {0: LOG[0], 1: [(0, b"d"), (1, b"c"), (2, b"a")]}
    assert compare(SENT, 2, PLACES, log).out_of_order_by_partition == {0: 0, 1: 1}


def test_producers_are_in_order_each_by_itself() -> None:
    log = {0: [(0, b"b"), (1, b"a"), (2, b"d"), (3, b"c")]}
    assert counts([(0, 1), (0, 0), (0, 3), (0, 2), None, None], log) == {}


def test_a_record_without_an_acknowledgement_is_a_problem_but_not_a_loss() -> None:
    findings = compare(SENT, 2, [*PLACES[:5], None], LOG)
    assert (findings.lost, findings.misplaced) == (0, 0)
    assert findings.problems == ["1 records not acknowledged"]


def test_an_acknowledgement_without_an_offset_is_met_anywhere_in_its_partition() -> None:
    assert counts([*PLACES[:5], (0, -1)], LOG) == {}
    assert counts([*PLACES[:5], (1, -1)], LOG) == {"misplaced": 1}


def reads() -> list[Read]:
    return [*runs(0, LOG[0][:2]), *runs(0, LOG[0][2:]), *runs(1, LOG[1])]


def test_a_group_that_has_read_everything_once() -> None:
    group = compare_reads(reads(), LOG)
    assert (group.read, group.different, group.read_again, group.problems) == (6, 6, 0, [])


def test_reading_again_is_counted_and_no_problem() -> None:
    again = [read._replace(reader=1) for read in runs(0, LOG[0][1:3])]
    group = compare_reads([*reads(), *again], LOG)
    assert group.readers_by_partition == {0: [0, 1], 1: [0]}
    assert (group.read, group.different, group.read_again, group.problems) == (8, 6, 2, [])


def test_what_the_group_has_missed_is_seen() -> None:
    assert compare_reads(reads()[:-1], LOG).missed == 2


@pytest.mark.parametrize("read", [Read(1, 0, 2, zlib.crc32(b"cx")), Read(1, 1, 2, zlib.crc32(b"dd"))])
def test_what_was_read_otherwise_is_seen(read: Read) -> None:
    assert compare_reads([*reads(), read], LOG).altered == 2


def test_runs_end_at_gaps() -> None:
    found = runs(3, [(5, b"a"), (6, b"b"), (8, b"c")])
    assert found == [Read(3, 5, 2, zlib.crc32(b"ab")), Read(3, 8, 1, zlib.crc32(b"c"))]


@pytest.mark.parametrize(
    ("pieces", "records"),
    [
        pytest.param([(0, 5, 0), (5, 3, 0), (8, 1, 0)], 0, id="one reader, one piece after the other"),
        pytest.param([(0, 5, 0), (5, 3, 1), (8, 1, 0)], 0, id="handed over and back"),
        pytest.param([(0, 5, 0), (2, 4, 1), (6, 1, 1)], 0, id="taken over, again from the last commit"),
        pytest.param([(0, 5, 0), (2, 4, 0)], 4, id="a reader has gone back by itself"),
        pytest.param([(0, 5, 0), (6, 2, 0)], 2, id="a reader has left something out"),
        pytest.param([(0, 5, 0), (6, 2, 1)], 2, id="something left out where it was taken over"),
        pytest.param([(1, 5, 0)], 5, id="not from the beginning"),
    ],
)
def test_reading_is_in_order_when_nothing_is_left_out(pieces: list[tuple[int, int, int]], records: int) -> None:
    assert read_out_of_order(Read(0, first, count, 0, reader) for first, count, reader in pieces) == records


def test_what_was_read_out_of_order_is_a_problem() -> None:
    group = compare_reads([*reads(), *runs(0, LOG[0][1:3]), *runs(0, LOG[0][1:3])], LOG)
    assert group.out_of_order_by_partition == {0: 4, 1: 0}
    assert group.problems == ["4 records read out of order"]
