"""SyncGroup, Heartbeat, LeaveGroup: one generation from its assignment to its end."""

from dataclasses import replace

import pytest

from odradek.broker.groups.group import REFUSAL_PAUSE_MS
from odradek.broker.requests.describe_groups import described
from odradek.protocol.errors import ErrorCode


def joined_pair(world):
    waiting = [world.join(), world.join()]
    world.clock.advance(6000)
    return [world.only(one) for one in waiting]


def test_followers_wait_for_the_leader(world):
    leader, follower = joined_pair(world)
    waiting = world.sync(follower)
    assert not waiting
    answered = world.sync(leader, {leader.member_id: b"A", follower.member_id: b"B"})
    assert world.only(answered).assignment == b"A"
    assert world.only(waiting).assignment == b"B"
    assert (world.only(waiting).protocol_type, world.only(waiting).protocol_name) == ("consumer", "range")
    assert world.state() == "Stable"
    assert world.only(world.sync(follower)).assignment == b"B"


def dies_after_its_session(world, alive, member_id):
    """Its session begins anew with the answer: else who dies after a long wait is a member for ever."""
    for _ in range(3):
        world.clock.advance(5_000)
        world.heartbeat(alive)
    left = {one.member_id for one in world.describe("g").members}
    assert left == {alive.member_id}, f"{member_id} died after it was answered"


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_the_session_of_a_member_that_waited_for_its_assignment_begins_with_the_answer(world, error):
    leader, follower = joined_pair(world)
    waiting = world.sync(follower)
    for _ in range(3):
        world.clock.advance(5_000)
        assert world.heartbeat(leader) is ErrorCode.NONE
    world.log.error = error
    world.sync(leader, {})
    assert len(waiting) == 1
    dies_after_its_session(world, leader, follower.member_id)


def test_the_session_of_a_member_that_waited_for_the_others_begins_with_the_answer(world):
    leader, follower = world.stable(2)
    waiting = world.join(member_id=leader.member_id)
    for _ in range(3):
        world.clock.advance(5_000)
        assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.only(world.join(member_id=follower.member_id))
    assert world.only(waiting).generation == again.generation == 2
    dies_after_its_session(world, again, leader.member_id)


def test_the_next_coordinator_knows_that_a_group_has_no_members_any_more(world):
    world.leave(world.stable(1)[0].member_id)
    world.clock.advance()
    successor = world.broker()
    successor.on_elected(successor.partition_for("g"), 1)
    world.clock.advance()
    group = described(successor, "g")
    assert (group.group_state, group.members) == ("Empty", [])


def test_forgotten_member_gets_empty_bytes(world):
    leader, follower = joined_pair(world)
    waiting = world.sync(follower)
    world.sync(leader, {leader.member_id: b"A", "stranger": b"C"})
    assert world.only(waiting).assignment == b""
    assert world.only(waiting).error is ErrorCode.NONE


