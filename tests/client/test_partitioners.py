"""Which partition a record goes to."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as other_murmur2

from odradek.client.producer.partitioners import (
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    murmur2,
    partition_for_key,
)

JAVA_VECTORS = [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("data", "signed"), JAVA_VECTORS)
def test_murmur2_is_kafkas(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.integers(1, 100))
def test_murmur2_agrees_with_another_client(key: bytes, count: int) -> None:
    assert murmur2(key) == other_murmur2(key) & 0xFFFFFFFF
    assert partition_for_key(key, count) == (other_murmur2(key) & 0x7FFFFFFF) % count


def test_sticky_stays_until_its_batch_is_closed_and_then_moves_by_chance() -> None:
    sticky = StickyPartitioner(random.Random(1))
    first = sticky.partition("t", None, 8, range(8))
    assert {sticky.partition("t", None, 8, range(8)) for _ in range(20)} == {first}
    sticky.batch_closed("t", first + 1 if first < 7 else 0)
    assert sticky.partition("t", None, 8, range(8)) == first
    seen = set()
    for _ in range(50):
        current = sticky.partition("t", None, 8, range(8))
        seen.add(current)
        sticky.batch_closed("t", current)
    assert len(seen) > 4


def test_sticky_leaves_a_partition_that_lost_its_leader_and_obeys_keys() -> None:
    sticky = StickyPartitioner(random.Random(1))
    first = sticky.partition("t", None, 4, range(4))
    rest = [number for number in range(4) if number != first]
    assert sticky.partition("t", None, 4, rest) in rest
    assert sticky.partition("t", b"abc", 4, rest) == partition_for_key(b"abc", 4)
    assert 0 <= StickyPartitioner(random.Random(2), ignore_keys=True).partition("t", b"abc", 4, [3]) == 3


def test_round_robin_goes_on_over_available_partitions() -> None:
    turns = RoundRobinPartitioner()
    assert [turns.partition("t", b"k", 5, [1, 3, 4]) for _ in range(5)] == [1, 3, 4, 1, 3]
    assert [turns.partition("u", None, 3, []) for _ in range(4)] == [0, 1, 2, 0]


def test_random_uses_available_partitions_only() -> None:
    chance = RandomPartitioner(random.Random(3))
    assert {chance.partition("t", None, 9, [2, 5]) for _ in range(50)} == {2, 5}
    assert chance.partition("t", b"foobar", 9, [2, 5]) == partition_for_key(b"foobar", 9)


def test_a_sticky_partitioner_asks_nothing_as_long_as_the_same_partitions_are_available() -> None:
    class Counted(tuple[int, ...]):
        looked = 0

        def __contains__(self, one: object) -> bool:
            Counted.looked += 1
            return super().__contains__(one)

    sticky = StickyPartitioner(random.Random(0))
    available = Counted(range(8))
    assert len({sticky.partition("t", None, 8, available) for _ in range(100)}) == 1
    assert Counted.looked == 0
