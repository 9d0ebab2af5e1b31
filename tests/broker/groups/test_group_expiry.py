"""Which offsets are forgotten, and when (KIP-211)."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.broker.groups.group import InTransaction
from odradek.broker.groups.group_metadata import GroupMetadata, GroupState
from odradek.broker.groups.group_offsets import CommittedOffset, OffsetTable, expired
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import ErrorCode
from odradek.protocol.topic_names import PartitionKey

T0, U0 = ("t", 0), ("u", 0)
MINUTE = 60_000
CHECK = 10 * MINUTE


@pytest.fixture
def world(make_world):
    return make_world(offsets_retention_minutes=60)


def test_offsets_committed_by_hand_expire_after_their_commit(world):
    world.commit({T0: 1})
    world.clock.advance(59 * MINUTE)
    world.commit({U0: 2})
    world.clock.advance(CHECK)
    assert world.offsets() == {U0: 2}
    world.clock.advance(60 * MINUTE + CHECK)
    assert world.coordinator.list_groups([], [])[1] == []
    assert set(dict(world.log.records(world.coordinator.partition_for("g"))).values()) == {None}


def test_group_keeps_its_offsets_for_the_retention_after_it_became_empty(world):
    leader = world.stable(1, session_ms=1_800_000)[0]
    world.commit({T0: 1}, leader)
    for _ in range(10):
        world.clock.advance(20 * MINUTE)
        world.heartbeat(leader)
    world.leave(leader.member_id)
    world.clock.advance(59 * MINUTE)
    assert world.offsets() == {T0: 1}
    world.clock.advance(1 * MINUTE + CHECK)
    assert world.state() == "Dead"
    assert set(dict(world.log.records(world.coordinator.partition_for("g"))).values()) == {None}


def test_stable_group_keeps_subscribed_topics_and_loses_others(world):
    leader = world.stable(1, session_ms=1_800_000)[0]
    world.commit({T0: 1, U0: 1}, leader)
    for _ in range(4):
        world.clock.advance(20 * MINUTE)
        world.heartbeat(leader)
    assert world.offsets() == {T0: 1}


def test_unreadable_subscription_keeps_everything(world):
    leader = world.stable(1, session_ms=1_800_000, protocols=(("range", b"?"),))[0]
    world.commit({U0: 1}, leader)
    for _ in range(4):
        world.clock.advance(20 * MINUTE)
        world.heartbeat(leader)
    assert world.offsets() == {U0: 1}


def test_retention_of_the_request_overrides(world):
    now_ms = world.clock.now_ms()
    world.commit({T0: 1}, expire_ms=now_ms + 5 * MINUTE)
    world.commit({U0: 1}, expire_ms=now_ms + 500 * MINUTE)
    world.clock.advance(CHECK)
    assert world.offsets() == {U0: 1}
    world.clock.advance(480 * MINUTE)
    assert world.offsets() == {U0: 1}
    world.clock.advance(2 * CHECK)
    assert world.offsets() == {}


def test_commit_under_way_does_not_expire(world):
    world.commit({T0: 1})
    world.clock.advance(59 * MINUTE)
    world.log.held = True
    world.commit({T0: 2})
    world.clock.advance(2 * CHECK)
    world.log.acknowledge()
    assert world.offsets() == {T0: 2}


def test_group_without_anything_goes_away(world):
    world.join(version=4)
    world.clock.advance(CHECK)
    assert world.coordinator.list_groups([], [])[1] == []
    assert world.log.batches == {}


def test_nothing_expires_while_a_transaction_holds_a_later_commit(world):
    """The tombstone of the older one stood behind that, and compaction, which keeps the last of a key, removed it."""
    world.commit({T0: 1})
    world.clock.advance(50 * MINUTE)
    request = replace(world.commit_attempt({T0: 2}), transaction=InTransaction(7, 0))
    world.coordinator.commit("g", request, lambda errors: None)
    world.clock.advance(2 * CHECK)
    assert world.offsets() == {T0: 1}, "its time is over"
    partition = world.coordinator.partition_for("g")
    world.log.append(partition, encode_end_txn_marker(EndTxnMarker(True, 0), 0, 7, 0), 0, lambda error: None)
    world.coordinator.marker_appended(partition, 7, committed=True)(ErrorCode.NONE)
    assert world.offsets() == {T0: 2}
    assert None not in [value for _, value in world.log.records(partition)]
    successor = world.broker()
    successor.on_elected(partition, 1)
    world.clock.advance()
    assert successor.fetch_offsets("g", [T0], require_stable=True)[1][T0].offset == 2


@pytest.mark.parametrize(
    ("known", "over"),
    [
        ({"protocol_type": None}, [U0]),
        ({"protocol_type": "consumer", "state_since_ms": -1}, [U0]),  # it is not known since when it is empty
        ({"protocol_type": "consumer", "state_since_ms": 1000}, [T0, U0]),
        ({"protocol_type": "consumer", "state_since_ms": 1001}, []),
        ({"protocol_type": "consumer", "state": GroupState.STABLE, "subscribed_topics": frozenset("t")}, [U0]),
        ({"protocol_type": "consumer", "state": GroupState.STABLE, "subscribed_topics": frozenset("u")}, []),
        ({"protocol_type": "consumer", "state": GroupState.STABLE}, []),  # any topic may be one of its
        ({"protocol_type": "connect", "state": GroupState.STABLE}, []),
        *(
            ({"protocol_type": "consumer", "state": state, "subscribed_topics": frozenset("t")}, [])
            for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
        ),
    ],
)
def test_what_expires_where(known: dict[str, Any], over: list[PartitionKey]) -> None:
    """After 100 ms; T0 was committed 99 ms ago, U0 one earlier."""
    offsets = OffsetTable()
    offsets.load(T0, CommittedOffset(1, 1001), 0)
    offsets.load(U0, CommittedOffset(1, 1000), 1)
    assert expired(GroupMetadata("g", **known), offsets, 1100, 100) == over


def test_a_retention_that_the_client_asked_for_ends_on_the_millisecond() -> None:
    offsets = OffsetTable()
    offsets.load(T0, CommittedOffset(1, 1000, expire_timestamp_ms=1050), 0)
    assert [expired(GroupMetadata("g"), offsets, now_ms, 100) for now_ms in (1049, 1050)] == [[], [T0]]
