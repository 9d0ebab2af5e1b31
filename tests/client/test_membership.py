"""A member of a group, step by step, with time and answers in the test's hand."""

from typing import Any

import pytest

from odradek.client.consumer.assignors import ASSIGNORS
from odradek.client.consumer.group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.consumer.member_states import (
    Adopt,
    Count,
    FindCoordinator,
    Heartbeat,
    Join,
    Leave,
    MemberSettings,
    Prepare,
    State,
    Sync,
    WaitUntil,
)
from odradek.client.consumer.membership import Membership
from odradek.client.errors import GroupError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Bench:
    """One member of a group, and answers as a coordinator gives them to the group's only member."""

    def __init__(self, *, cooperative: bool = False, instance: str | None = None) -> None:
        name = "cooperative-sticky" if cooperative else "range"
        settings = MemberSettings("g", instance, 10_000, 60_000, 3_000, 100, [ASSIGNORS[name]], cooperative)
        self.name = name
        self.now_ms = 1_000.0
        self.member = Membership(settings)

    def start(self) -> None:
        self.member.subscribe(["t"])
        self.member.polled(self.now_ms)

    def step(self) -> Any:
        return self.member.next_step(self.now_ms)

    def find_coordinator(self) -> None:
        assert isinstance(self.step(), FindCoordinator)
        self.member.coordinator_found()

    def prepare(self) -> Prepare:
        """The turn before joining; the coordinator is looked for meanwhile."""
        if isinstance(self.step(), FindCoordinator):
            self.member.coordinator_found()
        turn = self.member.turn
        assert isinstance(turn, Prepare)
        self.member.turn_done(turn)
        return turn

    def join(self, generation: int, error: ErrorCode = ErrorCode.NONE, leader: str = "other") -> Join:
        step = self.step()
        assert isinstance(step, Join), step
        self.member.joined(self.joined(generation, error, leader), self.now_ms)
        return step

    def joined(self, generation: int, error: ErrorCode, leader: str) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=error, generation_id=generation, member_id="me", leader=leader, protocol_name=self.name
        )

    def sync(self, *partitions: TopicPartition) -> None:
        assert isinstance(self.step(), Sync)
        self.member.synced(ErrorCode.NONE, encode_assignment(partitions), self.now_ms)

    def adopt(self) -> Adopt:
        turn = self.member.turn
        assert isinstance(turn, Adopt)
        self.member.turn_done(turn)
        return turn

    def stable(self, *partitions: TopicPartition) -> "Bench":
        self.start()
        self.prepare()
        self.join(1)
        self.sync(*partitions)
        self.adopt()
        assert self.member.state == State.STABLE
        return self

    def beat(self, error: ErrorCode) -> None:
        self.now_ms += 3_000
        step = self.step()
        assert isinstance(step, Heartbeat), step
        self.member.beaten(error, self.now_ms)


def test_nothing_happens_before_the_application_polls() -> None:
    bench = Bench()
    bench.member.subscribe(["t"])
    assert bench.step() == WaitUntil(float("inf"))


def test_the_way_into_a_group() -> None:
    bench = Bench()
    bench.start()
    assert bench.prepare() == Prepare((), ())
    first = bench.join(-1, ErrorCode.MEMBER_ID_REQUIRED)
    assert first.request.member_id == ""
    second = bench.join(4)
    assert second.request.member_id == "me"
    assert decode_subscription(second.request.protocols[0].metadata).topics == ["t"]
    bench.sync(T1, T0)
    assert bench.adopt() == Adopt((), (T0, T1), (T0, T1))
    assert bench.member.state == State.STABLE and bench.member.identity.generation_id == 4
    assert bench.step() == WaitUntil(bench.now_ms + 3_000)


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
    bench.member.counted({"t": 3, "u": 1})
    step = bench.step()
    assert isinstance(step, Sync)
    decided = {one.member_id: decode_assignment(one.assignment) for one in step.request.assignments}
    assert decided == {"me": [T0, T1], "you": [T2, TopicPartition("u", 0)]}


def test_a_leader_starts_a_rebalance_when_a_topic_grows_and_nobody_else_does() -> None:
    for leads in (True, False):
        bench = Bench().stable(T0)
        bench.member._leader, bench.member._counts = leads, {"t": 1}
        bench.member.counts_changed({"t": 1})
        assert isinstance(bench.step(), WaitUntil) and bench.member.state == State.STABLE
        bench.member.counts_changed({"t": 2})
        bench.step()
        assert (bench.member.state == State.PREPARING) is leads


def test_eager_gives_up_everything_before_joining_and_heartbeats_meanwhile() -> None:
    bench = Bench().stable(T0, T1)
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.step()
    assert bench.member.turn == Prepare((T0, T1), ())
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert bench.member.state == State.PREPARING and bench.member.may_commit
    bench.prepare()
    assert not bench.member.may_commit, "the generation it would name is going"
    assert bench.member.owned == ()
    bench.join(2)
    bench.sync(T1)
    assert bench.adopt() == Adopt((), (T1,), (T1,))


