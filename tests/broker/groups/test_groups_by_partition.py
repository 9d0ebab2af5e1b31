"""Groups in several partitions of `__consumer_offsets`: a resignation, or a marker, is for those of one."""

import pytest

from odradek.broker.groups.group import CommitRequest, InTransaction
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.protocol.errors import ErrorCode

T0 = ("t", 0)
STAYS, GOES = "g", "h"


@pytest.fixture(autouse=True)
def names_in_two_partitions(world):
    assert world.coordinator.partition_for(STAYS) != world.coordinator.partition_for(GOES)


def test_groups_of_other_partitions_stay(world):
    member = world.stable(1, STAYS)[0]
    for group in (STAYS, GOES):
        world.commit({T0: 5}, member if group == STAYS else None, group)
    world.coordinator.on_resigned(world.coordinator.partition_for(GOES))
    assert (world.offsets(STAYS), world.state(STAYS)) == ({T0: 5}, "Stable")
    assert world.heartbeat(member, STAYS) is ErrorCode.NONE
    assert world.coordinator.fetch_offsets(GOES, None, require_stable=False)[0] is ErrorCode.NOT_COORDINATOR


def test_transactions_of_other_partitions_end_with_their_markers(world):
    for group in (STAYS, GOES):
        request = CommitRequest("", None, -1, {T0: CommittedOffset(5, 0)}, InTransaction(7, 0))
        world.coordinator.commit(group, request, lambda errors: None)
    goes = world.coordinator.partition_for(GOES)
    world.coordinator.on_resigned(goes)
    world.coordinator.marker_appended(goes, 7, committed=True)(ErrorCode.NONE)
    assert world.offsets(STAYS) == {}
    world.coordinator.marker_appended(world.coordinator.partition_for(STAYS), 7, committed=True)(ErrorCode.NONE)
    assert world.offsets(STAYS) == {T0: 5}


def test_a_transaction_that_has_ended_is_not_looked_at_any_more(world):
    """However many producers there have been."""
    for group in (STAYS, GOES):
        request = CommitRequest("", None, -1, {T0: CommittedOffset(5, 0)}, InTransaction(7, 0))
        world.coordinator.commit(group, request, lambda errors: None)
    known = world.coordinator._transactions
    assert sum(map(len, known.values())) == 2
    partitions = {world.coordinator.partition_for(group) for group in (STAYS, GOES)}
    for error, left in ((ErrorCode.NOT_LEADER_OR_FOLLOWER, 2), (ErrorCode.NONE, 0)):
        for partition in partitions:
            world.coordinator.marker_appended(partition, 7, committed=True)(error)
        assert sum(map(len, known.values())) == left
    assert known == {}


def test_nobody_is_served_after_the_end(world):
    world.commit({T0: 5}, group=STAYS)
    coordinator = world.coordinator
    coordinator.stop()
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.delete(STAYS) is coordinator.fetch_offsets(STAYS, None, require_stable=False)[0] is away
    assert coordinator.delete_offsets(STAYS, [T0]) == (away, {})
    assert world.only(world.commit({T0: 6}, group=STAYS)) == {T0: away}
    assert coordinator.list_groups([], [])[0] is away
