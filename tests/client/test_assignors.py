"""Who reads which partition."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

from odradek.client.config import load
from odradek.client.consumer.assignors.assignment import (
    Adopted,
    Assignment,
    Assignor,
    Subscriber,
    user_data,
)
from odradek.client.consumer.assignors.balance import balance, owners
from odradek.client.consumer.assignors.by_name import ASSIGNORS
from odradek.client.consumer.assignors.range_assignor import RangeAssignor
from odradek.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor
from odradek.client.consumer.assignors.sticky_assignors import CooperativeStickyAssignor
from odradek.client.consumer.config import ConsumerSettings, assignors
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition

STICKY = CooperativeStickyAssignor()


def member(name: str, *topics: str, owned: tuple[TopicPartition, ...] = (), generation: int = 1) -> Subscriber:
    return Subscriber(name, frozenset(topics), None, owned, generation)


def tps(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def test_range_gives_consecutive_partitions_and_the_first_members_one_more() -> None:
    found = RangeAssignor().assign([member("b", "t", "u"), member("a", "t", "u"), member("c", "u")], {"t": 3, "u": 4})
    assert found == {
        "a": tps("t", 0, 1) + tps("u", 0, 1),
        "b": tps("t", 2) + tps("u", 2),
        "c": tps("u", 3),
    }


def test_range_orders_static_members_first() -> None:
    static = Subscriber("z", frozenset({"t"}), "instance-1")
    found = RangeAssignor().assign([member("a", "t"), static], {"t": 3})
    assert found == {"z": tps("t", 0, 1), "a": tps("t", 2)}


def test_round_robin_deals_in_turn_and_passes_over_who_does_not_want() -> None:
    members = [member("a", "t0"), member("b", "t0", "t1"), member("c", "t0", "t1", "t2")]
    found = RoundRobinAssignor().assign(members, {"t0": 1, "t1": 2, "t2": 3})
    assert found == {  # the example of Kafka's RoundRobinAssignor
        "a": tps("t0", 0),
        "b": tps("t1", 0),
        "c": tps("t1", 1) + tps("t2", 0, 1, 2),
    }


def test_of_two_claims_the_later_generation_counts_and_of_equal_ones_none() -> None:
    claimed = tuple(tps("t", 0, 1))
    older, newer = member("a", "t", owned=claimed, generation=4), member("b", "t", owned=claimed[:1], generation=5)
    assert owners([older, newer]) == {claimed[0]: "b", claimed[1]: "a"}
    assert owners([older, member("c", "t", owned=claimed, generation=4)]) == {}


def test_a_new_member_takes_nothing_before_it_is_given_up() -> None:
    first = member("a", "t", owned=tuple(tps("t", 0, 1, 2, 3)))
    found = STICKY.assign([first, member("b", "t", generation=-1)], {"t": 4})
    assert found == {"a": tps("t", 0, 1), "b": []}
    again = STICKY.assign([member("a", "t", owned=tuple(found["a"]), generation=2), member("b", "t")], {"t": 4})
    assert again == {"a": tps("t", 0, 1), "b": tps("t", 2, 3)}


def test_what_two_members_claim_in_one_generation_goes_to_nobody_before_both_have_given_it_up() -> None:
    both, third = tuple(tps("t", 0)), member("c", "t", generation=-1)
    found = STICKY.assign([member("a", "t", owned=both), member("b", "t", owned=both), third], {"t": 3})
    assert TopicPartition("t", 0) not in [tp for held in found.values() for tp in held]
    given_up = [member(name, "t", owned=tuple(found[name]), generation=2) for name in "abc"]
    again = STICKY.assign(given_up, {"t": 3})
    assert sorted(tp for held in again.values() for tp in held) == tps("t", 0, 1, 2)


COUNTS = st.dictionaries(st.sampled_from(["t", "u", "v"]), st.integers(1, 8), min_size=1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int]]:
    counts = draw(COUNTS)
    topics = sorted(counts)
    everything = [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]
    members = []
    for index in range(draw(st.integers(1, 6))):
        wanted = draw(st.sets(st.sampled_from(topics), min_size=1))
        owned = draw(st.sets(st.sampled_from(everything), max_size=6))
        members.append(Subscriber(f"m{index}", frozenset(wanted), None, tuple(sorted(owned)), draw(st.integers(0, 3))))
    return members, counts


def everything_wanted(members: list[Subscriber], counts: dict[str, int]) -> set[TopicPartition]:
    return {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if any(topic in one.topics for one in members)
        for number in range(count)
    }


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@settings(max_examples=30, deadline=None)
@given(group=groups())
def test_every_wanted_partition_has_one_owner_that_wants_it(
    name: str, group: tuple[list[Subscriber], dict[str, int]]
) -> None:
    members, counts = group
    found = ASSIGNORS[name].assign(members, counts)
    given_out = [tp for partitions in found.values() for tp in partitions]
    assert sorted(given_out) == sorted(everything_wanted(members, counts))
    for one in members:
        assert all(tp.topic in one.topics for tp in found[one.member_id])


@settings(max_examples=40, deadline=None)
@given(group=groups())
def test_balance_is_complete_and_no_move_would_better_it(group: tuple[list[Subscriber], dict[str, int]]) -> None:
    members, counts = group
    found = balance(members, counts)
    assert sorted(tp for held in found.values() for tp in held) == sorted(everything_wanted(members, counts))
    for giver, held in found.items():
        for taker in members:
            movable = [tp for tp in held if tp.topic in taker.topics]
            assert not movable or len(found[taker.member_id]) + 1 >= len(found[giver])


@settings(max_examples=40, deadline=None)
@given(group=groups())
def test_cooperative_rounds_settle_and_never_give_a_partition_to_two(
    group: tuple[list[Subscriber], dict[str, int]],
) -> None:
    members, counts = group
    held: Assignment = {one.member_id: [] for one in members}
    for tp, owner in owners(members).items():
        held[owner].append(tp)
    for generation in range(10, 14):
        current = [
            Subscriber(one.member_id, one.topics, None, tuple(held[one.member_id]), generation) for one in members
        ]
        found = STICKY.assign(current, counts)
        for one in members:
            for tp in found[one.member_id]:
                others = [other for other in held if other != one.member_id and tp in held[other]]
                assert not others, f"{tp} goes to {one.member_id} while {others} has it"
        if found == {name: sorted(partitions) for name, partitions in held.items()}:
            break
        held = found
    assert sorted(tp for partitions in held.values() for tp in partitions) == sorted(everything_wanted(members, counts))


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 12), size=st.integers(2, 6), leaving=st.integers(0, 5))
def test_what_stays_with_a_member_that_stays(count: int, size: int, leaving: int) -> None:
    before = balance([member(f"m{index}", "t") for index in range(size)], {"t": count})
    gone = f"m{leaving % size}"
    rest = [member(name, "t", owned=tuple(held)) for name, held in before.items() if name != gone]
    after = balance(rest, {"t": count})
    for one in rest:
        assert set(one.owned) <= set(after[one.member_id]), "a member lost a partition though only another one left"


# -- what members tell -------------------------------------------------------------------------------------------------

HAD = Adopted((TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)), 7)
JAVAS_V0 = bytes.fromhex("00000002 0001 74 00000002 00000000 00000002 0001 75 00000001 00000001")
JAVAS_V1 = JAVAS_V0 + bytes.fromhex("00000007")
"""org.apache.kafka.clients.consumer.StickyAssignor of Kafka 2.0 and of 3.9."""


def test_sticky_members_tell_what_they_had_as_kafkas_do() -> None:
    assert user_data(ASSIGNORS["sticky"], ["t"], HAD) == JAVAS_V1
    assert user_data(ASSIGNORS["sticky"], ["t"], Adopted()) is None


def test_cooperative_members_tell_their_generation_as_kafkas_do() -> None:
    assert user_data(STICKY, ["t"], HAD) == bytes.fromhex("00000007")
    assert user_data(STICKY, ["t"], Adopted()) == bytes.fromhex("ffffffff")
    assert user_data(ASSIGNORS["range"], ["t"], HAD) is None


@pytest.mark.parametrize(
    "said",
    [JAVAS_V0, JAVAS_V1, StickyAssignorUserData([("t", [0, 2]), ("u", [1])], 7).encode()],
    ids=["version 0", "version 1", "kafka-python"],
)
def test_a_sticky_leader_lets_members_keep_what_they_had(said: bytes) -> None:
    """Eager members own nothing when they join: what they say they had is all there is to go by."""
    first = Subscriber("a", frozenset({"t", "u"}), user_data=said)
    found = ASSIGNORS["sticky"].assign([first, member("b", "t", "u")], {"t": 4, "u": 2})
    assert found == {"a": tps("t", 0, 2) + tps("u", 1), "b": tps("t", 1, 3) + tps("u", 0)}


@pytest.mark.parametrize(
    "said", [b"", b"\x00", JAVAS_V1 + b"\x00", b"\xff" * 20], ids=["none", "short", "long", "wild"]
)
def test_what_cannot_be_read_counts_as_nothing(said: bytes) -> None:
    members = [Subscriber("a", frozenset({"t"}), user_data=said), member("b", "t")]
    found = ASSIGNORS["sticky"].assign(members, {"t": 2})
    assert sorted(map(len, found.values())) == [1, 1]


def test_a_cooperative_member_of_before_generations_tells_it_in_its_data() -> None:
    """Java's consumer of Kafka 2.4 to 3.1 sends subscriptions of version 1."""
    older = Subscriber("a", frozenset({"t"}), None, tuple(tps("t", 0)), -1, (4).to_bytes(4, "big"))
    newer = Subscriber("b", frozenset({"t"}), None, tuple(tps("t", 0)), 5)
    assert STICKY.assign([older, newer], {"t": 2}) == {"a": tps("t", 1), "b": tps("t", 0)}


class EvensAndOdds:
    """An assignor of an application."""

    name, cooperative = "evens-and-odds", False

    def user_data(self, topics: Iterable[str], adopted: Adopted) -> bytes:
        return b"even"

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
        even = next(one for one in members if one.user_data == b"even")
        return {
            one.member_id: [
                TopicPartition("t", n) for n in range(partition_counts["t"]) if (n % 2 == 0) == (one is even)
            ]
            for one in members
        }


def test_settings_take_names_javas_classes_and_assignors_of_ones_own() -> None:
    def strategies(*given: Any) -> list[Assignor]:
        settings = {"bootstrap_servers": "a:1", "partition_assignment_strategy": list(given)}
        return assignors(load(ConsumerSettings, None, settings))

    own = EvensAndOdds()
    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    assert strategies("range", java, own) == [ASSIGNORS["range"], ASSIGNORS["sticky"], own]
    assert isinstance(strategies(EvensAndOdds)[0], EvensAndOdds)
    for wrong in ("sticki", 5, object()):
        with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
            strategies(wrong)
    with pytest.raises(ConfigError, match="one is named twice"):
        strategies("sticky", java)
    with pytest.raises(ConfigError, match="is empty"):
        strategies()