def test_cooperative_keeps_its_partitions_gives_up_what_moves_and_joins_again() -> None:
    bench = Bench(cooperative=True).stable(T0, T1)
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert bench.prepare() == Prepare((), ())
    joined = bench.join(2)
    said = decode_subscription(joined.request.protocols[0].metadata)
    assert [(one.topic, one.partitions) for one in said.owned_partitions] == [("t", [0, 1])]
    assert said.generation_id == 1
    bench.sync(T0, T2)
    assert bench.adopt() == Adopt((T1,), (T2,), (T0, T2))
    bench.prepare()
    bench.join(3)
    bench.sync(T0, T2)
    assert bench.adopt() == Adopt((), (), (T0, T2))
    assert bench.step() == WaitUntil(bench.now_ms + 3_000)


@pytest.mark.parametrize(
    ("error", "comes_as"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")],
)
@pytest.mark.parametrize("cooperative", [True, False])
def test_who_is_forgotten_loses_its_partitions_and_joins_as_somebody_new_and_who_is_outdated_as_itself(
    error: ErrorCode, comes_as: str, cooperative: bool
) -> None:
    """Joined as somebody new, who is only outdated would leave its old self in the group, which waits for that."""
    bench = Bench(cooperative=cooperative).stable(T0, T1)
    bench.beat(error)
    assert bench.member.lost and not bench.member.may_commit
    assert bench.prepare() == Prepare((), (T0, T1))
    assert not bench.member.lost
    assert bench.join(7).request.member_id == comes_as


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION]
)
def test_a_lost_coordinator_is_looked_for_and_membership_goes_on(error: ErrorCode) -> None:
    bench = Bench().stable(T0)
    bench.beat(error)
    assert bench.step() == WaitUntil(bench.now_ms + 100)
    bench.now_ms += 100
    bench.find_coordinator()
    assert bench.member.owned == (T0,) and bench.member.state == State.STABLE
    bench.beat(ErrorCode.NONE)


def test_a_broken_join_or_sync_is_joined_again_with_the_same_member_id() -> None:
    bench = Bench()
    bench.start()
    bench.prepare()
    bench.join(1)
    assert isinstance(bench.step(), Sync)
    bench.member.failed(bench.now_ms)
    bench.now_ms += 100
    bench.find_coordinator()
    assert bench.join(2).request.member_id == "me"
    assert isinstance(bench.step(), Sync)
    bench.member.synced(ErrorCode.REBALANCE_IN_PROGRESS, b"", bench.now_ms)
    assert bench.join(3).request.member_id == "me"


def test_who_does_not_poll_leaves_and_comes_back_with_the_next_poll() -> None:
    bench = Bench().stable(T0)
    for _ in range(20):
        bench.beat(ErrorCode.NONE)
    bench.now_ms += 1_000
    step = bench.step()
    assert isinstance(step, Leave) and step.request.member_id == "me"
    assert "max.poll.interval.ms=60000" in step.reason
    bench.member.left()
    assert bench.step() == WaitUntil(float("inf"))
    bench.member.polled(bench.now_ms)
    assert bench.prepare() == Prepare((), (T0,))


def test_a_static_member_does_not_leave() -> None:
    bench = Bench(instance="i").stable(T0)
    bench.now_ms += 60_001
    assert bench.step() == WaitUntil(float("inf"))
    assert bench.member.leave_request("any") is None


def test_membership_lost_in_the_middle_of_a_turn() -> None:
    bench = Bench(cooperative=True).stable(T0)
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.prepare()
    bench.join(2)
    bench.sync(T0, T1)
    turn = bench.member.turn
    assert isinstance(turn, Adopt)
    bench.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    bench.member.turn_done(turn)
    assert bench.prepare() == Prepare((), (T0, T1)), "what was adopted meanwhile is lost too"


def test_what_cannot_be_mended_is_handed_to_the_application() -> None:
    bench = Bench(instance="i").stable(T0)
    bench.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(bench.member.failure, KafkaError) and "group g" in str(bench.member.failure)
    assert bench.step() == WaitUntil(float("inf"))
    bench = Bench()
    bench.start()
    bench.prepare()
    bench.name = "unheard-of"
    assert isinstance(bench.step(), Join)
    bench.member.joined(bench.joined(1, ErrorCode.NONE, leader="me"), bench.now_ms)
    assert isinstance(bench.step(), Count)
    bench.member.counted({})
    assert isinstance(bench.member.failure, GroupError)


