"""Deletions of groups and offsets while the disk is full: the log has them when there is room again."""

from typing import Any

import pytest

from odradek.broker.groups.unwritten_tombstones import RETRY_MS, TOMBSTONES_MAX
from odradek.protocol.errors import ErrorCode

T0, U0 = ("t", 0), ("u", 0)


def in_the_next_coordinator(world: Any) -> Any:
    """Let another broker coordinate everything, and return what groups it knows, with their offsets."""
    world.clock.advance(RETRY_MS)
    for partition in range(2):
        world.coordinator.on_resigned(partition)
    world.coordinator = world.broker()
    for partition in range(2):
        world.coordinator.on_elected(partition, 1)
    world.clock.advance()
    return {group.metadata.group_id: world.offsets(group.metadata.group_id) for group in world.coordinator.groups}


@pytest.mark.parametrize("delete", ["group", "offsets", "topic"])
def test_what_is_deleted_while_the_disk_is_full_is_not_there_again(world: Any, delete: str) -> None:
    """Nobody wrote it later: the next coordinator had the group again, and offsets of a former topic, behind which the
    readers of one that was made anew began."""
    leader = world.stable(1)[0]
    world.commit({T0: 5, U0: 6}, leader)
    world.leave(leader.member_id)
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    if delete == "group":
        assert world.coordinator.delete("g") is ErrorCode.NONE
    elif delete == "offsets":
        assert world.coordinator.delete_offsets("g", [U0])[1] == {U0: ErrorCode.NONE}
    else:
        world.coordinator.on_partitions_deleted([U0])
    world.clock.advance(3 * RETRY_MS)
    world.log.error = ErrorCode.NONE
    assert in_the_next_coordinator(world) == ({} if delete == "group" else {"g": {T0: 5}})


def test_what_is_committed_since_stays(world: Any) -> None:
    world.commit({T0: 5, U0: 6})
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.log.error = ErrorCode.NONE
    world.commit({T0: 1})
    leader = world.stable(1)[0]
    assert in_the_next_coordinator(world) == {"g": {T0: 1}}
    assert leader.member_id in world.coordinator.groups[0].metadata.members


def test_a_commit_under_way_is_waited_for(world: Any) -> None:
    world.commit({T0: 5, U0: 6})
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.log.error, world.log.held = ErrorCode.NONE, True
    world.commit({T0: 1, U0: 1})
    before = len(world.log.records(world.coordinator.partition_for("g")))
    world.clock.advance(3 * RETRY_MS)
    assert len(world.log.records(world.coordinator.partition_for("g"))) == before
    world.log.acknowledge(ErrorCode.REQUEST_TIMED_OUT)
    world.log.held = False
    assert in_the_next_coordinator(world) == {}


def test_who_does_not_lead_any_more_writes_none(world: Any) -> None:
    world.commit({T0: 5})
    partition = world.coordinator.partition_for("g")
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.log.error = ErrorCode.NONE
    world.coordinator.on_resigned(partition)
    world.coordinator.on_elected(partition, 1)
    world.clock.advance(3 * RETRY_MS)
    assert world.offsets() == {T0: 5}, "as the log has it"


def test_no_more_than_a_number_waits(world: Any) -> None:
    world.commit({("t", index): 5 for index in range(TOMBSTONES_MAX + 1)})
    world.log.error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.coordinator.delete("g") is ErrorCode.NONE
    world.log.error = ErrorCode.NONE
    assert len(in_the_next_coordinator(world)["g"]) == 1


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_tombstones_of_long_names_are_written_in_more_batches(world: Any, error: ErrorCode) -> None:
    """A thousand of them were one batch, however long their group's name: it was more than max.message.bytes, and all
    of them were given up."""
    group = "g" * 2_000
    for index in range(0, 1000, 100):
        world.commit({("t", partition): 5 for partition in range(index, index + 100)}, group=group)
    world.log.error = error
    assert world.coordinator.delete(group) is ErrorCode.NONE
    world.log.error = ErrorCode.NONE
    assert in_the_next_coordinator(world) == {}
