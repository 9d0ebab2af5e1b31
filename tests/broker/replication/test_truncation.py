"""Where a follower cuts its log: table and the known schedules that a high watermark alone gets wrong."""

import pytest

from odradek.broker.log.batches import Origin, checked_batches
from odradek.broker.log.compaction.filter import empty_batch
from odradek.broker.log.log import Log
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.truncation import (
    CUTS_MAX,
    FollowerTruncation,
    drop_open_transactions,
    may_lack_markers,
    truncation_offset,
)
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.messages.fetch import EpochEndOffset
from odradek.protocol.record_batch import read_header
from odradek.testing.log_environments import make_batch, make_environment, open_test_log

# our own history: (epoch, first offset of it), in order, and where our log ends
HISTORY = [(0, 0), (2, 10), (5, 30)]
LOG_END = 42


def own_end_offset_for(epoch: int) -> tuple[int, int]:
    """LeaderEpochFileCache.endOffsetFor on HISTORY."""
    if epoch > HISTORY[-1][0] or epoch < HISTORY[0][0]:
        return -1, -1
    known = [index for index, (own, _) in enumerate(HISTORY) if own <= epoch]
    last = known[-1]
    end = HISTORY[last + 1][1] if last + 1 < len(HISTORY) else LOG_END
    return HISTORY[last][0], end


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end", "expected", "why"),
    [
        (5, 42, 42, "same history"),
        (5, 35, 35, "the leader's last epoch is shorter: our surplus was never acknowledged"),
        (5, 50, 42, "the leader has more: nothing to cut"),
        (2, 25, 25, "we led epoch 5 alone, and have more of epoch 2 than the leader"),
        (2, 35, 30, "the leader has more of epoch 2: our epoch 5 goes"),
        (3, 28, 30, "we do not know epoch 3: cut at the end of our epoch 2 and ask again"),
        (9, 60, 42, "an epoch that we have never heard of: keep all, ask again from our end"),
        (-1, 20, 20, "an old leader that tells offsets without epochs"),
        (-1, -1, 17, "a leader that knows nothing: the high watermark is all there is"),
    ],
)
def test_cut(leader_epoch: int, leader_end: int, expected: int, why: str) -> None:
    cut = truncation_offset(
        leader_epoch, leader_end, own_end_offset_for=own_end_offset_for, log_end_offset=LOG_END, high_watermark=17
    )
    assert cut == expected, why


EMPTY = bytes(empty_batch(read_header(make_batch([b"x"], base_offset=4, epoch=0))))
"""What compaction leaves of the batch at 4 where it keeps its header."""


@pytest.mark.parametrize(
    ("batches", "expected", "why"),
    [
        ([], False, "nothing has come"),
        (
            [make_batch([b"x", b"y"], base_offset=3, epoch=0), make_batch([b"z"], base_offset=5, epoch=0)],
            False,
            "all is there",
        ),
        ([make_batch([b"x"], base_offset=4, epoch=0)], True, "what followed our end is gone"),
        (
            [make_batch([b"x"], base_offset=3, epoch=0), make_batch([b"z"], base_offset=5, epoch=0)],
            True,
            "something later is gone",
        ),
        ([make_batch([b"x"], base_offset=3, epoch=0), EMPTY], True, "it may have been a marker"),
    ],
)
def test_where_markers_may_be_gone(batches: list[bytearray], expected: bool, why: str) -> None:
    sent = checked_batches(memoryview(b"".join(batches)))
    assert may_lack_markers(sent, 3) == expected, why


def open_log(begun: list[int], ended: dict[int, int]) -> Log:
    """Make a log of transactions of one record each: producers by where they begin, markers as offset → producer."""
    log = open_test_log(make_environment(), LogConfig(), clean=True)
    for offset in range(max([*begun, *ended]) + 1):
        if offset in ended:
            batch = encode_end_txn_marker(EndTxnMarker(True, 0), 0, ended[offset], 0)
        else:
            batch = make_batch([b"x"], epoch=0, producer_id=offset, transactional=True)
        log.append_as_leader(batch, 0, origin=Origin.COORDINATOR)
    return log


def test_no_marker_is_dropped_without_its_transaction() -> None:
    """The transaction at 4 alone is open; the marker at 5 is of one that began before it, as that at 3 is."""
    log = open_log([0, 2, 4], {1: 0, 3: 2, 5: 2})
    drop_open_transactions(log)
    assert log.log_end_offset == 4
    log = open_log([0, 2, 3], {1: 0, 4: 2})
    drop_open_transactions(log)
    assert (log.log_end_offset, log.producers.first_ongoing_offset) == (2, None)


def test_where_some_transaction_is_always_open_all_is_dropped() -> None:
    """The one at each even offset has its marker behind the beginning of the next."""
    begun = [0, *range(1, 2 * CUTS_MAX + 20, 2)]
    log = open_log(begun, {offset + 1: max(one for one in begun if one < offset) for offset in begun[1:]})
    drop_open_transactions(log)
    assert (log.log_start_offset, log.log_end_offset, log.producers.first_ongoing_offset) == (0, 0, None)


@pytest.mark.parametrize(("end", "told"), [(2, "truncating from 3 to 2"), (3, "nothing is cut at 3")])
def test_only_a_log_that_is_cut_is_said_to_diverge(end: int, told: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever had led for a moment without a record logged that it diverges, "truncating from 3 to 3"."""
    partition = Partition("t", 0, 1, open_test_log(make_environment()))
    partition.follow(PartitionView(0, 3, (0, 1), 0, (0, 1)))
    for offset in range(3):
        partition.append_as_follower(make_batch([b"a"], base_offset=offset, epoch=1), 0, 0)
    partition.log.assign_epoch(2, 3)
    with caplog.at_level("INFO", "odradek.broker.replication.truncation"):
        FollowerTruncation(0, None).to_common_history(partition, EpochEndOffset(epoch=1, end_offset=end))
    (line,) = [one.getMessage() for one in caplog.records if one.name == "odradek.broker.replication.truncation"]
    assert told in line and ("diverges" in line) == (end < 3)
    assert partition.log.log_end_offset == end and partition.log.epochs.latest == 1
