"""What a coordinator counts of its groups, for metrics."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.broker.groups.group import GroupCounters, InTransaction
from odradek.protocol.errors import ErrorCode

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
HOUR = 3_600_000


def test_offsets_are_counted_as_they_are_written_deleted_and_expire(make_world: Any) -> None:
    world = make_world(offsets_retention_minutes=60)
    world.commit({T0: 1, T1: 1, U0: 1})
    request = replace(world.commit_attempt({T0: 2}), transaction=InTransaction(7, 0))
    world.coordinator.commit("other", request, lambda errors: None)
    assert world.coordinator.counters == GroupCounters(offset_commits=4)
    world.coordinator.delete_offsets("g", [U0, ("u", 1)])
    assert world.coordinator.counters == GroupCounters(offset_commits=4, offset_deletions=1)
    world.coordinator.on_partitions_deleted([T1])
    world.clock.advance(2 * HOUR)
    expected = GroupCounters(offset_commits=4, offset_deletions=1, offset_expirations=1)
    assert world.coordinator.counters == expected, "an offset of a deleted topic is neither"


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_what_is_not_written_is_not_counted(world: Any, error: ErrorCode) -> None:
    world.log.error = error
    world.commit({T0: 1})
    assert world.coordinator.counters == GroupCounters()


def test_a_rebalance_is_counted_when_its_assignment_is_written(world: Any) -> None:
    waiting = [world.join(), world.join()]
    world.clock.advance(2 * world.config.group_initial_rebalance_delay_ms)
    assert world.coordinator.counters == GroupCounters()
    world.synced([world.only(answers) for answers in waiting])
    assert world.coordinator.counters == GroupCounters(completed_rebalances=1)
    world.join(instance_id="i")
    assert world.coordinator.counters == GroupCounters(completed_rebalances=1)


def test_neither_a_new_id_of_a_static_member_nor_the_end_of_a_generation_counts_as_a_rebalance(world: Any) -> None:
    member = world.stable(1, instance_id="i", version=5)[0]
    again = world.only(world.join(instance_id="i", version=5))
    assert again.generation == member.generation
    world.leave(again.member_id, "i")
    world.clock.advance(2 * world.config.group_initial_rebalance_delay_ms)
    assert world.state() == "Empty"
    assert world.coordinator.counters == GroupCounters(completed_rebalances=1)


@pytest.mark.parametrize(
    ("error", "level"), [(ErrorCode.NOT_LEADER_OR_FOLLOWER, "WARNING"), (ErrorCode.KAFKA_STORAGE_ERROR, "DEBUG")]
)
def test_what_is_not_written_is_in_the_operators_log_and_what_is_tried_without_end_is_not(
    world: Any, caplog: pytest.LogCaptureFixture, error: ErrorCode, level: str
) -> None:
    caplog.set_level("DEBUG")
    world.commit({T0: 1})
    world.log.error = error
    world.coordinator.delete("g")
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert said == [(level, f"group g: tombstones were not written: {error.name}")]
