"""The rules of one transactional id, as a table: what is asked in which state, and what comes of it."""

from dataclasses import replace

import pytest

from odradek.broker.transactions.transaction_records import read_value, value_of
from odradek.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NO_PRODUCER,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    ProducerIdentity,
    TransactionMetadata,
    TxnState,
)
from odradek.protocol.codec import decode_versioned
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.transaction_state import TransactionLogValue, TransactionStatus
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH

P, FRESH = ProducerIdentity(7, 3), 99
T0, T1 = ("t", 0), ("t", 1)
NOW, TIMEOUT = 1_000_000, 60_000
CONCURRENT, INVALID_STATE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
FENCED, NONE = ErrorCode.PRODUCER_FENCED, ErrorCode.NONE


def transaction(
    status: TransactionStatus, producer: ProducerIdentity = P, former: ProducerIdentity = NO_PRODUCER
) -> TransactionMetadata:
    open_or_decided = status in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    partitions = frozenset({T0}) if open_or_decided else frozenset()
    return TransactionMetadata("id", TxnState(producer, TIMEOUT, status, partitions, NOW - 10, NOW - 5, former))


def outcome(decided: TxnState | ErrorCode) -> object:
    return decided if isinstance(decided, ErrorCode) else decided.status


@pytest.mark.parametrize(
    ("status", "initialize", "add", "commit", "abort", "fence"),
    [
        (EMPTY, EMPTY, ONGOING, INVALID_STATE, INVALID_STATE, CONCURRENT),
        (ONGOING, CONCURRENT, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, PREPARE_ABORT),
        (PREPARE_COMMIT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        (PREPARE_ABORT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT, CONCURRENT),
        (COMPLETE_COMMIT, EMPTY, ONGOING, NONE, INVALID_STATE, CONCURRENT),
        (COMPLETE_ABORT, EMPTY, ONGOING, INVALID_STATE, NONE, CONCURRENT),
    ],
)
def test_what_is_asked_in_which_state(
    status: TransactionStatus, initialize: object, add: object, commit: object, abort: object, fence: object
) -> None:
    assert outcome(transaction(status).initialize(TIMEOUT, None, FRESH, NOW)) == initialize
    assert outcome(transaction(status).add(P, [T1], NOW)) == add
    assert outcome(transaction(status).end(P, commit=True, now_ms=NOW)) == commit
    assert outcome(transaction(status).end(P, commit=False, now_ms=NOW)) == abort
    assert outcome(transaction(status).fence_and_abort(NOW)) == fence


@pytest.mark.parametrize("status", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_while_a_change_is_on_its_way_everybody_comes_again(status: TransactionStatus) -> None:
    one = transaction(status)
    assert isinstance(one.add(P, [T1], NOW), TxnState)
    assert one.add(P, [T1], NOW) is CONCURRENT
    assert one.initialize(TIMEOUT, None, FRESH, NOW) is CONCURRENT
    assert one.end(P, commit=True, now_ms=NOW) is CONCURRENT
    assert one.fence_and_abort(NOW) is CONCURRENT
    assert one.verify(P, T1, INVALID_STATE) is INVALID_STATE
    assert not one.is_overdue(NOW * 10) and not one.is_expired(NOW * 10, 1)


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (ProducerIdentity(8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerIdentity(7, 2), FENCED),
        (ProducerIdentity(7, 4), FENCED),
    ],
)
def test_another_producer_is_refused(producer: ProducerIdentity, error: ErrorCode) -> None:
    one = transaction(ONGOING)
    assert one.add(producer, [T1], NOW) is error
    assert one.end(producer, commit=True, now_ms=NOW) is error
    assert one.verify(producer, T0, INVALID_STATE) is error
    assert one.pending is None


LAST = 32_766
"""The last epoch that a producer is given: the largest of 16 bits is for fencing it."""


@pytest.mark.parametrize(
    ("now", "former", "expected", "becomes"),
    [
        (P, NO_PRODUCER, None, ProducerIdentity(7, 4)),
        (ProducerIdentity(FRESH, NO_PRODUCER_EPOCH), NO_PRODUCER, None, ProducerIdentity(FRESH, 0)),
        (ProducerIdentity(FRESH, NO_PRODUCER_EPOCH), NO_PRODUCER, ProducerIdentity(1, 5), ProducerIdentity(FRESH, 0)),
        (P, NO_PRODUCER, P, ProducerIdentity(7, 4)),
        (P, ProducerIdentity(7, 2), ProducerIdentity(7, 2), P),
        (P, NO_PRODUCER, ProducerIdentity(7, 2), FENCED),
        (P, NO_PRODUCER, ProducerIdentity(8, 3), FENCED),
        (ProducerIdentity(7, LAST - 1), NO_PRODUCER, None, ProducerIdentity(7, LAST)),
        (ProducerIdentity(7, LAST), NO_PRODUCER, None, ProducerIdentity(FRESH, 0)),
        (ProducerIdentity(7, LAST), NO_PRODUCER, ProducerIdentity(7, LAST), ProducerIdentity(FRESH, 0)),
        (ProducerIdentity(7, LAST), NO_PRODUCER, ProducerIdentity(7, 5), FENCED),
        (ProducerIdentity(FRESH, 0), ProducerIdentity(7, LAST), ProducerIdentity(7, LAST), ProducerIdentity(FRESH, 0)),
        (ProducerIdentity(FRESH, 0), ProducerIdentity(7, LAST), ProducerIdentity(7, 0), FENCED),
        (ProducerIdentity(FRESH, 0), ProducerIdentity(7, LAST), ProducerIdentity(8, LAST), FENCED),
    ],
    ids=[
        "a start", "a new id", "an id that was forgotten", "a bump", "a bump again", "a zombie", "somebody else",
        "the last epoch", "no epochs left", "no epochs left, a bump", "no epochs left, a zombie",
        "a new producer id again", "a zombie of the id before", "somebody else whose epochs were used up",
    ],
)  # fmt: skip
def test_who_the_producer_is_to_be(
    now: ProducerIdentity,
    former: ProducerIdentity,
    expected: ProducerIdentity | None,
    becomes: ProducerIdentity | ErrorCode,
) -> None:
    decided = transaction(EMPTY, now, former).initialize(TIMEOUT, expected, FRESH, NOW)
    assert (decided.producer if isinstance(decided, TxnState) else decided) == becomes


@pytest.mark.parametrize("epoch", [2, LAST])
def test_whoever_has_lost_the_answer_asks_again(epoch: int) -> None:
    producer = ProducerIdentity(7, epoch)
    one = transaction(COMPLETE_COMMIT, producer)
    bumped = one.initialize(TIMEOUT, producer, FRESH, NOW)
    assert isinstance(bumped, TxnState)
    assert (bumped.former, bumped.updated_ms, bumped.started_ms) == (producer, NOW, -1)
    one.complete(bumped)
    again = one.initialize(TIMEOUT, producer, FRESH, NOW)
    assert isinstance(again, TxnState) and (again.producer, again.former) == (bumped.producer, producer)
    one.complete(again)
    started = one.initialize(TIMEOUT, None, FRESH, NOW)
    assert isinstance(started, TxnState)
    one.complete(started)
    assert one.initialize(TIMEOUT, producer, FRESH, NOW) is FENCED, "another producer has started meanwhile"


def test_a_start_that_was_not_written_takes_no_epoch() -> None:
    one = transaction(EMPTY)
    for _ in range(2):
        started = one.initialize(TIMEOUT, None, FRESH, NOW)
        assert isinstance(started, TxnState) and started.producer == ProducerIdentity(7, 4)
        one.fail(started)
    assert (one.state.producer, one.fence_failed) == (P, False)


def test_a_start_without_epochs_left_fences_the_one_before() -> None:
    zombie = ProducerIdentity(7, LAST)
    one = transaction(EMPTY, zombie)
    started = one.initialize(TIMEOUT, None, FRESH, NOW)
    assert isinstance(started, TxnState) and started.producer == ProducerIdentity(FRESH, 0)
    one.complete(started)
    assert one.initialize(TIMEOUT, zombie, None, NOW) is FENCED


def test_whose_epochs_were_used_up_while_a_producer_id_was_not_asked_for_comes_again() -> None:
    assert transaction(EMPTY, ProducerIdentity(7, LAST)).initialize(TIMEOUT, None, None, NOW) is CONCURRENT


def test_partitions_are_added_to_what_is_there() -> None:
    one = transaction(ONGOING)
    assert one.add(P, [T0], NOW) is NONE
    added = one.add(P, [T0, T1], NOW)
    assert isinstance(added, TxnState) and added.partitions == {T0, T1} and added.started_ms == NOW - 10
    one.complete(added)
    assert one.verify(P, T1, INVALID_STATE) is NONE
    assert one.verify(P, ("t", 2), INVALID_STATE) is INVALID_STATE
    begun = transaction(COMPLETE_ABORT).add(P, [T1], NOW)
    assert isinstance(begun, TxnState) and begun.partitions == {T1} and begun.started_ms == NOW
    begun = transaction(COMPLETE_ABORT).add(P, [], NOW)
    assert isinstance(begun, TxnState) and begun.status is ONGOING


def test_an_abort_without_the_producer_takes_one_epoch_however_often_it_fails() -> None:
    one = transaction(ONGOING)
    for _ in range(3):
        decided = one.fence_and_abort(NOW)
        assert isinstance(decided, TxnState) and decided.producer == ProducerIdentity(7, 4)
        one.fail(decided)
        assert one.add(P, [T1], NOW) is FENCED
    decided = one.fence_and_abort(NOW)
    assert isinstance(decided, TxnState)
    one.complete(decided)
    assert (one.state.status, one.state.producer, one.fence_failed) == (PREPARE_ABORT, ProducerIdentity(7, 4), False)


def test_an_abort_by_the_producer_that_was_not_written_fences_nobody() -> None:
    one = transaction(ONGOING)
    aborted = one.end(P, commit=False, now_ms=NOW)
    assert isinstance(aborted, TxnState)
    one.fail(aborted)
    assert one.add(P, [T0], NOW) is NONE
    decided = one.fence_and_abort(NOW)
    assert isinstance(decided, TxnState) and decided.producer == ProducerIdentity(7, 4)


def test_who_was_fenced_is_not_taken_for_one_who_asks_for_its_bump_again() -> None:
    former = ProducerIdentity(7, 2)
    one = transaction(ONGOING, P, former)
    decided = one.fence_and_abort(NOW)
    assert isinstance(decided, TxnState)
    one.complete(decided)
    one.complete(one.markers_written(NOW))
    assert one.initialize(TIMEOUT, former, FRESH, NOW) is FENCED
    assert one.initialize(TIMEOUT, P, FRESH, NOW) is FENCED


def test_the_last_epoch_is_for_fencing() -> None:
    decided = transaction(ONGOING, ProducerIdentity(7, LAST)).fence_and_abort(NOW)
    assert isinstance(decided, TxnState) and decided.producer == ProducerIdentity(7, LAST + 1)
    decided = transaction(ONGOING, ProducerIdentity(7, LAST + 1)).fence_and_abort(NOW)
    assert isinstance(decided, TxnState) and decided.producer == ProducerIdentity(7, LAST + 1)


@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
def test_nobody_writes_when_the_end_is_decided(status: TransactionStatus) -> None:
    assert transaction(status).verify(P, T0, INVALID_STATE) is CONCURRENT


@pytest.mark.parametrize("status", [PREPARE_COMMIT, PREPARE_ABORT])
def test_when_all_markers_are_written_it_is_over(status: TransactionStatus) -> None:
    one = transaction(status)
    over = one.markers_written(NOW)
    assert over.partitions == frozenset() and over.status.name == status.name.replace("PREPARE", "COMPLETE")
    one.complete(over)
    assert one.state is over and one.pending is None


def test_time() -> None:
    assert not transaction(ONGOING).is_overdue(NOW - 10 + TIMEOUT)
    assert transaction(ONGOING).is_overdue(NOW - 10 + TIMEOUT + 1)
    assert not transaction(ONGOING).is_overdue(NOW - 10 - TIMEOUT), "of a coordinator whose clock is ahead"
    assert transaction(ONGOING).is_overdue(NOW - 10 - TIMEOUT - 1), "the clock was put back"
    assert not transaction(EMPTY).is_overdue(NOW * 10)
    assert transaction(COMPLETE_COMMIT).is_expired(NOW + 95, 100)
    assert not transaction(COMPLETE_COMMIT).is_expired(NOW + 94, 100)
    assert not transaction(ONGOING).is_expired(NOW * 10, 100)


@pytest.mark.parametrize("status", [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_records_say_all_that_must_be_known_after_a_failover(status: TransactionStatus) -> None:
    state = transaction(status).state
    assert read_value(value_of(state)) == state


def test_records_list_no_partitions_as_kafkas_do() -> None:
    """None at all where no transaction has begun, and an empty list when one is complete."""
    states = [replace(transaction(status).state, partitions=frozenset()) for status in (EMPTY, COMPLETE_COMMIT)]
    values = [decode_versioned(TransactionLogValue, value_of(state))[1] for state in states]
    assert [value.transaction_partitions for value in values] == [None, []]
