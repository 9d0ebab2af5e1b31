"""Idempotent producers and transactions in a compacted log."""

from dataclasses import replace

import pytest

from odradek.broker.log.segment import OFFSET_INDEX, TIME_INDEX
from odradek.broker.log.transaction_index import AbortedTransaction
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.record_batch import read_header
from odradek.protocol.records import encode_batch
from odradek.testing.compacted_log import SMALL, CompactedLog
from odradek.testing.log_environments import make_environment, offset_of_max_timestamp, open_test_log
from odradek.testing.simulated_files import Fault


def compact_again(world: CompactedLog) -> None:
    """There must be something dirty for that."""
    world.put((b"more", b"1"))
    world.roll()
    world.compact()


def test_the_last_batch_of_a_producer_stays_without_records_and_tells_its_sequence() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), (b"b", b"1"), producer_id=5, sequence=0)
    world.put((b"a", b"2"), (b"b", b"2"), producer_id=5, sequence=2)
    world.put((b"a", b"3"), (b"b", b"3"))
    world.roll()
    world.compact()
    assert world.headers() == [(2, 3, 0), (4, 5, 2)]
    header = read_header(world.batches()[0])
    assert (header.producer_id, header.base_sequence, header.base_offset, header.last_offset) == (5, 2, 2, 3)
    for name in world.files.list_directory(world.log.directory):
        if name.endswith(".snapshot"):
            world.files.remove(f"{world.log.directory}/{name}")
    world.reopen()
    assert world.log.producers.producers[5].last_sequence == 3
    batch = world.put((b"a", b"4"), producer_id=5, sequence=4)
    assert batch == 6
    try:
        world.put((b"a", b"5"), producer_id=5, sequence=9)
    except KafkaError as refused:
        assert refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    else:
        raise AssertionError("a gap in the sequence was taken")


def test_the_last_batch_of_a_producer_tells_its_sequence_also_when_it_was_aborted() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), producer_id=5, sequence=0, transactional=True)
    world.put((b"b", b"1"), (b"c", b"1"), producer_id=5, sequence=1, transactional=True)
    world.end_transaction(5, committed=False)
    world.roll()
    world.compact()
    assert world.headers() == [(1, 2, 0), (3, 3, 1)]
    assert read_header(world.batches()[0]).is_transactional
    world.put((b"a", b"2"), producer_id=5, sequence=3, transactional=True)
    world.end_transaction(5, committed=True)
    compact_again(world)
    assert [one[:2] for one in world.headers()][:2] == [(3, 3), (4, 4)], "it has written again"


def test_the_duplicate_of_an_emptied_batch_is_still_known() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), producer_id=5, sequence=0)
    world.put((b"a", b"2"))
    world.roll()
    world.compact()
    world.reopen()
    assert world.headers() == [(0, 0, 0), (1, 1, 1)]
    end = world.log.log_end_offset
    assert world.put((b"a", b"1"), producer_id=5, sequence=0) == 0
    assert world.log.log_end_offset == end


def test_an_emptied_batch_goes_when_its_producer_is_forgotten_or_writes_again() -> None:
    for forgotten in (True, False):
        world = CompactedLog()
        world.put((b"a", b"1"), producer_id=5, sequence=0)
        world.put((b"a", b"2"))
        world.roll()
        world.compact()
        assert world.headers()[0] == (0, 0, 0)
        if forgotten:
            for _ in range(2):  # as every ten minutes
                world.log.producers.expire(world.clock.now_ms(), world.environment.producer_expiration_ms)
                world.clock.advance(world.environment.producer_expiration_ms)
            world.log.producers.expire(world.clock.now_ms(), world.environment.producer_expiration_ms)
        else:
            world.put((b"z", b"1"), producer_id=5, sequence=1)
        compact_again(world)
        assert world.headers()[0] == (1, 1, 1)


def test_aborted_data_goes_at_once_and_its_marker_when_nobody_can_need_it() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"))
    world.put((b"a", b"aborted"), producer_id=5, sequence=0, transactional=True)
    marker = world.end_transaction(5, committed=False)
    world.put((b"z", b"1"), producer_id=5, sequence=1, transactional=True)
    world.end_transaction(5, committed=True)
    world.roll()
    world.compact()
    assert world.entries() == [(0, b"a", b"1"), (3, b"z", b"1")]
    aborted = AbortedTransaction(5, 1, marker, marker + 1)
    assert world.log.aborted_transactions(0, 100) == [aborted]
    assert [one[0] for one in world.headers()] == [0, marker, 3, 4]
    compact_again(world)
    assert world.log.aborted_transactions(0, 100) == []
    horizon_ms = read_header(world.batches()[1]).delete_horizon_ms
    assert horizon_ms == world.clock.now_ms() + SMALL.delete_retention_ms
    compact_again(world)
    assert [one[0] for one in world.headers()][:2] == [0, marker]
    world.clock.advance(SMALL.delete_retention_ms)
    compact_again(world)
    assert [one[0] for one in world.headers()][:2] == [0, 3]


