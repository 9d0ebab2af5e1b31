"""Membership of a consumer in its group, as pure steps: joining, rebalances, losses, leaving."""

import pytest

from odradek.client.config import load
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.client.consumer.member_states import (
    Adopt,
    Count,
    Heartbeat,
    Join,
    Leave,
    Prepare,
    State,
    Sync,
    WaitUntil,
    member_settings,
)
from odradek.client.errors import GroupError
from odradek.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from odradek.protocol.messages.join_group import JoinGroupResponseMember
from tests.client.one_member import T0, T1, T2, Bench


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
    bench.member.counted({}, {})
    assert isinstance(bench.member.failure, GroupError)


def test_what_another_member_says_and_nobody_understands_is_raised_until_that_is_gone() -> None:
    """It came out of poll as a MalformedMessage, for ever, and the member never joined again."""
    bench = Bench()
    bench.start()
    bench.prepare()
    for _ in range(2):
        assert isinstance(bench.step(), Join)
        answer = bench.joined(1, ErrorCode.NONE, leader="me")
        answer.members = [JoinGroupResponseMember(member_id="odd", metadata=b"?")]
        with pytest.raises(GroupError, match="group g: the subscription of member odd cannot be read") as odd:
            bench.member.joined(answer, bench.now_ms)
        bench.come_back_after(odd.value)
    bench.join(2)
    assert isinstance(bench.step(), Sync)
    with pytest.raises(GroupError, match="group g: its leader's assignment cannot be read") as odd:
        bench.member.synced(ErrorCode.NONE, b"?", bench.now_ms)
    bench.come_back_after(odd.value)
    assert bench.join(3).request.member_id == "me", "its place is kept, and nobody waits for who it was before"
    bench.sync(T0)
    assert bench.adopt().all == (T0,)


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


@pytest.mark.parametrize(("rack", "told"), [("near", "near"), ("", None)])
def test_a_member_tells_its_leader_its_rack(rack: str, told: str | None) -> None:
    """Kafka's leaders give it partitions with a replica there (KIP-881), for which client.rack has it fetch nearby."""
    given = {"bootstrap.servers": "broker:9092", "group.id": "g", "client.rack": rack}
    bench = Bench()
    bench.member.settings = member_settings(load(ConsumerSettings, given, {}))
    bench.start()
    bench.prepare()
    (said, *_) = bench.join(1).request.protocols
    assert decode_subscription(said.metadata).rack_id == told


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


def test_who_unsubscribes_while_it_adopts_has_nothing_in_the_end() -> None:
    """It was told of partitions that it had lost, though it had given them up; what it assigned then was gone."""
    bench = Bench()
    bench.start()
    bench.prepare()
    bench.join(1)
    bench.sync(T0)
    turn = bench.member.turn
    assert turn is not None
    bench.member.unsubscribe()
    bench.member.turn_done(turn)
    assert bench.member.owned == () and not bench.member.lost
    assert isinstance(bench.step(), WaitUntil)


def test_the_same_topics_once_more_are_no_reason_to_join_again() -> None:
    bench = Bench().stable(T0)
    bench.member.subscribe(["t"])
    assert isinstance(bench.step(), WaitUntil) and bench.member.state == State.STABLE


def test_a_coordinator_that_a_commit_has_lost_is_looked_for_at_once() -> None:
    bench = Bench().stable(T0)
    bench.member.coordinator_lost()
    bench.find_coordinator()
    assert isinstance(bench.step(), WaitUntil)


def test_who_waits_for_the_end_of_the_poll_interval_wakes_when_it_is_over() -> None:
    """On the very millisecond it would find that it is not over yet, and wait for nothing, in a circle."""
    bench = Bench().stable(T0)
    polled_ms = bench.now_ms
    bench.now_ms = polled_ms + 56_000
    bench.beat(ErrorCode.NONE)
    until = bench.step()
    assert until == WaitUntil(polled_ms + 60_001)
    bench.now_ms = until.at_ms
    assert isinstance(bench.step(), Leave)


def test_a_member_that_is_refused_for_good_has_lost_its_partitions() -> None:
    bench = Bench().stable(T0)
    assert not bench.member.lost
    bench.beat(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert bench.member.lost and not bench.member.may_commit
