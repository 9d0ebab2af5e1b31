"""Leaders of a group: they assign for all members, and watch the topics for a rebalance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from odradek.aio import Consumer, Producer
from odradek.client.consumer.assignors.assignment import Subscriber
from odradek.client.consumer.group_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from odradek.client.consumer.member_states import (
    Count,
    Join,
    State,
    Sync,
    WaitUntil,
)
from odradek.client.errors import ConfigError, GroupError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupResponseMember
from odradek.testing import run
from tests.client.one_member import T0, T1, T2, Bench


def test_the_leader_decides_on_the_counts_of_all_members_topics() -> None:
    bench = Bench()
    bench.start()
    bench.prepare()
    assert isinstance(bench.step(), Join)
    answer = bench.joined(1, ErrorCode.NONE, leader="me")
    answer.members = [
        JoinGroupResponseMember(member_id="me", metadata=encode_subscription(["t"], (), -1)),
        JoinGroupResponseMember(member_id="you", metadata=encode_subscription(["t", "u"], (), -1)),
    ]
    bench.member.joined(answer, bench.now_ms)
    assert bench.step() == Count(frozenset({"t", "u"}))
    bench.member.counted({"t": 3, "u": 1}, {})
    step = bench.step()
    assert isinstance(step, Sync)
    decided = {one.member_id: decode_assignment(one.assignment) for one in step.request.assignments}
    assert decided == {"me": [T0, T1], "you": [T2, TopicPartition("u", 0)]}


def test_a_leader_starts_a_rebalance_when_a_topic_grows_and_nobody_else_does() -> None:
    for leads in (True, False):
        bench = Bench().stable(T0)
        bench.member._leader, bench.member._counts = leads, {"t": 1}
        bench.member.counts_changed({"t": 1}, {})
        assert isinstance(bench.step(), WaitUntil) and bench.member.state == State.STABLE
        bench.member.counts_changed({"t": 2}, {})
        bench.step()
        assert (bench.member.state == State.PREPARING) is leads


def lead(bench: Bench, counts: dict[str, int], *, skip_assignment: bool = False) -> Sync:
    """Join as the leader of a group of one; what is sent with SyncGroup."""
    bench.start()
    bench.prepare()
    assert isinstance(bench.step(), Join)
    answer = bench.joined(1, ErrorCode.NONE, leader="me")
    answer.members = [JoinGroupResponseMember(member_id="me", metadata=encode_subscription(["t"], (), -1))]
    answer.skip_assignment = skip_assignment
    bench.member.joined(answer, bench.now_ms)
    assert isinstance(bench.step(), Count)
    bench.member.counted(counts, {})
    step = bench.step()
    assert isinstance(step, Sync)
    bench.member.synced(ErrorCode.NONE, encode_assignment(()), bench.now_ms)
    return step


def test_a_topic_that_is_made_after_it_was_subscribed_to_starts_a_rebalance() -> None:
    """The leader kept the counts of the topics that there were, and so never missed one that there was not."""
    bench = Bench()
    lead(bench, {})
    bench.adopt()
    assert bench.member.watched_topics == {"t"}
    bench.member.counts_changed({"other": 3}, {})
    bench.step()
    assert bench.member.state == State.STABLE
    bench.member.counts_changed({"t": 3}, {})
    bench.step()
    assert bench.member.state == State.PREPARING


def test_a_topic_that_two_answers_lack_is_deleted_and_its_partitions_are_given_up() -> None:
    """It counted as unchanged for ever. One broker alone may not know it yet."""
    bench = Bench()
    lead(bench, {"t": 1})
    bench.adopt()
    for counts, state in (({}, State.STABLE), ({"t": 1}, State.STABLE), ({}, State.STABLE), ({}, State.PREPARING)):
        bench.member.counts_changed(counts, {})
        bench.step()
        assert bench.member.state == state


def test_a_topic_that_grows_while_the_application_adopts_is_not_missed() -> None:
    bench = Bench()
    lead(bench, {"t": 1})
    bench.member.counts_changed({"t": 2}, {})
    bench.adopt()
    bench.step()
    assert bench.member.state == State.PREPARING


def test_a_static_leader_that_comes_back_decides_nothing_but_watches() -> None:
    bench = Bench(instance="i")
    assert lead(bench, {"t": 1}, skip_assignment=True).request.assignments == []
    bench.adopt()
    bench.member.counts_changed({"t": 2}, {})
    bench.step()
    assert bench.member.state == State.PREPARING


class OwnAssignor:
    """An application's assignor that does what it is told to."""

    name, cooperative = "own", False

    def __init__(self, assign: Callable[[Sequence[Subscriber]], Any]) -> None:
        self.decide = assign

    def assign(self, members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Any:
        return self.decide(members)


def fail(members: Sequence[Subscriber]) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "decide, said",
    [
        (fail, "ZeroDivisionError"),
        (lambda members: None, "NoneType"),
        (lambda members: {members[0]: [("t", 0)]}, "no member's id: Subscriber"),
        (lambda members: {"you": [("t", 0)]}, "no member's id: 'you'"),
        (lambda members: {members[0].member_id: ["t"]}, "'t'"),
    ],
)
def test_what_an_applications_assignor_does_wrong_is_said_by_the_poll_and_asked_again(decide: Any, said: str) -> None:
    """The consumer was broken for good, some by an error of the encoder; a stranger got everything in silence."""
    own = OwnAssignor(decide)

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send("t", b"x")
        settings: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        settings |= {"bootstrap_servers": cluster.bootstrap, "partition_assignment_strategy": [own]}
        async with Consumer("t", **settings) as consumer:
            with pytest.raises(GroupError, match=f"assignor 'own' failed: .*{said}"):
                await consumer.getmany(60_000)
            own.decide = lambda members: {one.member_id: [TopicPartition("t", 0)] for one in members}
            assert await consumer.getmany(60_000)

    run(main, brokers=1, topics={"t": 1}, seed=7)