def test_the_marker_of_a_commit_stays_while_a_batch_of_it_is_there() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), producer_id=5, sequence=0, transactional=True)
    marker = world.end_transaction(5, committed=True)
    world.put((b"z", b"0"), producer_id=5, sequence=1, transactional=True)
    world.end_transaction(5, committed=True)
    world.roll()
    for _ in range(3):
        world.clock.advance(SMALL.delete_retention_ms)
        compact_again(world)
    assert [one[0] for one in world.headers()][:4] == [0, marker, 2, 3]
    world.put((b"a", b"2"))
    for _ in range(3):
        world.clock.advance(SMALL.delete_retention_ms)
        compact_again(world)
    assert [one[0] for one in world.headers()][:2] == [2, 3]


def test_a_producer_of_which_only_a_marker_is_known_keeps_it_for_its_epoch() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"), producer_id=5, epoch=1, sequence=0, transactional=True)
    world.end_transaction(5, committed=False, epoch=2)
    world.put((b"a", b"2"))
    world.roll()
    for _ in range(4):
        compact_again(world)
        world.clock.advance(SMALL.delete_retention_ms)
    assert world.log.producers.producers[5].batches == []
    assert world.headers()[0] == (1, 1, 0)
    assert read_header(world.batches()[0]).is_control
    assert read_header(world.batches()[0]).producer_epoch == 2


def test_nothing_of_an_open_transaction_is_touched() -> None:
    world = CompactedLog()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    world.roll()
    world.put((b"a", b"3"), producer_id=5, sequence=0, transactional=True)
    world.put((b"a", b"4"))
    world.roll()
    world.put((b"a", b"5"))
    world.roll()
    world.compact()
    assert [offset for offset, _, _ in world.entries()] == [1, 2, 3, 4]
    assert world.log.cleaned_to == 2
    world.end_transaction(5, committed=False)
    world.roll()
    world.compact()
    assert [offset for offset, _, _ in world.entries()] == [4]


def test_an_open_transaction_that_began_in_the_clean_part_is_followed() -> None:
    """The map reaches only half of an aborted transaction; its data must not make others obsolete."""
    world = CompactedLog()
    world.put((b"a", b"1"))
    world.put((b"x", b"1"), producer_id=5, sequence=0, transactional=True)
    world.roll()
    world.put((b"a", b"aborted"), producer_id=5, sequence=1, transactional=True)
    world.end_transaction(5, committed=False)
    world.roll()
    world.log.cleaned_to = 2
    world.compact()
    assert world.entries() == [(0, b"a", b"1")]


def test_a_transaction_index_that_cannot_be_read_ends_the_look_and_nothing_else() -> None:
    """A failing disk is the manager's business; what is damaged at the start is made anew then."""
    world = CompactedLog()
    world.put((b"k", b"1"), producer_id=3, transactional=True)
    world.end_transaction(3, committed=False)
    world.roll()
    world.log.flush()
    world.reopen(clean=True)
    world.files.fault = Fault(world.files.calls, 1_000, under=f"{world.log.directory}/{0:020d}.txnindex")
    world.compact()
    assert world.rounds == [] and len(world.entries()) == 1
    world.files.fault = None
    world.reopen(clean=True)
    world.compact()
    assert world.rounds == [2] and world.entries() == []


def test_the_time_index_knows_no_time_of_an_emptied_batch(caplog: pytest.LogCaptureFixture) -> None:
    """A search by time, and retention, took the index of such a segment for a wrong one and rebuilt it with that time,
    so that the record with the largest timestamp was not found."""
    world = CompactedLog(replace(SMALL, segment_bytes=350))
    world.put((b"a", b"1" * 100))
    first_ms = world.clock.now_ms()
    later = encode_batch(0, [first_ms + 1], [b"c"], [b"1"], producer_id=5, producer_epoch=0, base_sequence=0)
    world.log.append_as_leader(later, 0)
    world.roll()
    world.put((b"c", b"2" * 200))
    world.roll()
    world.compact()
    assert world.headers() == [(0, 0, 1), (1, 1, 0), (2, 2, 1)]
    assert offset_of_max_timestamp(world.log) == (first_ms, 0, 0)
    for suffix in (OFFSET_INDEX, TIME_INDEX):
        world.files.remove(world.log.segments[0].path(suffix))
    for clean in (True, False):
        world.reopen(clean=clean)
        assert world.log.segments[0].largest_timestamp == (first_ms, 0)
        assert offset_of_max_timestamp(world.log) == (first_ms, 0, 0)
    follower = open_test_log(make_environment(), world.config)
    for batch in world.batches():
        follower.append_as_follower(batch)
    assert offset_of_max_timestamp(follower) == (first_ms, 0, 0)
    follower.truncate_to(2)
    assert offset_of_max_timestamp(follower) == (first_ms, 0, 0)
    assert "is wrong" not in caplog.text
