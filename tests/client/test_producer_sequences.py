"""Sequences of an idempotent producer in one partition: what may go out, and when they begin anew under a new epoch."""

import pytest

from odradek.client.producer.accumulator import Accumulator, AccumulatorLimits
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.sequences import HIGHEST_EPOCH, ProducerSequences
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode

T0 = TopicPartition("t", 0)
MISSING = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def batches(count: int, records: int = 1) -> list[ProducerBatch]:
    """Return so many batches, none of which was sent."""
    made = []
    for _ in range(count):
        accumulator = Accumulator(AccumulatorLimits(10_000, 0, 1_000_000, 10_000))
        for _ in range(records):
            batch = accumulator.append(T0, 0, None, b"v", (), lambda: 0.0)
        assert batch is not None
        made.append(batch)
    return made


def sent(sequences: ProducerSequences, count: int, records: int = 1) -> list[ProducerBatch]:
    made = batches(count, records)
    for batch in made:
        sequences.assign(batch)
    return made


def numbers(*some: ProducerBatch) -> list[tuple[int, int]]:
    return [(batch.producer_epoch, batch.base_sequence) for batch in some]


@pytest.fixture
def sequences() -> ProducerSequences:
    """Of a producer that a broker knows: a first batch was acknowledged."""
    sequences = ProducerSequences()
    sequences.identify(7, 0)
    sequences.settle(())
    (first,) = sent(sequences, 1)
    sequences.acknowledged(first)
    return sequences


def test_under_a_new_epoch_one_batch_is_alone_until_it_is_acknowledged(sequences: ProducerSequences) -> None:
    first, second = sent(sequences, 2)
    assert sequences.may_retry(first, MISSING)
    sequences.settle(())
    assert numbers(first, second) == [(1, 0), (1, 1)]
    (third,) = batches(1)
    assert [sequences.may_send(one) for one in (first, second, third)] == [True, False, False]
    assert sequences.may_retry(first, MISSING), "it was not overtaken: what an older epoch wrote does not count"
    sequences.settle(())
    assert numbers(first, second) == [(2, 0), (2, 1)]
    sequences.acknowledged(first)
    assert sequences.may_send(third)


def test_a_late_answer_about_an_older_epoch_says_nothing_of_the_present_one(sequences: ProducerSequences) -> None:
    (given_up,) = sent(sequences, 1)
    sequences.gave_up(given_up, refused=False)
    sequences.settle(())
    (first,), (second,) = sent(sequences, 1), batches(1)
    assert numbers(first) == [(1, 0)]
    sequences.acknowledged(given_up)
    assert not sequences.may_send(second), "nothing of this epoch was acknowledged"
    assert sequences.may_retry(first, MISSING)
    sequences.settle(())
    assert numbers(first) == [(2, 0)]


def test_an_answer_that_comes_after_that_of_a_later_batch_takes_nothing_back(sequences: ProducerSequences) -> None:
    first, second, third = sent(sequences, 3)
    for batch in (third, first):
        sequences.acknowledged(batch)
    assert sequences.may_retry(second, MISSING)
    sequences.settle(())
    assert numbers(second) == [(0, 2)], "it was overtaken: a new epoch would write it behind the third"


def test_what_comes_behind_a_batch_that_the_broker_lacks_begins_anew_at_once(sequences: ProducerSequences) -> None:
    lacking, behind = sent(sequences, 2)
    sequences.gave_up(lacking, refused=True)
    assert not sequences.may_send(behind)
    sequences.settle((T0,))
    assert numbers(behind) == [(0, 2)], "it is on the wire"
    sequences.settle(())
    assert numbers(behind) == [(1, 0)] and sequences.may_send(behind)