@pytest.mark.parametrize("cooperative", [True, False])
def test_a_partition_goes_to_nobody_before_its_owner_has_given_it_up(cooperative: bool) -> None:
    """It went to another member at once, also under an assignor whose members keep reading until they hear of it: both
    read it for a while."""
    own = OwnAssignor(lambda members: {"me": [], "you": [T0]})
    own.cooperative = cooperative
    bench = Bench()
    bench.name = own.name
    bench.member.settings = replace(bench.member.settings, assignors=[own], cooperative=cooperative)
    bench.start()
    bench.prepare()
    assert isinstance(bench.step(), Join)
    answer = bench.joined(2, ErrorCode.NONE, leader="me")
    answer.members = [
        JoinGroupResponseMember(member_id="me", metadata=encode_subscription(["t"], [T0, T1], 1)),
        JoinGroupResponseMember(member_id="you", metadata=encode_subscription(["t"], [], 1)),
    ]
    bench.member.joined(answer, bench.now_ms)
    assert isinstance(bench.step(), Count)
    if cooperative:
        with pytest.raises(GroupError, match=r"assignor 'own' failed: ValueError: t-0 .* its owner gives it up first"):
            bench.member.counted({"t": 2}, {})
    else:
        bench.member.counted({"t": 2}, {})
        assert isinstance(bench.step(), Sync)


@pytest.mark.parametrize(
    "tell, said", [(lambda: fail(()), "ZeroDivisionError"), (lambda: "text", "must be bytes, not str")]
)
def test_what_an_assignor_cannot_tell_is_said_by_the_poll_and_asked_again(tell: Any, said: str) -> None:
    """The consumer was broken for good."""
    own: Any = OwnAssignor(lambda members: {one.member_id: [TopicPartition("t", 0)] for one in members})
    own.user_data = lambda topics, adopted: tell()

    async def main(cluster: Any) -> None:
        settings: dict[str, Any] = {"group_id": "g", "partition_assignment_strategy": [own]}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **settings) as consumer:
            for _ in range(2):
                with pytest.raises(GroupError, match=f"group g: assignor 'own' failed in user_data: .*{said}"):
                    await consumer.getmany(60_000)
            own.user_data = lambda topics, adopted: bytearray(b"told")
            await consumer.getmany(10_000)
            assert consumer.assignment()

    run(main, brokers=1, topics={"t": 1}, seed=7)


@pytest.mark.parametrize("name", [None, 5, "\ud800"])
def test_an_assignor_has_a_name_that_can_be_sent(name: Any) -> None:
    """The consumer was broken by it as it joined."""
    own: Any = OwnAssignor(fail)
    own.name = name
    with pytest.raises(ConfigError, match=r"which is text|UTF-8"):
        Consumer(bootstrap_servers="broker:9092", group_id="g", partition_assignment_strategy=[own])
