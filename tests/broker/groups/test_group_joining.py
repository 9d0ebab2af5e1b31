"""JoinGroup: who gets in, and when everybody is answered."""

import pytest

from odradek.protocol.errors import ErrorCode

SECOND = 1000


def test_first_rebalance_waits_for_company_then_all_are_answered(world):
    first = world.join()
    world.clock.advance(1000)
    second = world.join()
    world.clock.advance(1999)
    assert not first and not second
    world.clock.advance(1 + 3000)  # somebody came during the first delay: once more
    a, b = world.only(first), world.only(second)
    assert a.error is b.error is ErrorCode.NONE
    assert a.generation == b.generation == 1
    assert a.leader == b.leader == a.member_id != b.member_id
    assert {one.member_id for one in a.members} == {a.member_id, b.member_id}
    assert b.members == ()
    assert (a.protocol_type, a.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(("joins_at_s", "answered_at_s"), [([], 3), ([1], 6), ([1, 4], 7), ([1, 4, 6], 7)])
def test_the_initial_delay_begins_anew_while_members_come_up_to_the_rebalance_timeout(world, joins_at_s, answered_at_s):
    first = world.join(rebalance_ms=7000)
    for second in range(answered_at_s):
        if second in joins_at_s:
            world.join(rebalance_ms=7000)
        world.clock.advance(SECOND - 1)
        assert not first, second
        world.clock.advance(1)
    assert len(world.only(first).members) == 1 + len(joins_at_s)


def test_a_rebalance_timeout_that_is_over_before_the_initial_delay_adds_nothing_to_it(world):
    first, _ = world.join(rebalance_ms=2000), world.clock.advance(1000)
    world.join(rebalance_ms=2000)
    world.clock.advance(2000)
    assert len(world.only(first).members) == 2


def test_a_group_that_had_a_generation_waits_for_company_once(world):
    world.leave(world.stable(1)[0].member_id)
    world.clock.advance()
    first, _ = world.join(), world.clock.advance(1000)
    world.join()
    world.clock.advance(1999)
    assert not first
    world.clock.advance(1)
    assert len(world.only(first).members) == 2


def test_initial_delay_of_zero_answers_at_once(make_world):
    world = make_world(group_initial_rebalance_delay_ms=0)
    joined = world.join()
    world.clock.advance()
    assert world.only(joined).generation == 1


def test_new_member_is_told_its_id_and_joins_with_it(world):
    told = world.only(world.join(version=4))
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("client-")
    assert told.generation == -1
    joined = world.join(member_id=told.member_id, version=4)
    world.clock.advance(3000)
    assert world.only(joined).member_id == told.member_id


def test_pending_member_that_never_comes_is_forgotten(world):
    told = world.only(world.join(version=4))
    other = world.join(version=3)
    world.clock.advance(3000)
    assert world.only(other).error is ErrorCode.NONE
    world.clock.advance(10_000)
    assert world.only(world.join(member_id=told.member_id, version=4)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_waits_for_a_pending_member(world):
    leader = world.stable(1)[0]
    told = world.only(world.join(version=4))
    third = world.join()
    rejoined = world.join(member_id=leader.member_id)
    assert not rejoined and not third
    late = world.join(member_id=told.member_id, version=4)
    assert world.only(late).generation == world.only(rejoined).generation == world.only(third).generation == 2


def test_pending_member_that_leaves_is_not_waited_for(world):
    leader = world.stable(1)[0]
    told = world.only(world.join(version=4))
    third = world.join()
    rejoined = world.join(member_id=leader.member_id)
    assert world.leave(told.member_id) is ErrorCode.NONE
    assert world.only(rejoined).generation == world.only(third).generation == 2


@pytest.mark.parametrize(
    ("session_ms", "accepted"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_session_timeout_bounds(world, session_ms, accepted):
    joined = world.join(session_ms=session_ms)
    world.clock.advance(3000)
    expected = ErrorCode.NONE if accepted else ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.only(joined).error is expected


def test_invalid_joins(world):
    assert world.only(world.join(group="")).error is ErrorCode.INVALID_GROUP_ID
    assert world.only(world.join(member_id="nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.only(world.join(protocols=())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.only(world.join(protocol_type="")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_names_that_no_record_can_hold(world):
    text = "ö" * 8_001
    assert world.only(world.join(group=text)).error is ErrorCode.INVALID_GROUP_ID
    assert world.only(world.join(instance_id=text)).error is ErrorCode.INVALID_REQUEST
    assert world.only(world.join(protocol_type=text)).error is ErrorCode.INVALID_REQUEST
    assert world.only(world.join(protocols=((text, b""),))).error is ErrorCode.INVALID_REQUEST
    longest = "😀" * 8_000
    member = world.stable(1, group=longest, instance_id=longest, version=5)[0]
    assert world.only(world.commit({("t", 0): 1}, group="x" + longest[1:])) == {("t", 0): ErrorCode.NONE}
    assert member.member_id.startswith(longest)


def test_protocol_must_be_shared(world):
    world.stable(1)
    assert world.only(world.join(protocols=(("sticky", b""),))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.only(world.join(protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_is_chosen_by_votes_among_the_common_ones(world):
    a = world.join(protocols=(("x", b"1"), ("y", b"2"), ("z", b"3")))
    b = world.join(protocols=(("z", b"4"), ("y", b"5")))
    c = world.join(protocols=(("only c", b""), ("z", b"7"), ("y", b"8")))
    world.clock.advance(6000)
    assert {world.only(one).protocol_name for one in (a, b, c)} == {"z"}
    assert [member.metadata for member in world.only(a).members] == [b"3", b"4", b"7"]


def test_a_protocol_that_no_member_supports_any_more_is_forgotten(world):
    member = world.stable(1, protocols=(("named once", b""), ("range", b"")))[0]
    world.join(member_id=member.member_id, protocols=(("named later", b""), ("range", b"")))
    world.leave(member.member_id)
    again = world.stable(1, protocols=(("named now", b""), ("range", b"")))[0]
    assert again.protocol_name == "named now"
    known = repr(world.coordinator.groups[0].metadata)
    assert "named now" in known
    assert "named once" not in known
    assert "named later" not in known


def test_the_id_that_a_dynamic_member_was_given_is_not_a_static_one_s(world):
    told = world.only(world.join(version=4))
    answer = world.only(world.join(member_id=told.member_id, instance_id="one", version=5))
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, told.member_id)
    again = world.join(member_id=told.member_id, version=5)
    world.clock.advance(6000)
    assert world.only(again).error is ErrorCode.NONE


def test_group_max_size(make_world):
    world = make_world(group_max_size=2)
    members = [world.join() for _ in range(2)]
    refused = world.only(world.join())
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    world.clock.advance(6000)
    world.synced([world.only(one) for one in members])
    assert world.only(world.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_in_a_rebalance_of_a_full_group_those_who_join_first_stay(make_world):
    world = make_world(group_max_size=2)
    first, second = world.stable(2)
    world.join(member_id=first.member_id)
    newcomer = world.join()
    again = world.join(member_id=first.member_id)
    late = world.only(world.join(member_id=second.member_id))
    assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [world.only(one).error for one in (newcomer, again)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_rejoin_are_kicked_out(world):
    leader, follower = world.stable(2, rebalance_ms=5000, session_ms=30_000)
    rejoined = world.join(member_id=leader.member_id, rebalance_ms=5000, session_ms=30_000)
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    world.clock.advance(4999)
    assert not rejoined
    world.clock.advance(1)
    assert [one.member_id for one in world.only(rejoined).members] == [leader.member_id]
    assert world.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_does_not_rejoin_is_replaced(world):
    leader, follower = world.stable(2, rebalance_ms=5000)
    world.join(rebalance_ms=5000)
    rejoined = world.join(member_id=follower.member_id, rebalance_ms=5000)
    world.clock.advance(5000)
    result = world.only(rejoined)
    assert result.leader == follower.member_id
    assert leader.member_id not in {one.member_id for one in result.members}


def test_same_metadata_in_a_stable_group_changes_nothing_for_a_follower(world):
    leader, follower = world.stable(2)
    again = world.only(world.join(member_id=follower.member_id))
    assert (again.error, again.generation, again.leader) == (ErrorCode.NONE, 1, leader.member_id)
    assert world.state() == "Stable"


def test_leader_or_new_metadata_in_a_stable_group_begins_a_rebalance(world):
    leader, follower = world.stable(2)
    assert not world.join(member_id=leader.member_id)
    assert world.state() == "PreparingRebalance"
    again = world.join(member_id=follower.member_id)
    assert world.only(again).generation == 2
    world.stable(2, group="h")
    changed = world.describe("h").members[1].member_id
    assert not world.join(group="h", member_id=changed, protocols=(("range", b"other"),))
    assert world.state("h") == "PreparingRebalance"


def test_repeated_join_before_the_assignment_gets_the_same_generation(world):
    waiting = [world.join(), world.join()]
    world.clock.advance(6000)
    leader, follower = (world.only(one) for one in waiting)
    assert world.state() == "CompletingRebalance"
    assert world.only(world.join(member_id=leader.member_id)) == leader
    assert world.only(world.join(member_id=follower.member_id)) == follower


def test_overtaken_join_is_answered(world):
    leader, _ = world.stable(2)
    first = world.join(member_id=leader.member_id)
    second = world.join(member_id=leader.member_id)
    assert world.only(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second


def test_cooperative_rebalance_carries_opaque_bytes(world):
    protocols = (("cooperative-sticky", b"\x00owned: t-0"),)
    leader, follower = world.stable(2, protocols=protocols)
    protocols = (("cooperative-sticky", b"\x00owned: nothing"),)
    waiting = [world.join(member_id=one.member_id, protocols=protocols) for one in (leader, follower)]
    first = world.synced([world.only(one) for one in waiting])
    assert {one.generation for one in first} == {2}
    assert first[0].members[0].metadata == b"\x00owned: nothing"
    second = [world.join(member_id=one.member_id, protocols=protocols) for one in first]
    assert [world.only(one).generation for one in second] == [3, 3]


def test_not_coordinator_and_inactive(make_world):
    world = make_world(loaded=False)
    assert world.only(world.join()).error is ErrorCode.NOT_COORDINATOR
    world.coordinator.stop()
    assert world.only(world.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
