"""End offsets of epochs, and what a truncation leaves of them."""

import errno
from typing import cast

import pytest

from odradek.broker.log.checkpoint_format import decode_epochs, encode_epochs
from odradek.broker.log.errors import CorruptFile
from odradek.broker.log.leader_epochs import UNKNOWN, EpochFile, LeaderEpochs
from odradek.world.files import Files

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


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 4), (35, 7), (LOG_END, 7)])
def test_epoch_at(offset: int, epoch: int) -> None:
    epochs = LeaderEpochs(ENTRIES)
    assert epochs.epoch_at(offset) == epoch
    epochs.clear()
    assert epochs.epoch_at(offset) == -1 and not epochs.entries()


@pytest.mark.parametrize(
    ("learned", "entries"),
    [
        ((-1, 40), ENTRIES),  # an old format does not say
        ((4, 30), ENTRIES),
        ((7, 60), ENTRIES),
        ((9, 60), [*ENTRIES, (9, 60)]),
        ((7, 30), [*ENTRIES[:2], (7, 30)]),  # it began earlier
        ((2, 5), [(2, 5)]),
        ((4, 40), ENTRIES[:2]),  # there was no epoch 7
        ((3, 40), [(2, 10), (3, 40)]),
        ((5, 15), [(2, 10), (5, 15)]),
        ((1, 40), [(1, 40)]),
        ((0, 40), [(0, 40)]),
    ],
)
def test_what_the_log_says_counts_more_than_the_checkpoint(
    learned: tuple[int, int], entries: list[tuple[int, int]]
) -> None:
    epochs = LeaderEpochs(ENTRIES)
    epochs.learn(*learned)
    assert epochs.entries() == entries
    assert epochs.epoch_at(learned[1]) == (learned[0] if learned[0] >= 0 else 7)


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


class Disk:
    """Files of which one directory may be full, or broken."""

    def __init__(self) -> None:
        self.error: int | None = None
        self.written: dict[str, bytes] = {}

    def write_atomically(self, path: str, data: bytes, *, sync: bool) -> None:
        assert not sync, "the log's next flush does that"
        if self.error is not None:
            raise OSError(self.error, "refused")
        self.written[path] = data


def test_epochs_for_which_there_is_no_room_are_written_later(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    file = EpochFile(cast(Files, disk), "d/t-0")
    file.write(ENTRIES[:1])
    disk.error = errno.ENOSPC
    for count in (2, 3):
        file.write(ENTRIES[:count])
    file.try_again()
    assert file.waits_for_room and disk.written == {"d/t-0/leader-epoch-checkpoint": encode_epochs(ENTRIES[:1])}
    assert len(caplog.records) == 1, "it is said once"
    disk.error = None
    file.moved_to("e/t-0")
    file.try_again()
    assert not file.waits_for_room and disk.written["e/t-0/leader-epoch-checkpoint"] == encode_epochs(ENTRIES)
    disk.written.clear()
    file.try_again()
    assert not disk.written
    disk.error = errno.EIO
    with pytest.raises(OSError, match="refused"):
        file.write(ENTRIES)
    assert not file.waits_for_room


def test_epochs_that_were_written_during_a_flush_wait_for_the_next_one() -> None:
    file = EpochFile(cast(Files, Disk()), "t-0")
    assert not file.unsynced
    file.write(ENTRIES[:1])
    flushed = file.written
    file.write(ENTRIES)
    file.synced(flushed)
    assert file.unsynced
    file.synced(file.written)
    assert not file.unsynced
