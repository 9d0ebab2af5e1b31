"""OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups through a whole coordinator."""

from dataclasses import replace

import pytest

from odradek.broker.groups.group import CommitRequest, InTransaction, commit_error, group_error
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.protocol.errors import ErrorCode, TextTooLong

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def test_commit_and_fetch(world):
    leader, _ = world.stable(2)
    assert world.only(world.commit({T0: 5, T1: 6}, leader)) == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
    error, fetched = world.coordinator.fetch_offsets("g", [T0, U0], require_stable=True)
    assert error is ErrorCode.NONE
    assert (fetched[T0].offset, fetched[T0].metadata) == (5, "")
    assert (fetched[U0].offset, fetched[U0].error) == (-1, ErrorCode.NONE)
    assert world.offsets() == {T0: 5, T1: 6}
    assert world.offsets("unknown") == {}
    assert world.log.timeouts_ms == {5000}


def test_commit_is_visible_only_when_acknowledged(world):
    world.log.held = True
    answer = world.commit({T0: 5})
    assert not answer
    assert world.offsets() == {}
    _, fetched = world.coordinator.fetch_offsets("g", [T0], require_stable=True)
    assert (fetched[T0].offset, fetched[T0].error) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world.log.acknowledge()
    assert world.only(answer) == {T0: ErrorCode.NONE}
    assert world.offsets() == {T0: 5}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_failed_commit_leaves_what_was_committed(world, error, told):
    world.commit({T0: 5})
    world.log.error = error
    assert world.only(world.commit({T0: 9})) == {T0: told}
    assert world.offsets() == {T0: 5}
    _, fetched = world.coordinator.fetch_offsets("g", [T0], require_stable=True)
    assert fetched[T0].offset == 5


