"""Static members: restarts without a rebalance, and the fencing of the process that was replaced."""

import pytest

from odradek.broker.groups.group import REFUSAL_PAUSE_MS
from odradek.protocol.errors import ErrorCode


def static_pair(world, **what):
    """Two static members in a stable group, the leader first."""
    waiting = [world.join(instance_id=name, version=5, **what) for name in ("one", "two")]
    world.clock.advance(6000)
    return world.synced([world.only(answers) for answers in waiting])


def test_id_begins_with_the_instance_id(world):
    leader, follower = static_pair(world)
    assert leader.member_id.startswith("one-")
    assert follower.member_id.startswith("two-")
    assert {one.instance_id for one in leader.members} == {"one", "two"}


def test_restarted_follower_takes_its_place_without_a_rebalance(world):
    leader, follower = static_pair(world)
    again = world.only(world.join(instance_id="two", version=5))
    assert again.error is ErrorCode.NONE
    assert again.generation == 1
    assert again.member_id not in (leader.member_id, follower.member_id)
    assert again.leader == leader.member_id
    assert world.state() == "Stable"
    assert world.only(world.sync(again)).assignment == follower.member_id.encode()
    assert world.heartbeat(leader) is ErrorCode.NONE


def test_a_follower_that_restarts_before_it_has_asked_for_its_assignment_is_awaited_under_its_new_id(world):
    """With the old one missing, the group was rebalanced as soon as it should have come."""
    waiting = [
        world.join(instance_id=name, version=5, rebalance_ms=5_000, session_ms=60_000) for name in ("one", "two")
    ]
    world.clock.advance(6_000)
    leader, follower = (world.only(answers) for answers in waiting)
    assert world.only(world.sync(leader, {follower.member_id: b"a"})).error is ErrorCode.NONE
    again = world.only(world.join(instance_id="two", version=5, rebalance_ms=5_000, session_ms=60_000))
    assert world.only(world.sync(again)).assignment == b"a"
    world.clock.advance(6_000)
    assert world.heartbeat(leader) is world.heartbeat(again) is ErrorCode.NONE


def test_replaced_process_is_fenced(world):
    _, follower = static_pair(world)
    world.join(instance_id="two", version=5)
    assert world.heartbeat(follower, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(follower.member_id, "two") is ErrorCode.FENCED_INSTANCE_ID
    old = world.only(world.join(member_id=follower.member_id, instance_id="two", version=5))
    assert old.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_restarts_once_more_while_its_new_id_is_written_is_answered_under_the_last_one(world):
    leader, _ = static_pair(world)
    world.log.held = True
    first, second = (world.join(instance_id="two", version=5) for _ in range(2))
    assert world.only(first).error is ErrorCode.FENCED_INSTANCE_ID
    world.log.acknowledge()
    again = world.only(second)
    assert (again.error, again.generation) == (ErrorCode.NONE, 1)
    assert {one.member_id for one in world.describe("g").members} == {leader.member_id, again.member_id}


def test_a_new_id_that_a_rebalance_has_told_is_kept_even_if_the_write_of_it_fails_later(world):
    leader, _ = static_pair(world)
    world.log.held = True
    again = world.join(instance_id="two", version=5)
    rejoined = world.only(world.join(member_id=leader.member_id, instance_id="one", version=5))
    member = world.only(again)
    assert member.generation == rejoined.generation == 2
    synced = world.sync(rejoined, {member.member_id: b"a"}), world.sync(member)
    world.log.waiting.pop()(ErrorCode.NONE)
    assert [world.only(one).error for one in synced] == [ErrorCode.NONE, ErrorCode.NONE]
    world.log.acknowledge(ErrorCode.REQUEST_TIMED_OUT)
    assert world.heartbeat(member, instance_id="two") is ErrorCode.NONE


def test_the_session_of_a_restarted_member_begins_with_the_answer(world):
    """Else one that dies after a long wait is a member for ever."""
    leader, _ = static_pair(world)
    world.log.held = True
    again = world.join(instance_id="two", version=5)
    for round_number in range(6):
        world.clock.advance(5_000)
        world.heartbeat(leader)
        if round_number == 2:
            assert not again
            world.log.acknowledge()
            assert world.only(again).error is ErrorCode.NONE
    assert {one.member_id for one in world.describe("g").members} == {leader.member_id}


def test_a_group_whose_record_names_no_leader_names_none_to_who_comes_back(world):
    static_pair(world)
    (group,) = world.coordinator.groups
    group.metadata.leader = None
    for error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE):
        world.log.error = error
        assert world.only(world.join(instance_id="two", version=5)).leader == ""


def test_restarted_leader_below_version_9_takes_itself_for_a_follower(world):
    leader, _ = static_pair(world)
    again = world.only(world.join(instance_id="one", version=8))
    assert again.leader == leader.member_id != again.member_id
    assert again.members == ()
    assert not again.skip_assignment


def test_restarted_leader_of_version_9_skips_the_assignment(world):
    static_pair(world)
    again = world.only(world.join(instance_id="one", version=9))
    assert again.leader == again.member_id
    assert {one.instance_id for one in again.members} == {"one", "two"}
    assert again.skip_assignment
    follower = world.only(world.join(instance_id="two", version=9))
    assert (follower.skip_assignment, follower.members) == (False, ())


def test_new_metadata_under_the_same_protocol_does_not_rebalance(world):
    static_pair(world)
    again = world.only(world.join(instance_id="two", version=5, protocols=(("range", b"other"),)))
    assert again.error is ErrorCode.NONE
    assert world.describe("g").members[1].member_metadata == b"other"


