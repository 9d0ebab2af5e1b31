"""Positions of a consumer, one rule at a time."""

import pytest

from odradek.client.consumer.chunks import Ahead
from odradek.client.consumer.positions import PartitionPosition, Positions
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.client.waiting import NEVER
from odradek.protocol.primitives import ZERO_UUID

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = b"o" * 16, b"n" * 16


def located(offset: int = 5, epoch: int = 2) -> tuple[Positions, PartitionPosition]:
    """Return a consumer's positions with one partition, from which it is reading."""
    positions = Positions()
    positions.assign([T0])
    positions.locate(T0, positions.sought([T0])[T0], offset, epoch)
    state = positions.partitions[T0]
    state.valid_in, state.asked_of, state.retry_at_ms = 3, 1, 9.0
    state.fetch_offset, state.fetch_epoch = offset + 10, epoch
    return positions, state


@pytest.mark.parametrize(
    ("now_ms", "online", "asked"), [(99, {0, 1}, 0), (100, {0, 1}, 1), (99, {1}, 1)], ids=["named", "late", "offline"]
)
def test_the_replica_that_the_leader_has_named_is_asked_for_a_while(now_ms: int, online: set[int], asked: int) -> None:
    state = PartitionPosition(replica=0, replica_until_ms=100)
    assert state.reader(1, now_ms, online) == asked
    assert state.reader(1, 0, {0, 1}) == asked, "the leader says anew whom to ask"
    assert PartitionPosition().reader(1, 0, {0, 1}) == 1


@pytest.mark.parametrize(
    ("known", "asked", "epoch"), [(OLD, NEW, -1), (OLD, OLD, 2), (ZERO_UUID, NEW, 2), (OLD, ZERO_UUID, 2)]
)
def test_the_epochs_of_a_topic_do_not_count_in_a_new_one_of_its_name(known: bytes, asked: bytes, epoch: int) -> None:
    positions, state = located()
    state.topic_id = known
    state.look_at(asked)
    assert state.topic_id == asked
    assert (state.fetch_epoch, state.valid_in) == ((-1, -1) if epoch < 0 else (2, 3))
    assert positions.consumed() == {T0: OffsetAndMetadata(5, "", epoch)}


def test_records_of_the_old_topic_that_are_decoded_are_handed_out_with_their_epoch() -> None:
    positions, state = located()
    state.topic_id = OLD
    ahead = Ahead(T0, [object()], (5, 2), (6, 2))  # type: ignore[list-item]
    state.hand_out(ahead)
    state.look_at(NEW)
    assert state.has_ahead and state.fetch_epoch == -1
    assert positions.consumed() == {T0: OffsetAndMetadata(5, "", 2)}


@pytest.mark.parametrize(
    ("jump", "place", "fetch"),
    [
        (lambda positions: positions.jump(T0, 7), (7, -1), (7, -1)),
        (lambda positions: positions.go_back(T0), (5, 2), (5, 2)),
        (lambda positions: positions.truncate(T0, 4, 1), (4, 1), (4, 1)),
        (lambda positions: positions.truncate(T0, 5, 1), (5, 2), (5, 2)),
        (lambda positions: positions.truncate(T0, 8, 1), (5, 2), (5, 2)),
        (lambda positions: positions.reset(T0, -2), (-1, -1), (-1, -1)),
    ],
    ids=["jump", "back", "truncated", "truncated at it", "truncated behind it", "reset"],
)
def test_an_answer_from_before_a_jump_says_nothing_after_it(
    jump: object, place: tuple[int, int], fetch: tuple[int, int]
) -> None:
    positions, state = located()
    asked_as = state.version
    assert callable(jump)
    jump(positions)
    assert (state.place, (state.fetch_offset, state.fetch_epoch)) == (place, fetch)
    assert (state.valid_in, state.asked_of, state.retry_at_ms) == (-1, -1, 0.0)
    state.asked_of = 2
    positions.pause(T0, asked_as, 50.0)
    assert (state.asked_of, state.retry_at_ms) == (2, 0.0)
    positions.pause(T0, state.version, 50.0)
    assert (state.asked_of, state.retry_at_ms) == (-1, 50.0)
    positions.pause(T1, state.version, 50.0)  # which has been given up meanwhile


def test_pauses_end_one_by_one() -> None:
    positions = Positions()
    positions.assign([T0, T1])
    for one, until_ms in ((T0, 50.0), (T1, 70.0)):
        positions.retry_at([one], until_ms)
    assert [positions.next_retry_ms(now_ms) for now_ms in (0, 50, 70)] == [50.0, 70.0, NEVER]
    assert [positions.unlocated(now_ms) for now_ms in (49, 50, 70)] == [[], [T0], [T0, T1]]


def test_who_is_located_is_not_put_off() -> None:
    positions, state = located()
    positions.retry_at([T0, T1], 50.0)
    assert state.retry_at_ms == 9.0


def test_partitions_that_stay_keep_their_place_and_those_that_go_drop_what_is_decoded() -> None:
    positions, state = located()
    state.paused = True
    positions.assign([T1, T0])
    assert positions.partitions[T0] is state and list(positions.partitions) == [T1, T0]
    ahead = Ahead(T0, [object()], (5, 2), (6, 2))  # type: ignore[list-item]
    state.hand_out(ahead)
    positions.assign([T1])
    assert not ahead, "the application's thread gets no more of it"


def test_only_what_has_no_place_is_sought_and_the_first_answer_counts() -> None:
    positions = Positions()
    positions.assign([T0])
    sought = positions.sought([T0, T1])
    assert list(sought) == [T0]
    for offset in (5, 7):
        positions.locate(T0, sought[T0], offset)
    assert positions.consumed() == {T0: OffsetAndMetadata(5, "", -1)}
    assert not positions.sought([T0]) and not positions.unlocated(0)
