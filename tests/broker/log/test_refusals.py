"""Batches of idempotent producers that come behind one that was refused for now."""

import pytest

from odradek.broker.log.producer_sequences import (
    IN_FLIGHT_MAX,
    LARGEST_SEQUENCE,
    REFUSALS_MAX,
    Refusals,
    sequence_after,
)
from odradek.protocol.errors import ErrorCode, KafkaError

PRODUCER, EPOCH = 7, 3
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def verdict(
    refusals: Refusals, sequence: int, expected: int | None, *, epoch: int = EPOCH, producer: int = PRODUCER
) -> object:
    """Return the error for a batch; None when there is nothing to say of it."""
    try:
        refusals.check(producer, epoch, sequence, expected)
    except KafkaError as refused:
        return refused.code
    return None


@pytest.mark.parametrize("first", [10, LARGEST_SEQUENCE, LARGEST_SEQUENCE - 1])
def test_what_comes_behind_is_refused_likewise(first: int) -> None:
    refusals = Refusals()
    refusals.note(PRODUCER, EPOCH, first, NOT_LEADER, last_written=sequence_after(first, -1))
    assert verdict(refusals, sequence_after(first, 2), first) is NOT_LEADER
    assert verdict(refusals, sequence_after(first, 2), None) is NOT_LEADER, "the producer is not known here yet"
    assert verdict(refusals, sequence_after(first, -2), first) is None, "it does not come behind"


def test_a_gap_that_no_refusal_explains_is_one() -> None:
    refusals = Refusals()
    refusals.note(PRODUCER, EPOCH, 10, NOT_LEADER, last_written=9)
    assert verdict(refusals, 13, 12) is None, "the refused one has been written, another is missing"
    assert verdict(refusals, 13, 8) is None, "one before it is missing"
    assert verdict(refusals, 13, 10, epoch=EPOCH + 1) is None
    assert verdict(refusals, 13, 10, producer=PRODUCER + 1) is None


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize(
    ("first", "last_written"), [(10, 9), (LARGEST_SEQUENCE - 1, LARGEST_SEQUENCE - 2), (2**30, -1)]
)
def test_of_several_that_are_refused_each_may_be_the_missing_one(
    order: tuple[int, ...], first: int, last_written: int
) -> None:
    """A follower may receive some of them from the former leader before it leads."""
    refusals = Refusals()
    for behind in order:
        refusals.note(PRODUCER, EPOCH, sequence_after(first, behind), NOT_LEADER, last_written)
    for behind in range(3):
        assert verdict(refusals, sequence_after(first, 4), sequence_after(first, behind)) is NOT_LEADER
    assert verdict(refusals, sequence_after(first, 4), sequence_after(first, 3)) is None


@pytest.mark.parametrize(("first", "epoch"), [(10, EPOCH), (0, EPOCH), (10, EPOCH - 1)])
def test_an_old_refusal_does_not_count_beside_a_new_one(first: int, epoch: int) -> None:
    """It was written since, or is of an older epoch."""
    refusals = Refusals()
    refusals.note(PRODUCER, epoch, first, NOT_LEADER, last_written=first - 1)
    refusals.note(PRODUCER, EPOCH, 90, NOT_LEADER, last_written=first if epoch == EPOCH else -1)
    assert verdict(refusals, 95, 50) is None
    assert verdict(refusals, 95, 90) is NOT_LEADER


def test_no_more_are_refused_than_may_have_been_on_their_way() -> None:
    refusals = Refusals()
    refusals.note(PRODUCER, EPOCH, 10, NOT_LEADER, last_written=9)
    verdicts = [verdict(refusals, 12 + behind, 10) for behind in range(IN_FLIGHT_MAX)]
    assert verdicts == [NOT_LEADER] * (IN_FLIGHT_MAX - 1) + [None]


def test_few_producers_are_remembered() -> None:
    refusals = Refusals()
    for producer in range(REFUSALS_MAX + 1):
        refusals.note(producer, EPOCH, 10, NOT_LEADER, last_written=9)
    assert verdict(refusals, 12, 10, producer=0) is None
    assert verdict(refusals, 12, 10, producer=1) is NOT_LEADER
    refusals.clear()
    assert verdict(refusals, 12, 10, producer=2) is None
