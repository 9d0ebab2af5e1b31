"""Members that are given partitions with a replica in their own rack (KIP-881)."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.aio import Admin, Consumer
from odradek.client.admin.values import NewTopic
from odradek.client.consumer.assignors.assignment import Assignment, ReplicaRacks, Subscriber
from odradek.client.consumer.assignors.balance import balance, owners
from odradek.client.consumer.assignors.range_assignor import RangeAssignor
from odradek.client.consumer.assignors.sticky_assignors import CooperativeStickyAssignor
from odradek.client.consumer.member_states import State
from odradek.client.records import TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from tests.client.one_member import T0, Bench

COOPERATIVE = CooperativeStickyAssignor()


def member(name: str, rack: str | None, *topics: str, owned: Sequence[TopicPartition] = ()) -> Subscriber:
    return Subscriber(name, frozenset(topics or ["t"]), None, tuple(owned), 1, rack=rack)


def tps(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def racks(*of_partitions: str) -> list[frozenset[str]]:
    """Racks of letters: `AB` is a partition with replicas in A and in B."""
    return [frozenset(letters) for letters in of_partitions]


def is_far(member: Subscriber, tp: TopicPartition, replicas: ReplicaRacks) -> bool:
    """Whether a member has a rack, and the partition no replica in it."""
    return member.rack is not None and member.rack not in replicas[tp.topic][tp.partition]


def everything_wanted(members: Sequence[Subscriber], counts: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions of all topics that some member wants, in order."""
    wanted = {topic for one in members for topic in one.topics}
    return [tp for topic in sorted(wanted) for tp in tps(topic, *range(counts[topic]))]


# -- range, whose every leader must decide alike: what RangeAssignor of Kafka 3.9.1 returns for the same ---------------


def test_range_gives_members_what_is_near_and_shares_out_the_rest() -> None:
    members = [member("a", "A"), member("b", "B"), member("c", "C")]
    found = RangeAssignor().assign_near(members, {"t": 6}, {"t": racks("C", "B", "A", "AB", "C", "C")})
    assert found == {"a": tps("t", 2, 3), "b": tps("t", 1, 5), "c": tps("t", 0, 4)}


def test_range_without_a_member_near_by_is_as_before() -> None:
    members, counts = [member("a", "X"), member("b", None), member("c", "Y")], {"t": 7}
    near_nobody = {"t": racks(*"ABCABCA")}
    assert RangeAssignor().assign_near(members, counts, near_nobody) == RangeAssignor().assign(members, counts)


def test_range_gives_topics_alike_the_same_numbers_even_if_only_one_could_be_near() -> None:
    members = [member("a", "A", "t", "u"), member("b", "B", "t", "u")]
    found = RangeAssignor().assign_near(members, {"t": 2, "u": 2}, {"t": racks("B", "A"), "u": racks("B", "A")})
    assert found == {"a": tps("t", 1) + tps("u", 1), "b": tps("t", 0) + tps("u", 0)}
    found = RangeAssignor().assign_near(members, {"t": 2, "u": 2}, {"t": racks("B", "A"), "u": racks("A", "B")})
    assert found == {"a": tps("t", 0) + tps("u", 0), "b": tps("t", 1) + tps("u", 1)}


# -- sticky ------------------------------------------------------------------------------------------------------------


def test_all_are_near_where_that_leaves_the_shares_even() -> None:
    members = [member("a", "A"), member("b", "B"), member("c", "C")]
    replicas = {"t": racks(*"CCCBBBAAA")}
    found = balance(members, {"t": 9}, replicas)
    assert found == {"a": tps("t", 6, 7, 8), "b": tps("t", 3, 4, 5), "c": tps("t", 0, 1, 2)}


def test_nothing_moves_where_all_racks_have_everything() -> None:
    members = [member("a", "A", owned=tps("t", 0, 1, 2)), member("b", "B", owned=tps("t", 3, 4))]
    found = balance(members, {"t": 5}, {"t": racks(*["AB"] * 5)})
    assert found == {"a": tps("t", 0, 1, 2), "b": tps("t", 3, 4)}


def test_what_is_near_its_owner_stays_and_what_is_far_is_exchanged() -> None:
    members = [member("a", "A", owned=tps("t", 0, 1)), member("b", "B", owned=tps("t", 2, 3))]
    found = balance(members, {"t": 4}, {"t": racks("A", "B", "B", "A")})
    assert found == {"a": tps("t", 0, 3), "b": tps("t", 1, 2)}


def test_a_member_that_does_not_say_where_it_is_gives_up_nothing_for_nothing() -> None:
    members = [member("a", None, owned=tps("t", 0, 1)), member("b", "B", owned=tps("t", 2, 3))]
    found = balance(members, {"t": 4}, {"t": racks("B", "B", "B", "A")})
    assert found["a"] == tps("t", 0, 1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int], dict[str, list[frozenset[str]]]]:
    counts = draw(st.dictionaries(st.sampled_from(["t", "u", "v"]), st.integers(1, 9), min_size=1))
    replicas = {
        topic: [draw(st.frozensets(st.sampled_from("ABC"), min_size=1, max_size=3)) for _ in range(count)]
        for topic, count in counts.items()
    }
    everything = [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]
    members = [
        Subscriber(
            f"m{index}",
            frozenset(draw(st.sets(st.sampled_from(sorted(counts)), min_size=1))),
            None,
            tuple(sorted(draw(st.sets(st.sampled_from(everything), max_size=6)))),
            draw(st.integers(0, 3)),
            rack=draw(st.sampled_from(["A", "B", "C", "D", None])),
        )
        for index in range(draw(st.integers(1, 6)))
    ]
    return members, counts, replicas