def test_change_of_the_chosen_protocol_rebalances(world):
    both = (("range", b"r"), ("sticky", b"s"))
    leader, _ = static_pair(world, protocols=both)
    again = world.join(instance_id="two", version=5, protocols=(("sticky", b"s"),))
    assert not again
    assert world.state() == "PreparingRebalance"
    rejoined = world.join(member_id=leader.member_id, instance_id="one", version=5, protocols=both)
    assert world.only(rejoined).protocol_name == world.only(again).protocol_name == "sticky"


def test_restart_while_the_assignment_is_awaited_rebalances(world):
    waiting = [world.join(instance_id=name, version=5) for name in ("one", "two")]
    world.clock.advance(6000)
    leader, follower = (world.only(one) for one in waiting)
    synced = world.sync(follower, instance_id="two")
    again = world.join(instance_id="two", version=5)
    assert world.only(synced).error is ErrorCode.FENCED_INSTANCE_ID
    assert not again
    rejoined = world.join(member_id=leader.member_id, instance_id="one", version=5)
    assert world.only(again).generation == world.only(rejoined).generation == 2


def test_restart_during_a_rebalance_fences_the_waiting_join(world):
    leader, follower = static_pair(world)
    first = world.join(member_id=leader.member_id, instance_id="one", version=5)
    second = world.join(instance_id="one", version=5)
    assert world.only(first).error is ErrorCode.FENCED_INSTANCE_ID
    rejoined = world.join(member_id=follower.member_id, instance_id="two", version=5)
    assert world.only(second).leader == world.only(second).member_id == world.only(rejoined).leader


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_restart_that_cannot_be_stored_is_taken_back(world, error):
    _, follower = static_pair(world)
    world.log.error = error
    waiting = world.join(instance_id="two", version=5, protocols=(("range", b"other"),))
    world.clock.advance(REFUSAL_PAUSE_MS)
    refused = world.only(waiting)
    assert refused.error in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert refused.member_id == ""
    assert world.heartbeat(follower, instance_id="two") is ErrorCode.NONE
    assert world.describe("g").members[1].member_metadata == world.subscription("t")


def test_a_restart_that_is_taken_back_leaves_the_old_member_no_longer_than_its_session(world):
    static_pair(world)
    world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    waiting = world.join(instance_id="two", version=5)
    world.clock.advance(REFUSAL_PAUSE_MS)
    assert world.only(waiting).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.clock.advance(9_999)
    assert {one.group_instance_id for one in world.describe("g").members} >= {"two"}
    world.clock.advance(1)
    assert "two" not in {one.group_instance_id for one in world.describe("g").members}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_restart_is_not_answered_by_its_store_when_a_rebalance_has_begun(world, error):
    leader, _ = static_pair(world)
    world.log.held = True
    again = world.join(instance_id="two", version=5)
    newcomer = world.join(instance_id="three", version=5)
    world.log.acknowledge(error)
    assert world.state() == "PreparingRebalance" and not again
    rejoined = world.join(member_id=leader.member_id, instance_id="one", version=5)
    assert {world.only(one).generation for one in (again, newcomer, rejoined)} == {2}


def test_rebalance_that_begins_while_a_restart_is_stored_answers_it(world):
    leader, _ = static_pair(world)
    world.log.held = True
    again = world.join(instance_id="two", version=5)
    rejoined = world.join(member_id=leader.member_id, instance_id="one", version=5)
    assert world.only(again).generation == world.only(rejoined).generation == 2
    world.log.acknowledge()
    assert len(again) == 1


def test_static_member_may_stay_away_until_its_session_ends(world):
    leader, follower = static_pair(world, rebalance_ms=6000, session_ms=30_000)
    rejoined = world.join(member_id=leader.member_id, instance_id="one", version=5, rebalance_ms=6000)
    world.clock.advance(6000)
    result = world.only(rejoined)
    assert {one.instance_id for one in result.members} == {"one", "two"}
    assert world.heartbeat(follower, instance_id="two") is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("rebalance_ms", [1, 0, -1])
def test_absent_static_members_are_not_waited_for_without_a_pause(world, monkeypatch, rebalance_ms):
    """Their coordinator did nothing else until their sessions were over."""
    leader, _ = static_pair(world)
    world.only(world.join(instance_id="two", version=5, rebalance_ms=rebalance_ms))
    timers, call_later = [], world.clock.call_later

    def counted(delay_ms, callback):
        timers.append(delay_ms)
        assert len(timers) < 100, timers
        return call_later(delay_ms, callback)

    monkeypatch.setattr(world.clock, "call_later", counted)
    assert world.leave(leader.member_id, "one") is ErrorCode.NONE
    world.clock.advance(9_000)
    assert world.state() == "PreparingRebalance"
    world.clock.advance(2_000)
    assert world.state() == "Empty"


def test_removal_by_instance_id_alone(world):
    leader, _ = static_pair(world)
    assert world.leave("", "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("", "two") is ErrorCode.NONE
    assert world.heartbeat(leader, instance_id="one") is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.leave("", None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_id_of_a_restart_survives_a_move(world):
    static_pair(world)
    again = world.only(world.join(instance_id="two", version=5))
    world.coordinator.stop()
    world.coordinator = world.broker()
    for partition in range(2):
        world.coordinator.on_elected(partition, 1)
    world.clock.advance()
    assert world.heartbeat(again, instance_id="two") is ErrorCode.NONE