def test_failure_after_the_append_leaves_what_was_committed(world):
    world.commit({T0: 5})
    world.log.held = True
    answer = world.commit({T0: 9})
    world.log.acknowledge(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert world.only(answer) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert world.offsets() == {T0: 5}


def test_group_errors_without_a_line_pass_through():
    assert group_error(ErrorCode.NONE) is commit_error(ErrorCode.NONE) is ErrorCode.NONE
    assert group_error(ErrorCode.CORRUPT_MESSAGE) is ErrorCode.CORRUPT_MESSAGE


def test_later_commit_wins_whatever_is_acknowledged_first(world):
    world.log.held = True
    world.commit({T0: 5})
    world.commit({T0: 6})
    world.log.waiting.reverse()
    world.log.acknowledge()
    assert world.offsets() == {T0: 6}


def test_commit_is_kept_when_a_later_one_fails_first(world):
    world.log.held = True
    world.commit({T0: 5})
    world.commit({T0: 6})
    world.log.waiting.pop()(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    world.log.acknowledge()
    assert world.offsets() == {T0: 5}


def test_too_large_metadata_is_refused_by_itself(world):
    assert world.only(world.commit({T0: 5}, metadata="x" * 4096)) == {T0: ErrorCode.NONE}
    assert world.only(world.commit({T0: 6}, metadata="x" * 4097)) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.offsets() == {T0: 5}


def test_metadata_that_no_record_takes_leaves_the_offsets_as_they_were(make_world):
    """Of a limit far above Kafka's usual one: a commit seemed to be on its way for ever, and no reader was answered."""
    world = make_world(offset_metadata_max_bytes=100_000)
    world.commit({T0: 5})
    with pytest.raises(TextTooLong):
        world.commit({T0: 6}, metadata="\u20ac" * 20_000)
    _, fetched = world.coordinator.fetch_offsets("g", [T0], require_stable=True)
    assert (fetched[T0].offset, fetched[T0].error) == (5, ErrorCode.NONE)


def test_who_may_commit(world):
    leader, follower = world.stable(2)
    commit = world.commit
    assert world.only(commit({T0: 1}))[T0] is ErrorCode.UNKNOWN_MEMBER_ID  # by hand, while the group has members
    stale = leader.__class__(ErrorCode.NONE, leader.member_id, generation=0)
    assert world.only(commit({T0: 1}, stale))[T0] is ErrorCode.ILLEGAL_GENERATION
    stranger = leader.__class__(ErrorCode.NONE, "nobody", generation=1)
    assert world.only(commit({T0: 1}, stranger))[T0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.only(commit({T0: 1}, stranger, group="other"))[T0] is ErrorCode.ILLEGAL_GENERATION
    waiting = [world.join(member_id=leader.member_id)]
    assert world.only(commit({T0: 2}, follower))[T0] is ErrorCode.NONE  # last chance before the partitions move
    waiting.append(world.join(member_id=follower.member_id))
    between = world.only(waiting[1])
    assert world.only(commit({T0: 3}, between))[T0] is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.offsets() == {T0: 2}


def test_commit_counts_as_a_heartbeat(world):
    leader = world.stable(1)[0]
    for offset in range(5):
        world.clock.advance(9_000)
        assert world.only(world.commit({T0: offset}, leader))[T0] is ErrorCode.NONE
    assert world.heartbeat(leader) is ErrorCode.NONE


def test_transactional_commit_is_no_heartbeat(world):
    leader = world.stable(1)[0]
    world.clock.advance(9_000)
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    attempt = replace(world.commit_attempt({T0: 1}, leader), transaction=InTransaction(1, 0))
    world.coordinator.commit("g", attempt, answers.append)
    assert world.only(answers)[T0] is ErrorCode.NONE
    world.clock.advance(2_000)
    assert world.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_may_commit_in_a_transaction(world):
    """KIP-447: a member that its group has put out, or left behind, is a zombie, whatever its producer's epoch."""

    def commit(**by):
        answers: list[dict[tuple[str, int], ErrorCode]] = []
        attempt = replace(world.commit_attempt({T0: 1}), transaction=InTransaction(1, 0), **by)
        world.coordinator.commit("g", attempt, answers.append)
        return world.only(answers)[T0]

    leader, follower = world.stable(2)
    assert commit(member_id=leader.member_id, generation=leader.generation) is ErrorCode.NONE
    assert commit(member_id=leader.member_id, generation=leader.generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(member_id="nobody", generation=leader.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(member_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(generation=5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit() is ErrorCode.NONE, "a producer that names no member commits as before KIP-447"
    waiting = [world.join(member_id=one.member_id) for one in (leader, follower)]
    between = world.only(waiting[1])
    assert commit(member_id=between.member_id, generation=between.generation) is ErrorCode.NONE


@pytest.mark.parametrize("transaction", [None, InTransaction(1, 0)])
def test_who_names_no_generation_may_commit_for_an_empty_group_under_any_name(world, transaction):
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    attempt = replace(world.commit_attempt({T0: 5}), member_id="m", instance_id="i", transaction=transaction)
    for _ in range(2):  # the group is made by the first one
        world.coordinator.commit("g", attempt, answers.append)
    assert answers == [{T0: ErrorCode.NONE}] * 2


@pytest.mark.parametrize("generation", [0, 5])
@pytest.mark.parametrize(
    ("transaction", "error"),
    [(None, ErrorCode.ILLEGAL_GENERATION), (InTransaction(1, 0), ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_who_names_a_generation_of_a_group_that_does_not_exist_makes_none(world, generation, transaction, error):
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    attempt = replace(world.commit_attempt({T0: 5}), member_id="m", generation=generation, transaction=transaction)
    world.coordinator.commit("g", attempt, answers.append)
    assert answers == [{T0: error}]
    assert world.coordinator.list_groups([], [])[1] == []


def test_empty_group_id_may_be_described_and_deleted(world):
    world.commit({T0: 5}, group="")
    assert world.describe("").group_state == "Empty"
    assert world.coordinator.delete_offsets("", [T0]) == (ErrorCode.INVALID_GROUP_ID, {})
    assert world.coordinator.delete("") is ErrorCode.NONE
    assert world.offsets("") == {}


def test_empty_group_id_may_commit_and_fetch(world):
    assert world.only(world.commit({T0: 5}, group=""))[T0] is ErrorCode.NONE
    assert world.offsets("") == {T0: 5}
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    attempt = replace(world.commit_attempt({T0: 6}), transaction=InTransaction(1, 0))
    world.coordinator.commit("", attempt, answers.append)
    assert world.only(answers)[T0] is ErrorCode.INVALID_GROUP_ID, "there never was a transaction without a group"


def test_delete_group(world):
    leader = world.stable(1)[0]
    world.commit({T0: 5}, leader)
    assert world.coordinator.delete("g") is ErrorCode.NON_EMPTY_GROUP
    world.leave(leader.member_id)
    assert world.coordinator.delete("g") is ErrorCode.NONE
    assert world.coordinator.delete("g") is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.offsets() == {}
    partition = world.coordinator.partition_for("g")
    last = dict(world.log.records(partition))
    assert set(last.values()) == {None}
    assert len(last) == 2  # the offset's key and the group's


def test_delete_group_with_a_commit_under_way_leaves_nothing_in_the_log(world):
    world.log.held = True
    answer = world.commit({T0: 5})
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.log.acknowledge()
    assert world.only(answer) == {T0: ErrorCode.NONE}
    assert set(dict(world.log.records(world.coordinator.partition_for("g"))).values()) == {None}


def test_delete_offsets(world):
    leader = world.stable(1)[0]
    world.commit({T0: 5, U0: 6}, leader)
    error, errors = world.coordinator.delete_offsets("g", [T0, U0])
    assert error is ErrorCode.NONE
    assert errors == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: ErrorCode.NONE}
    assert world.offsets() == {T0: 5}
    world.leave(leader.member_id)
    assert world.coordinator.delete_offsets("g", [T0]) == (ErrorCode.NONE, {T0: ErrorCode.NONE})
    assert world.coordinator.delete_offsets("g", [T0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})


def test_a_group_of_members_outlives_its_last_offset(world):
    leader = world.stable(1)[0]
    world.commit({U0: 6}, leader)
    assert world.coordinator.delete_offsets("g", [U0]) == (ErrorCode.NONE, {U0: ErrorCode.NONE})
    assert (world.offsets(), world.state()) == ({}, "Stable")
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.commit({U0: 7}, leader)
    world.coordinator.on_partitions_deleted([U0])
    world.clock.advance()
    assert (world.offsets(), world.state()) == ({}, "Stable")


def test_offsets_of_topics_that_nobody_reads_are_deleted_while_the_group_is_balanced(world):
    leader = world.stable(1)[0]
    world.commit({T0: 5, U0: 6}, leader)
    world.join()
    assert world.state() == "PreparingRebalance"
    errors = {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: ErrorCode.NONE}
    assert world.coordinator.delete_offsets("g", [T0, U0]) == (ErrorCode.NONE, errors)


@pytest.mark.parametrize("delete", ["group", "expiry"])
def test_of_a_group_whose_first_members_were_gone_before_it_began_nothing_is_left(world, delete):
    """It has had one generation, which stands in the log."""
    world.join()
    partition = world.coordinator.partition_for("g")
    [member] = world.describe().members
    world.leave(member.member_id)
    world.clock.advance(world.config.group_initial_rebalance_delay_ms)
    assert world.state() == "Empty" and len(world.log.records(partition)) == 1
    if delete == "group":
        assert world.coordinator.delete("g") is ErrorCode.NONE
    else:
        world.clock.advance(world.config.offsets_retention_check_interval_ms)
    assert world.coordinator.list_groups([], [])[1] == []
    assert world.log.records(partition)[-1][1] is None


def test_delete_offsets_of_a_group_that_is_not_of_consumers(world):
    world.stable(1, protocol_type="connect")
    assert world.coordinator.delete_offsets("g", [T0]) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_deleted_topic_is_forgotten(world):
    leader = world.stable(1)[0]
    world.commit({T0: 5, U0: 6}, leader)
    world.commit({U0: 1}, group="simple")
    world.coordinator.on_partitions_deleted([U0])
    world.clock.advance()
    assert world.offsets() == {T0: 5}
    assert [one.group_id for one in world.coordinator.list_groups([], [])[1]] == ["g"]


def commit_in_transaction(world, offset):
    answers: list[dict[tuple[str, int], ErrorCode]] = []
    request = CommitRequest("", None, -1, {T0: CommittedOffset(offset, 0)}, InTransaction(7, 0))
    world.coordinator.commit("g", request, answers.append)
    return answers


def test_a_marker_of_the_coordinator_ends_what_stands_before_it(world):
    world.stable(1)
    commit_in_transaction(world, 1)
    partition = world.coordinator.partition_for("g")
    ended = world.coordinator.marker_appended(partition, 7, committed=True)
    assert world.offsets() == {}
    commit_in_transaction(world, 2)
    ended(ErrorCode.NONE)
    assert world.offsets() == {T0: 1}
    late = world.coordinator.marker_appended(partition, 7, committed=False)
    late(ErrorCode.REQUEST_TIMED_OUT)
    assert world.offsets() == {T0: 1} and is_unstable(world, T0)
    world.coordinator.marker_appended(partition, 7, committed=False)(ErrorCode.NONE)
    assert world.offsets() == {T0: 1} and not is_unstable(world, T0)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_that_comes_again_while_the_first_one_waits_ends_the_transaction(world, committed):
    """The first one, of which its sender never heard, ran into its time limit: its commits were open again, behind the
    second one. No stable offset could be read until the producer's next transaction, whose outcome was theirs."""
    commit_in_transaction(world, 1)
    partition = world.coordinator.partition_for("g")
    first = world.coordinator.marker_appended(partition, 7, committed=committed)
    second = world.coordinator.marker_appended(partition, 7, committed=committed)
    first(ErrorCode.REQUEST_TIMED_OUT)
    assert world.offsets() == {} and is_unstable(world, T0)
    second(ErrorCode.NONE)
    ended = {T0: 1} if committed else {}
    assert world.offsets() == ended and not is_unstable(world, T0)
    commit_in_transaction(world, 2)
    world.coordinator.marker_appended(partition, 7, committed=False)(ErrorCode.NONE)
    assert world.offsets() == ended


def test_what_waits_for_its_marker_is_ended_by_the_next_one(world):
    """A request with markers for several partitions is answered when all of them are replicated; who asked again, for
    this one, is told earlier."""
    commit_in_transaction(world, 1)
    partition = world.coordinator.partition_for("g")
    first = world.coordinator.marker_appended(partition, 7, committed=True)
    world.coordinator.marker_appended(partition, 7, committed=True)(ErrorCode.NONE)
    assert world.offsets() == {T0: 1} and not is_unstable(world, T0)
    commit_in_transaction(world, 2)
    next_one = world.coordinator.marker_appended(partition, 7, committed=True)
    first(ErrorCode.NONE)
    assert world.offsets() == {T0: 1} and is_unstable(world, T0)
    next_one(ErrorCode.NONE)
    assert world.offsets() == {T0: 2} and not is_unstable(world, T0)


def is_unstable(world, partition):
    _, fetched = world.coordinator.fetch_offsets("g", [partition], require_stable=True)
    return fetched[partition].error is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_commit_that_was_not_written_is_not_made_visible_by_its_marker(world):
    world.log.held = True
    answers = commit_in_transaction(world, 1)
    world.log.acknowledge(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.only(answers) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.coordinator.marker_appended(world.coordinator.partition_for("g"), 7, committed=True)(ErrorCode.NONE)
    assert world.offsets() == {}
    _, fetched = world.coordinator.fetch_offsets("g", [T0], require_stable=True)
    assert fetched[T0].error is ErrorCode.NONE


def test_what_is_deleted_while_it_is_being_committed_stays_deleted(world):
    world.commit({U0: 1})
    commit_in_transaction(world, 1)
    world.log.held = True
    answers = world.commit({T0: 2})
    world.coordinator.on_partitions_deleted([T0])
    world.clock.advance()
    world.log.acknowledge()
    assert world.only(answers) == {T0: ErrorCode.NONE}
    world.coordinator.marker_appended(world.coordinator.partition_for("g"), 7, committed=True)(ErrorCode.NONE)
    assert world.offsets() == {U0: 1}


def test_a_marker_after_a_resignation_is_for_the_next_coordinator(world):
    commit_in_transaction(world, 1)
    partition = world.coordinator.partition_for("g")
    world.coordinator.on_resigned(partition)
    assert not world.coordinator.serves_partition(partition)
    world.coordinator.on_elected(partition, 2)
    world.clock.advance()
    world.coordinator.marker_appended(partition, 7, committed=True)(ErrorCode.NONE)
    assert world.offsets() == {T0: 1}
