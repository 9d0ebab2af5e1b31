"""Offsets of one group, staged and in transactions: what becomes visible, and when."""

import pytest

from odradek.broker.groups.group_offsets import CommittedOffset, OffsetTable

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def end(table: OffsetTable, producer_id: int, *, committed: bool) -> None:
    table.end_transactions(producer_id, table.close_transaction(producer_id, committed=committed))


def test_open_transaction_is_unstable_until_it_ends():
    table = OffsetTable()
    table.load(T0, CommittedOffset(1, 0), 10)
    table.load_transactional(7, T0, CommittedOffset(2, 0), 11)
    table.load_transactional(8, T1, CommittedOffset(3, 0), 12)
    assert (table.is_stable(T0), table.is_stable(U0)) == (False, True)
    end(table, 7, committed=True)
    end(table, 8, committed=False)
    assert table.items() == [(T0, CommittedOffset(2, 0))]
    assert table.is_stable(T0) and table.is_stable(T1)


def test_transaction_does_not_overwrite_a_later_commit():
    table = OffsetTable()
    table.load_transactional(7, T0, CommittedOffset(2, 0), 11)
    sequence = table.stage([T0])
    table.acknowledge(sequence, {T0: CommittedOffset(9, 0)})
    end(table, 7, committed=True)
    assert table.get(T0) == CommittedOffset(9, 0)


@pytest.mark.parametrize("replicated_in_time", [True, False])
def test_what_is_committed_behind_a_marker_is_not_ended_by_it(replicated_in_time):
    table = OffsetTable()
    table.stage_in_transaction(7, {T0: CommittedOffset(1, 0), T1: CommittedOffset(1, 0)})
    marker = table.close_transaction(7, committed=True)
    table.stage_in_transaction(7, {T0: CommittedOffset(2, 0)})
    if replicated_in_time:
        table.end_transactions(7, marker)
        assert table.items() == [(T0, CommittedOffset(1, 0)), (T1, CommittedOffset(1, 0))]
        assert (table.is_stable(T0), table.is_stable(T1)) == (False, True)
    else:
        assert table.items() == [] and not table.is_stable(T1)
    end(table, 7, committed=True)
    assert dict(table.items()) == {T0: CommittedOffset(2, 0), T1: CommittedOffset(1, 0)}
    assert table.is_stable(T0)


def test_a_marker_ends_nothing_of_another_producer():
    table = OffsetTable()
    for producer, partition in ((7, T0), (8, T1)):
        table.stage_in_transaction(producer, {partition: CommittedOffset(1, 0)})
    seven, eight = (table.close_transaction(producer, committed=True) for producer in (7, 8))
    assert [table.has_transaction(producer) for producer in (7, 8, 9)] == [True, True, False]
    table.end_transactions(8, eight)
    assert [table.has_transaction(producer) for producer in (7, 8, 9)] == [True, False, False]
    assert table.items() == [(T1, CommittedOffset(1, 0))] and not table.is_stable(T0)
    table.end_transactions(7, seven)
    assert dict(table.items()) == dict.fromkeys([T0, T1], CommittedOffset(1, 0))


def test_a_removal_within_a_transaction_takes_the_offset_out_of_it():
    table = OffsetTable()
    for partition in (T0, T1):
        table.load_transactional(7, partition, CommittedOffset(2, 0), 11)
    table.load_transactional(7, T0, None, 12)
    end(table, 7, committed=True)
    assert table.items() == [(T1, CommittedOffset(2, 0))]


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_commit_that_was_refused_leaves_the_one_before_it_in_its_transaction(acknowledged):
    """A zombie's late TxnOffsetCommit erased its successor's, and the group read again what had been committed."""
    table = OffsetTable()
    first = table.stage_in_transaction(7, {T0: CommittedOffset(4, 0), T1: CommittedOffset(4, 0)})
    if acknowledged:
        table.acknowledge_in_transaction(7, first, [T0, T1])
    refused = table.stage_in_transaction(7, {T0: CommittedOffset(3, 0)})
    table.fail_in_transaction(refused)
    assert not table.is_stable(T0)
    if not acknowledged:
        table.acknowledge_in_transaction(7, first, [T0, T1])
    end(table, 7, committed=True)
    assert dict(table.items()) == {T0: CommittedOffset(4, 0), T1: CommittedOffset(4, 0)}
    assert table.is_stable(T0)


def test_of_a_transactions_commits_the_last_that_was_written_counts():
    table = OffsetTable()
    sequences = [table.stage_in_transaction(7, {T0: CommittedOffset(offset, 0)}) for offset in range(4)]
    table.acknowledge_in_transaction(7, sequences[1], [T0])
    table.fail_in_transaction(sequences[2])
    table.close_transaction(7, committed=True)
    table.fail_in_transaction(sequences[3])
    behind = table.stage_in_transaction(7, {T0: CommittedOffset(9, 0)})
    table.fail_in_transaction(behind)
    end(table, 7, committed=True)
    assert table.items() == [(T0, CommittedOffset(1, 0))]
    assert table.is_stable(T0)


def test_no_more_is_kept_of_a_transaction_than_may_count():
    table = OffsetTable()
    for offset in range(100):
        sequence = table.stage_in_transaction(7, {T0: CommittedOffset(offset, 0)})
        table.acknowledge_in_transaction(7, sequence, [T0])
        table.fail_in_transaction(table.stage_in_transaction(8, {T0: CommittedOffset(offset, 0)}))
    assert list(table.open_producers) == [7]
    assert [one.committed.offset for one in table._open_transactions[7][T0]] == [99]