def test_a_new_subscription_rebalances_and_gives_up_what_is_no_longer_wanted() -> None:
    bench = Bench(cooperative=True).stable(T0)
    bench.member.subscribe(["u"])
    assert bench.prepare() == Prepare((T0,), ())
    assert decode_subscription(bench.join(2).request.protocols[0].metadata).topics == ["u"]


def test_embedded_bytes_are_kafkas_and_newer_versions_are_read() -> None:
    plain = encode_subscription(["b", "a"], [T1, T0], 5)
    assert plain == (
        b"\x00\x03\x00\x00\x00\x02\x00\x01a\x00\x01b\xff\xff\xff\xff"
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\xff\xff"
    )
    newer = b"\x00\x09" + plain[2:] + b"something new"
    assert decode_subscription(newer).topics == ["a", "b"]
    version_0 = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
    assert decode_subscription(version_0).generation_id == -1
    assert decode_assignment(b"") == []
    assert decode_assignment(encode_assignment([T1, T0])) == [T0, T1]
    with pytest.raises(MalformedMessage):
        decode_assignment(b"\x00")


def test_an_answer_to_who_has_left_meanwhile_does_not_count() -> None:
    """The application unsubscribed while the first JoinGroup was open: its answer, a member id to join again with,
    made a member of nothing."""
    bench = Bench()
    bench.start()
    bench.prepare()
    assert isinstance(bench.step(), Join)
    bench.member.unsubscribe()
    bench.member.joined(bench.joined(-1, ErrorCode.MEMBER_ID_REQUIRED, "other"), bench.now_ms)
    assert bench.step() == WaitUntil(float("inf"))
    assert bench.member.leave_request("any") is None
    bench.member.subscribe(["u"])
    bench.prepare()
    assert bench.join(2).request.member_id == ""


@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE])
def test_a_heartbeat_of_before_does_not_count_either(error: ErrorCode) -> None:
    bench = Bench().stable(T0)
    bench.now_ms += 3_000
    assert isinstance(bench.step(), Heartbeat)
    bench.member.unsubscribe()
    bench.member.beaten(error, bench.now_ms)
    assert bench.member.state == State.OUTSIDE
    assert bench.step() == WaitUntil(float("inf"))


def test_after_a_failure_a_new_subscription_begins_anew() -> None:
    bench = Bench().stable(T0)
    bench.beat(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(bench.member.failure, KafkaError)
    bench.member.unsubscribe()
    bench.start()
    assert bench.member.failure is None
    bench.prepare()
    bench.join(1)


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
    bench.member.counted(counts)
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
    bench.member.counts_changed({"other": 3})
    bench.step()
    assert bench.member.state == State.STABLE
    bench.member.counts_changed({"t": 3})
    bench.step()
    assert bench.member.state == State.PREPARING


def test_a_topic_that_two_answers_lack_is_deleted_and_its_partitions_are_given_up() -> None:
    """It counted as unchanged for ever. One broker alone may not know it yet."""
    bench = Bench()
    lead(bench, {"t": 1})
    bench.adopt()
    for counts, state in (({}, State.STABLE), ({"t": 1}, State.STABLE), ({}, State.STABLE), ({}, State.PREPARING)):
        bench.member.counts_changed(counts)
        bench.step()
        assert bench.member.state == state


def test_a_topic_that_grows_while_the_application_adopts_is_not_missed() -> None:
    bench = Bench()
    lead(bench, {"t": 1})
    bench.member.counts_changed({"t": 2})
    bench.adopt()
    bench.step()
    assert bench.member.state == State.PREPARING


def test_a_static_leader_that_comes_back_decides_nothing_but_watches() -> None:
    bench = Bench(instance="i")
    assert lead(bench, {"t": 1}, skip_assignment=True).request.assignments == []
    bench.adopt()
    bench.member.counts_changed({"t": 2})
    bench.step()
    assert bench.member.state == State.PREPARING


def test_what_was_adopted_while_membership_was_lost_is_given_up_before_joining() -> None:
    """The next turn was made from what the application had before it."""
    bench = Bench(cooperative=True).stable(T0)
    bench.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.prepare()
    bench.join(2)
    bench.sync(T0, T1)
    adopting = bench.member.turn
    assert isinstance(adopting, Adopt)
    bench.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    bench.step()
    assert bench.member.turn == Prepare((), (T0,))
    bench.member.turn_done(adopting)
    assert bench.member.lost
    assert bench.prepare() == Prepare((), (T0, T1))
    assert decode_subscription(bench.join(3).request.protocols[0].metadata).owned_partitions == []


def test_a_refused_commit_of_who_is_no_member_makes_nobody_join() -> None:
    bench = Bench()
    bench.member.polled(bench.now_ms)
    for error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        bench.member.refused(error, bench.now_ms)
        assert bench.member.state == State.OUTSIDE and bench.step() == WaitUntil(float("inf"))