Group = tuple[list[Subscriber], dict[str, int], Mapping[str, list[frozenset[str]]]]


@settings(max_examples=100, deadline=None)
@given(group=groups())
def test_no_move_would_make_shares_more_even_and_no_exchange_bring_anything_nearer(group: Group) -> None:
    members, counts, replicas = group
    found = balance(members, counts, replicas)
    assert sorted(tp for held in found.values() for tp in held) == everything_wanted(members, counts)
    everywhere = {racks for topic in replicas.values() for racks in topic}
    matter = len(everywhere) > 1 and any(one.rack in racks for one in members for racks in everywhere)
    for giver in members:
        for tp in found[giver.member_id]:
            assert tp.topic in giver.topics
            for taker in (one for one in members if one is not giver and tp.topic in one.topics):
                had, has = len(found[giver.member_id]), len(found[taker.member_id])
                assert has + 1 >= had, "more even"
                if matter and is_far(giver, tp, replicas) and taker.rack in replicas[tp.topic][tp.partition]:
                    assert has >= had, "passed on"
                    for back in found[taker.member_id]:
                        assert back.topic not in giver.topics or (
                            not is_far(taker, back, replicas) and is_far(giver, back, replicas)
                        ), "exchanged"


@settings(max_examples=100, deadline=None)
@given(group=groups())
def test_range_shares_are_those_without_racks_and_never_farther(group: Group) -> None:
    members, counts, replicas = group
    before, after = RangeAssignor().assign(members, counts), RangeAssignor().assign_near(members, counts, replicas)
    for topic in counts:
        shares = [
            sorted(len([tp for tp in held if tp.topic == topic]) for held in one.values()) for one in (before, after)
        ]
        assert shares[0] == shares[1]
    assert sorted(tp for held in after.values() for tp in held) == sorted(tp for held in before.values() for tp in held)


@settings(max_examples=100, deadline=None)
@given(group=groups())
def test_cooperative_rounds_settle(group: Group) -> None:
    members, counts, replicas = group
    held: Assignment = {one.member_id: [] for one in members}
    for tp, owner in owners(members).items():
        held[owner].append(tp)
    for generation in range(10, 20):
        now = [replace(one, owned=tuple(held[one.member_id]), generation_id=generation) for one in members]
        found = COOPERATIVE.assign_near(now, counts, replicas)
        assert not {tp for one in held for tp in held[one] for other in found if other != one and tp in found[other]}
        if found == {name: sorted(partitions) for name, partitions in held.items()}:
            break
        held = found
    else:
        raise AssertionError("partitions go on moving")
    assert sorted(tp for partitions in held.values() for tp in partitions) == everything_wanted(members, counts)


# -- the leader --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "rejoins"),
    [
        ("AB", "AB", False),
        ("AB", "AC", True),
        ("AB", "A", False),  # a broker has gone, and will come back
        ("A", "AB", True),
    ],
)
def test_a_leader_starts_a_rebalance_when_replicas_are_in_more_racks(before: str, now: str, rejoins: bool) -> None:
    bench = Bench().stable(T0)
    bench.member._leader, bench.member._counts, bench.member._racks = True, {"t": 1}, {"t": racks(before)}
    bench.member.counts_changed({"t": 1}, {"t": racks(now)})
    bench.step()
    assert (bench.member.state == State.PREPARING) is rejoins


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_consumers_of_a_group_get_what_is_in_their_rack(strategy: str) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, {"broker.rack": "rack-{}"}) as cluster:
            world: dict[str, Any] = {"clock": clock, "bootstrap_servers": "broker-1:9092"}
            async with contextlib.AsyncExitStack() as clients:
                admin = await clients.enter_async_context(Admin(network=cluster.network.host("admin"), **world))
                await asyncio.sleep(1)  # until the controller knows all three
                await admin.create_topics([NewTopic("t", replica_assignments={0: [2], 1: [1], 2: [0]})])
                consumers = [
                    Consumer(
                        "t",
                        network=cluster.network.host(f"reader-{number}"),
                        group_id="g",
                        client_rack=f"rack-{number}",
                        partition_assignment_strategy=[strategy],
                        metadata_max_age_ms=2_000,
                        **world,
                    )
                    for number in range(3)
                ]
                for consumer in consumers:
                    await clients.enter_async_context(consumer)

                async def all_have(*numbers: int) -> None:
                    async with asyncio.timeout(60):
                        while [one.assignment() for one in consumers] != [set(tps("t", number)) for number in numbers]:
                            await asyncio.gather(*(one.getmany(100) for one in consumers))

                await all_have(2, 1, 0)
                await admin.alter_partition_reassignments({tp: [tp.partition] for tp in tps("t", 0, 2)})
                await all_have(0, 1, 2)

    run_virtual(main)
