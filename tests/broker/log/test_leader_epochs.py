"""End offsets of epochs, and what a truncation leaves of them."""

import pytest

from odradek.broker.log.checkpoint_format import decode_epochs, encode_epochs
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.leader_epochs import UNKNOWN, LeaderEpochs

ENTRIES = [(2, 10), (4, 20), (7, 35)]
LOG_END = 50


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, UNKNOWN),
        (0, (0, 10)),  # before the first known: where that one begins
        (2, (2, 20)),
        (3, (2, 20)),  # between: the one below
        (4, (4, 35)),
        (6, (4, 35)),
        (7, (7, LOG_END)),
        (8, UNKNOWN),  # the future
    ],
)
def test_end_offset_for(epoch: int, answer: tuple[int, int]) -> None:
    assert LeaderEpochs(ENTRIES).end_offset_for(epoch, LOG_END) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert LeaderEpochs().end_offset_for(0, 0) == UNKNOWN
    assert LeaderEpochs().latest == -1


@pytest.mark.parametrize(
    ("assigned", "entries"),
    [
        ((7, 35), None),
        ((7, 40), None),  # the first offset of an epoch stays
        ((8, 50), [*ENTRIES, (8, 50)]),
        ((8, 35), [(2, 10), (4, 20), (8, 35)]),  # an epoch that wrote nothing
        ((8, 15), [(2, 10), (8, 15)]),
        ((5, 40), [(2, 10), (4, 20), (5, 40)]),
        ((7, 30), [(2, 10), (4, 20), (7, 30)]),
    ],
)
def test_assign(assigned: tuple[int, int], entries: list[tuple[int, int]] | None) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.assign(*assigned) is (entries is not None)
    assert epochs.entries() == (entries or ENTRIES)


@pytest.mark.parametrize(("end", "left"), [(50, 3), (36, 3), (35, 2), (20, 1), (11, 1), (10, 0)])
def test_truncate_from_end(end: int, left: int) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.truncate_from_end(end) is (left < 3)
    assert epochs.entries() == ENTRIES[:left]


@pytest.mark.parametrize(
    ("start", "entries"),
    [(5, ENTRIES), (10, ENTRIES), (15, [(2, 15), *ENTRIES[1:]]), (20, ENTRIES[1:]), (40, [(7, 40)])],
)
def test_truncate_from_start(start: int, entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.truncate_from_start(start) is (entries != ENTRIES)
    assert epochs.entries() == entries


def test_checkpoint_golden_bytes() -> None:
    """Written by hand; Kafka's own checkpoints are in test_byte_for_byte.py."""
    assert encode_epochs(ENTRIES) == b"0\n3\n2 10\n4 20\n7 35\n"
    assert decode_epochs(b"0\n3\n2 10\n4 20\n7 35\n") == ENTRIES
    assert decode_epochs(b"") == []


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n2\n2 10\n", b"0\n1\n2 10", b"0\n1\n2 10 3\n", b"\0\0\0", b"0\n1\na b\n"]
)
def test_damaged_checkpoints_are_found(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode_epochs(data)