def test_a_gap_that_nobody_knows_of_is_closed_by_a_new_epoch_before_anything_new_goes_out(
    sequences: ProducerSequences,
) -> None:
    (given_up,), (following,) = sent(sequences, 1), batches(1)
    sequences.gave_up(given_up, refused=False)
    assert not sequences.may_send(following)
    sequences.settle(())
    assert sequences.may_send(following)
    sequences.assign(following)
    assert numbers(following) == [(1, 0)]


def test_a_new_epoch_leaves_nothing_unresolved(sequences: ProducerSequences) -> None:
    first, second, third = sent(sequences, 3)
    sequences.gave_up(second, refused=False)
    assert sequences.may_retry(first, MISSING)
    sequences.settle(())
    assert numbers(first, third) == [(1, 0), (1, 1)]
    sequences.acknowledged(first)
    assert sequences.may_send(batches(1)[0])


def test_the_first_producer_id_of_a_cluster_is_one() -> None:
    sequences = ProducerSequences()
    assert not sequences.may_send(batches(1)[0])
    sequences.identify(0, 0)
    assert sequences.may_send(batches(1)[0])


def test_a_broker_that_has_forgotten_the_producer_is_sent_the_batch_under_a_new_epoch(
    sequences: ProducerSequences,
) -> None:
    first, second = sent(sequences, 2)
    assert sequences.may_retry(second, ErrorCode.UNKNOWN_PRODUCER_ID)
    sequences.settle(())
    assert numbers(first, second) == [(0, 1), (0, 2)], "the first may be there, or will be"
    assert sequences.may_retry(first, ErrorCode.UNKNOWN_PRODUCER_ID)
    sequences.settle(())
    assert numbers(first, second) == [(1, 0), (1, 1)]


def test_halves_go_out_before_what_was_sent_behind_their_batch(sequences: ProducerSequences) -> None:
    (whole,), (behind,) = sent(sequences, 1, records=2), sent(sequences, 1)
    first, second = whole.split()
    sequences.replaced(whole, (first, second))
    assert [sequences.may_send(one) for one in (first, second, behind)] == [True, False, False]
    sequences.acknowledged(first)
    assert [sequences.may_send(one) for one in (second, behind)] == [True, False]
    sequences.acknowledged(second)
    assert sequences.may_send(behind)


def test_halves_count_among_the_batches_that_a_broker_remembers(sequences: ProducerSequences) -> None:
    (whole,) = sent(sequences, 1, records=2)
    sent(sequences, 1)
    halves = whole.split()
    sequences.replaced(whole, halves)
    sequences.acknowledged(halves[0])
    sent(sequences, 2)
    (fifth,), (sixth,) = batches(1), batches(1)
    assert sequences.may_send(fifth)
    sequences.assign(fifth)
    assert not sequences.may_send(sixth)


def test_past_the_last_epoch_nothing_is_numbered_until_there_is_another_identity() -> None:
    sequences = ProducerSequences()
    sequences.identify(7, HIGHEST_EPOCH)
    sequences.settle(())
    lacking, behind = sent(sequences, 2)
    sequences.gave_up(lacking, refused=True)
    for _ in range(2):
        sequences.settle(())
        assert not sequences.has_identity and not sequences.may_send(behind)
        assert (behind.producer_id, *numbers(behind)[0]) == (7, HIGHEST_EPOCH, 1)
    sequences.identify(8, 0)
    sequences.settle(())
    assert (behind.producer_id, *numbers(behind)[0]) == (8, 0, 0)


def test_the_second_half_of_a_batch_counts_as_sent_with_the_first(sequences: ProducerSequences) -> None:
    """A broker remembers five batches: the oldest open one and four behind it."""
    (whole,) = sent(sequences, 1, records=2)
    halves = whole.split()
    sequences.replaced(whole, halves)
    sequences.acknowledged(halves[0])
    for _ in range(4):
        (behind,) = batches(1)
        assert sequences.may_send(behind)
        sequences.assign(behind)
    assert not sequences.may_send(batches(1)[0])
    sequences.acknowledged(halves[1])
    assert sequences.may_send(batches(1)[0])
