"""What is dirty, when it pays, and what becomes one segment: the arithmetic of LogCleanerManager."""

from collections.abc import Callable

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.compaction.cleanable_offsets import (
    LogToClean,
    containing,
    dirty_part,
    first_dirty_offset,
    log_to_clean,
    make_request,
)
from odradek.broker.log.compaction.messages import LastOfProducer, SegmentInfo
from odradek.broker.log.compaction.rewrite import group_segments
from odradek.broker.log.compaction.scheduler import Compaction
from odradek.broker.log.log import Log
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.testing.background_work import InlineChildren
from odradek.testing.compacted_log import SETTINGS, CompactedLog
from odradek.testing.log_environments import close_log, make_batch, make_environment, open_test_log

SEGMENTS = [(0, 100), (10, 100), (20, 100), (30, 50)]
"""The last one is active."""


@pytest.mark.parametrize(
    ("cleaned_to", "expected"), [(0, 5), (5, 5), (30, 30), (40, 40), (41, 5)], ids=str
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_the_log_makes_all_of_it_dirty(cleaned_to: int, expected: int) -> None:
    assert first_dirty_offset(cleaned_to, 5, 40) == expected


@pytest.mark.parametrize(("offset", "number"), [(-1, 0), (0, 0), (9, 0), (10, 1), (35, 3), (99, 3)])
def test_the_segment_that_holds_an_offset(offset: int, number: int) -> None:
    assert containing([0, 10, 20, 30], offset) == number


@pytest.mark.parametrize(
    ("first_dirty", "stable", "too_young", "expected"),
    [
        (0, 40, None, LogToClean(0, 30, 0, 300)),
        (20, 40, None, LogToClean(20, 30, 200, 100)),
        (0, 25, None, LogToClean(0, 20, 0, 200)),
        (0, 40, 10, LogToClean(0, 10, 0, 100)),
        (0, 0, None, LogToClean(0, 0, 0, 0)),
        (30, 40, None, LogToClean(30, 30, 300, 0)),
        (35, 40, None, LogToClean(35, 30, 300, 0)),
        (15, 40, None, LogToClean(15, 30, 200, 200)),
        (20, 5, None, LogToClean(20, 20, 200, 0)),
    ],
)
def test_what_may_be_compacted(first_dirty: int, stable: int, too_young: int | None, expected: LogToClean) -> None:
    """Whole segments: not the active one, none that reaches the last stable offset, none that is too young."""
    assert dirty_part(SEGMENTS, first_dirty, stable, too_young) == expected


def test_it_pays_when_dirty_enough_or_overdue() -> None:
    half = LogToClean(20, 30, 100, 100)
    assert half.ratio == 0.5
    assert half.pays(0.49) and not half.pays(0.5)
    assert half._replace(overdue=True).pays(1.0)
    nothing = LogToClean(20, 20, 100, 0, overdue=True)
    assert not nothing.pays(0.0)
    assert LogToClean(0, 0, 0, 0).ratio == 0.0


@pytest.mark.parametrize(("on_disk", "until"), [(3, 2), (2, 0)])
def test_data_of_an_aborted_transaction_stays_until_its_marker_is_on_the_disk(on_disk: int, until: int) -> None:
    """A power failure may take the marker, and leave the transaction open, or have it committed."""
    log = open_test_log(make_environment())
    log.append_as_leader(make_batch(producer_id=1, transactional=True), 0)
    for batch in (make_batch(), encode_end_txn_marker(EndTxnMarker(False, 0), 0, 1, 0), make_batch()):
        log.roll()
        log.append_as_leader(batch, 0, origin=Origin.COORDINATOR)
    log.producers.replicated_up_to(4)
    log.recovery_point = on_disk
    dirty = log_to_clean(log, 4, 0)
    assert dirty is not None and dirty.first_uncleanable_offset == (3 if until else 0)


def test_a_log_that_was_opened_is_compacted_when_all_that_it_had_is_replicated() -> None:
    """What is above the watermark may be cut off, the ends of transactions with it."""
    environment = make_environment()
    log = open_test_log(environment)
    for _ in range(3):
        log.append_as_leader(make_batch(), 0)
        log.roll()
    log.append_as_leader(make_batch(), 0)
    close_log(log)
    log = open_test_log(environment, recovery_point=4, clean=True)
    assert log_to_clean(log, 3, 0) is None
    assert log_to_clean(log, 4, 0) == log_to_clean(log, 5, 0) is not None


def test_the_last_batch_of_a_producer_is_the_last_of_what_is_compacted() -> None:
    """A newer one may be cut off; then nothing would be left of the producer."""
    log = open_test_log(make_environment())
    for sequence in range(3):
        log.append_as_leader(make_batch(producer_id=1, sequence=sequence), 0)
        if sequence == 1:
            log.roll()
    request = make_request(log, LogToClean(0, 2, 0, 100), 0, 1 << 20, 0.9)
    assert request.producers == [LastOfProducer(1, 1, 0)]


def test_segments_are_grouped_while_they_fit() -> None:
    pieces = [
        SegmentInfo(0, 40),
        SegmentInfo(10, 40),
        SegmentInfo(20, 30),
        SegmentInfo(30, 200),
        SegmentInfo(40, 0),
        SegmentInfo(50, 1),
    ]
    groups = group_segments(pieces, segment_bytes=100, index_bytes=100, end_offset=60)
    assert [[piece.base_offset for piece in group] for group in groups] == [[0, 10], [20], [30], [40, 50]]


@pytest.mark.parametrize("field", ["index_bytes", "time_index_bytes"])
def test_a_groups_indexes_have_a_limit(field: str) -> None:
    pieces = [SegmentInfo(0, 1)._replace(**{field: 60}), SegmentInfo(10, 1)._replace(**{field: 40}), SegmentInfo(20, 1)]
    groups = group_segments(pieces, segment_bytes=100, index_bytes=99, end_offset=30)
    assert [len(group) for group in groups] == [1, 2]


def test_a_group_spans_no_more_offsets_than_an_index_can_say() -> None:
    far = 2**31
    assert len(group_segments([SegmentInfo(0, 1), SegmentInfo(10, 1)], 100, 100, end_offset=far)) == 1
    assert len(group_segments([SegmentInfo(0, 1), SegmentInfo(10, 1)], 100, 100, end_offset=far + 1)) == 2
    assert (
        len(group_segments([SegmentInfo(0, 1), SegmentInfo(10, 1), SegmentInfo(far, 1)], 100, 100, end_offset=far + 1))
        == 2
    )


def test_a_log_whose_checkpoint_cannot_be_written_does_not_hold_up_the_others() -> None:
    """Of the logs in a full directory the dirtiest was chosen each time, and never begun with."""
    dirtiest, other = CompactedLog(), CompactedLog()
    for world in (dirtiest, other):
        world.put((b"a", b"1"))
        world.roll()
    other.compact()
    other.put((b"a", b"2"))
    other.roll()
    asked: list[Log] = []

    def covers(log: Log, offset: int, then: Callable[[], None]) -> bool:
        asked.append(log)
        return log is other.log

    compaction = Compaction(
        other.clock,
        InlineChildren(other.files, other.clock),
        SETTINGS,
        lambda: [dirtiest.log, other.log],
        lambda log: log.log_end_offset,
        lambda log: other.rounds.append(log.cleaned_to),
        covers,
    )
    compaction.look()
    assert asked == [dirtiest.log] and other.rounds == [1], "it may be written soon"
    compaction.look()
    assert asked[:3] == [dirtiest.log, dirtiest.log, other.log]
    other.clock.advance(0)
    assert other.rounds == [1, 2]


def test_a_bug_of_ours_that_one_log_meets_keeps_no_other_from_being_compacted() -> None:
    """None was compacted any more until the broker started again."""
    broken, other = CompactedLog(), CompactedLog()
    for _ in range(2):
        other.put((b"a", b"1"))
        other.roll()

    def high_watermark_of(log: Log) -> int:
        assert log is not broken.log, "planted"
        return log.log_end_offset

    compaction = Compaction(
        other.clock,
        InlineChildren(other.files, other.clock),
        SETTINGS,
        lambda: [broken.log, other.log],
        high_watermark_of,
        lambda log: other.rounds.append(log.cleaned_to),
    )
    broken.put((b"a", b"1"))
    broken.roll()
    compaction.look()
    other.clock.advance(0)
    assert other.rounds == [2]