def test_sync_is_refused(world):
    leader, follower = joined_pair(world)
    refusals = [
        (world.sync(leader, group="other"), ErrorCode.UNKNOWN_MEMBER_ID),
        (world.sync(leader, group=""), ErrorCode.INVALID_GROUP_ID),
        (world.sync(leader, member_id="nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (world.sync(leader, generation=0), ErrorCode.ILLEGAL_GENERATION),
        (world.sync(leader, instance_id="nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (world.sync(leader, protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (world.sync(leader, protocol_name="sticky"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ]
    for answers, error in refusals:
        assert world.only(answers).error is error
    world.leave(follower.member_id)
    assert world.only(world.sync(leader)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_assignment_is_handed_out_only_when_it_is_stored(world):
    leader, follower = joined_pair(world)
    world.log.held = True
    waiting = [world.sync(follower), world.sync(leader, {follower.member_id: b"B"})]
    assert not any(waiting)
    assert world.heartbeat(follower) is ErrorCode.NONE
    world.log.acknowledge()
    assert [world.only(one).assignment for one in waiting] == [b"B", b""]


def test_failed_store_answers_all_and_begins_again(world):
    for error, told in [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]:
        group = error.name
        waiting = [world.join(group), world.join(group)]
        world.clock.advance(6000)
        leader, follower = (world.only(one) for one in waiting)
        syncs = [world.sync(follower, group=group)]
        world.log.error = error
        syncs.append(world.sync(leader, {}, group=group))
        world.log.error = ErrorCode.NONE
        assert [world.only(one).error for one in syncs] == [told, told]
        assert world.state(group) == "PreparingRebalance"


@pytest.mark.parametrize(
    "error, told",
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_members_are_told_after_a_pause_that_the_log_takes_nothing_at_the_moment(world, error, told):
    """One of librdkafka's joins again at once, whatever it is told: 850 times in each second that a disk was full."""
    leader, follower = joined_pair(world)
    world.log.error = error
    syncs = [world.sync(follower), world.sync(leader, {})]
    world.clock.advance(REFUSAL_PAUSE_MS - 1)
    assert syncs == [[], []]
    assert [world.heartbeat(one) for one in (leader, follower)] == [ErrorCode.NONE] * 2
    world.clock.advance(1)
    assert [world.only(one).error for one in syncs] == [told, told]
    assert world.state() == "PreparingRebalance"


def test_a_coordinator_that_resigns_answers_in_the_pause(world):
    leader, _ = joined_pair(world)
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    waiting = world.sync(leader, {})
    world.coordinator.on_resigned(world.coordinator.partition_for("g"))
    assert world.only(waiting).error is ErrorCode.NOT_COORDINATOR
    world.clock.advance(REFUSAL_PAUSE_MS)
    assert len(waiting) == 1


def test_store_that_ends_after_the_next_rebalance_began_changes_nothing(world):
    leader, follower = joined_pair(world)
    world.log.held = True
    waiting = [world.sync(follower), world.sync(leader, {})]
    newcomer = world.join()
    assert [world.only(one).error for one in waiting] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    world.log.acknowledge()
    assert world.state() == "PreparingRebalance"
    again = [world.join(member_id=one.member_id) for one in (leader, follower)]
    assert {world.only(one).generation for one in [newcomer, *again]} == {2}


def test_store_that_ends_when_the_next_generation_waits_for_its_own_changes_nothing(world):
    leader, follower = joined_pair(world)
    world.log.held = True
    world.sync(leader, {follower.member_id: b"old"})
    other = (("range", b"other"),)
    again = [world.join(member_id=one.member_id, protocols=other) for one in (leader, follower)]
    second = world.only(again[1])
    assert second.generation == 2
    waiting = world.sync(second)
    world.log.acknowledge()
    assert (world.state(), waiting) == ("CompletingRebalance", [])
    world.sync(world.only(again[0]), {follower.member_id: b"new"})
    world.log.acknowledge()
    assert world.only(waiting).assignment == b"new"


def test_overtaken_sync_is_answered(world):
    _, follower = joined_pair(world)
    first, second = world.sync(follower), world.sync(follower)
    assert world.only(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second


def test_member_that_leaves_while_its_sync_waits_is_answered(world):
    leader, follower = joined_pair(world)
    waiting = world.sync(follower)
    assert world.leave(follower.member_id) is ErrorCode.NONE
    assert world.only(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_dropped(world):
    waiting = [world.join(rebalance_ms=5000, session_ms=60_000) for _ in range(2)]
    world.clock.advance(6000)
    leader, follower = (world.only(one) for one in waiting)
    synced = world.sync(follower)
    world.clock.advance(5000)
    assert world.only(synced).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.only(world.join(member_id=follower.member_id)).leader == follower.member_id


def test_heartbeat_in_every_state(world):
    leader, follower = joined_pair(world)
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.synced([leader, follower])
    assert world.heartbeat(leader) is ErrorCode.NONE
    coordinator = world.coordinator
    assert coordinator.heartbeat("g", leader.member_id, None, 0) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat("g", "nobody", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("g", leader.member_id, "instance", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("", leader.member_id, None, 1) is ErrorCode.INVALID_GROUP_ID
    assert coordinator.heartbeat("other", leader.member_id, None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    world.join()
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    world.clock.advance(60_000)
    assert world.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_no_member_of_this_generation_hears_so_during_a_rebalance_too(world):
    """REBALANCE_IN_PROGRESS would have it join again under an id that nobody has."""
    leader, follower = world.stable(2)
    world.join()
    assert world.state() == "PreparingRebalance"
    stranger = replace(follower, member_id="nobody")
    late = replace(follower, generation=follower.generation - 1)
    for one, error in (
        (stranger, ErrorCode.UNKNOWN_MEMBER_ID),
        (late, ErrorCode.ILLEGAL_GENERATION),
        (leader, ErrorCode.REBALANCE_IN_PROGRESS),
    ):
        assert world.only(world.sync(one)).error is error
        assert world.heartbeat(one) is error


def test_a_commit_that_is_refused_keeps_no_member(world):
    leader, follower = world.stable(2)
    late = replace(follower, generation=follower.generation - 1)
    for error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
        world.clock.advance(6_000)
        world.heartbeat(leader)
        assert world.only(world.commit({("t", 0): 1}, late)) == {("t", 0): error}


def test_heartbeats_keep_a_member_and_their_absence_drops_it(world):
    leader, follower = world.stable(2)
    for _ in range(5):
        world.clock.advance(9_000)
        assert world.heartbeat(leader) is world.heartbeat(follower) is ErrorCode.NONE
    world.clock.advance(5_000)
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.clock.advance(5_000)  # the follower's ten seconds are over
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    alone = world.only(world.join(member_id=leader.member_id))
    assert [one.member_id for one in alone.members] == [leader.member_id]
    assert world.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_member_does_not_time_out(world):
    leader, follower = world.stable(2, session_ms=6000, rebalance_ms=60_000)
    rejoined = world.join(member_id=leader.member_id, session_ms=6000)
    for _ in range(8):
        world.clock.advance(5000)
        assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not rejoined
    world.join(member_id=follower.member_id, session_ms=6000)
    assert {one.member_id for one in world.only(rejoined).members} == {leader.member_id, follower.member_id}


def test_a_member_that_waits_for_its_assignment_does_not_time_out(world):
    leader, follower = joined_pair(world)
    waiting = world.sync(follower)
    for _ in range(4):
        world.clock.advance(5_000)
        assert world.heartbeat(leader) is ErrorCode.NONE
    world.sync(leader, {follower.member_id: b"f"})
    assert (world.only(waiting).error, world.only(waiting).assignment) == (ErrorCode.NONE, b"f")


def test_who_asks_for_its_assignment_again_lives(world):
    leader, follower = world.stable(2)
    for _ in range(4):
        world.clock.advance(5_000)
        assert world.heartbeat(leader) is ErrorCode.NONE
        assert world.only(world.sync(follower)).error is ErrorCode.NONE


def test_new_member_whose_connection_died_is_dropped_after_five_minutes(world):
    leader = world.stable(1, rebalance_ms=1_000_000, session_ms=1_000_000)[0]
    newcomer = world.join(rebalance_ms=1_000_000)
    world.clock.advance(299_999)
    assert not newcomer
    world.clock.advance(1)
    assert world.only(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_two_share_one_leaves_the_other_takes_over(world):
    leader, follower = world.stable(2)
    assert world.leave(leader.member_id) is ErrorCode.NONE
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    alone = world.only(world.join(member_id=follower.member_id))
    assert (alone.leader, alone.generation) == (follower.member_id, 2)
    world.synced([alone])
    assert world.leave(follower.member_id) is ErrorCode.NONE
    assert world.state() == "Empty"
    assert world.leave(follower.member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("anybody", group="other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_describe_shows_metadata_only_when_stable(world):
    leader, follower = joined_pair(world)
    described = world.describe("g")
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert {member.member_metadata for member in described.members} == {b""}
    world.synced([leader, follower])
    described = world.describe("g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert described.members[0].member_assignment == described.members[0].member_id.encode()
    assert described.members[0].member_metadata == world.subscription("t")
    assert world.describe("unknown").group_state == "Dead"


def test_list_groups_filters_by_state_and_type(world):
    world.stable(1)
    world.commit({("t", 0): 1}, group="simple")
    coordinator = world.coordinator
    assert {one.group_id for one in coordinator.list_groups([], [])[1]} == {"g", "simple"}
    assert [one.group_id for one in coordinator.list_groups(["STABLE"], ["Classic"])[1]] == ["g"]
    assert [one.state for one in coordinator.list_groups(["empty"], [])[1]] == ["Empty"]
    assert coordinator.list_groups([], ["consumer"]) == (ErrorCode.NONE, [])


def test_stop_answers_all_and_leaves_no_timer(world):
    leader, _ = world.stable(2)
    waiting = world.join(member_id=leader.member_id)
    assert world.only(world.join(version=4)).error is ErrorCode.MEMBER_ID_REQUIRED
    world.coordinator.stop()
    assert world.only(waiting).error is ErrorCode.NOT_COORDINATOR
    assert world.clock.outstanding == 0
