"""Replica assignment, against Kafka's documented examples and by its rules."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.controller.assignment import (
    alternate_racks,
    assign_replicas,
    check_assignment,
    check_numbering,
    random_start,
)
from odradek.protocol.errors import ErrorCode, KafkaError


def test_the_example_of_kafkas_documentation() -> None:
    """AdminUtils: 5 brokers, 10 partitions, 3 replicas, beginning at broker 0 with shift 0."""
    assigned = assign_replicas(dict.fromkeys(range(5)), 10, 3, start=0, shift=0)
    assert [assigned[p] for p in range(10)] == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_the_rack_aware_example_of_kafkas_documentation() -> None:
    """AdminUtils: 0 → rack1, 1 → rack3, 2 → rack3, 3 → rack2, 4 → rack2, 5 → rack1; start 0, shift 0."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    assigned = assign_replicas(racks, 7, 3, start=0, shift=0)
    assert [assigned[p] for p in range(7)] == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_partitions_added_later_go_on_with_the_numbers() -> None:
    added = assign_replicas(dict.fromkeys(range(3)), 2, 2, start=1, shift=1, first_partition=4)
    assert sorted(added) == [4, 5]
    assert [replicas[0] for replicas in added.values()] == [2, 0]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 20), st.integers(0, 4), st.integers(0, 2**32))
def test_spread(brokers: int, partitions: int, rack_count: int, seed: int) -> None:
    randomness = random.Random(seed)
    racks = {100 + b: f"r{b % rack_count}" if rack_count else None for b in range(brokers)}
    factor = randomness.randint(1, brokers)
    start, shift = random_start(racks, randomness)
    assigned = assign_replicas(racks, partitions, factor, start=start, shift=shift)
    leaders = Counter(replicas[0] for replicas in assigned.values())
    assert max(leaders.values()) - (0 if len(leaders) < brokers else min(leaders.values())) <= 1
    for replicas in assigned.values():
        assert len(set(replicas)) == factor
        if rack_count:
            used = {racks[broker] for broker in replicas}
            assert len(used) == min(factor, len(set(racks.values())))


def test_brokers_without_a_rack_make_racks_count_for_nothing() -> None:
    assigned = assign_replicas({0: "a", 1: None, 2: "b"}, 3, 2, start=0, shift=0)
    assert [assigned[p] for p in range(3)] == [(0, 1), (1, 2), (2, 0)]


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "said"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "larger than 0"),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR, "4 larger than available brokers: 3"),
    ],
)
def test_refused(partitions: int, factor: int, code: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        assign_replicas(dict.fromkeys(range(3)), partitions, factor, start=0, shift=0)
    assert refused.value.code is code


@pytest.mark.parametrize("given_replicas", [{0: []}, {0: [1, 1]}, {0: [1], 1: [1, 2]}, {0: [7]}])
def test_given_assignments_are_checked(given_replicas: dict[int, list[int]]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_assignment(given_replicas, known=[1, 2, 3])
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_that_are_added_are_as_many_as_those_of_the_topic() -> None:
    """In the words of Kafka's, which its own tests look for."""
    with pytest.raises(KafkaError) as refused:
        check_assignment({4: [1], 3: [1, 2], 2: [1]}, replication_factor=1, known=[1, 2])
    assert refused.value.message == (
        "Inconsistent replication factor between partitions, partition 0 has 1 while partitions [3] have replication "
        "factors [2], respectively."
    )
    with pytest.raises(KafkaError) as refused:
        check_assignment({3: [1, 1]}, replication_factor=1, known=[1])
    assert refused.value.message == "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 3."


def test_partitions_are_numbered_from_zero() -> None:
    check_numbering([1, 0, 2])
    with pytest.raises(KafkaError):
        check_numbering([0, 2])
