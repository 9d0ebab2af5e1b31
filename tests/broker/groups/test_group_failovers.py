"""Coordinators that die one after the other: no group waits longer than the rules of Apache Kafka 3.9 say.

Those are GroupCoordinator.onGroupLoaded's: a new coordinator knows the members of the last stored generation, takes all
of them for alive, and gives each a full session. A rebalance that had begun is lost with whatever was not stored; it
begins anew, with its full time, when the first member joins again. So a dead member is waited for until its session has
passed without another failover, and nobody is waited for who never got an assignment.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from odradek.broker.groups.group_effects import JoinResult, SyncResult
from odradek.protocol.errors import ErrorCode
from tests.broker.groups.conftest import REBALANCE_MS, SESSION_MS

KILLS_MS = 20_000
SECOND_MS = 1_000


@dataclass
class Member:
    """A consumer: sends a heartbeat each second, joins again when told to, and syncs."""

    world: Any
    member_id: str = ""
    joining: list[JoinResult] | None = None
    joined: JoinResult | None = None
    syncing: list[SyncResult] | None = None
    rejoins: bool = True
    """Whether it stops its work for a rebalance; one that does not is alive all the same."""

    @property
    def settled(self) -> bool:
        return self.joined is not None and self.joining is None and self.syncing is None

    def lose_connection(self) -> None:
        """The coordinator has died with the requests that waited there."""
        if self.joining == [] or self.syncing == []:
            self.joining = self.syncing = self.joined = None

    def act(self) -> None:
        if self.settled and self.world.heartbeat(self.joined) is not ErrorCode.NONE and self.rejoins:
            self.joined = None
        while not self.settled and self.joining != [] and self.syncing != []:
            if self.joining:
                self.on_joined(self.world.only(self.joining))
            elif self.syncing:
                self.on_synced(self.world.only(self.syncing))
            else:
                self.joining = self.world.join(member_id=self.member_id, version=4)

    def on_joined(self, result: JoinResult) -> None:
        self.joining = None
        if result.error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID):
            self.member_id = result.member_id if result.error is ErrorCode.MEMBER_ID_REQUIRED else ""
        elif result.error is ErrorCode.NONE:
            self.joined, self.member_id = result, result.member_id
            assignments = {one.member_id: b"its own" for one in result.members}
            self.syncing = self.world.sync(result, assignments)

    def on_synced(self, result: SyncResult) -> None:
        self.syncing = None
        if result.error is not ErrorCode.NONE:
            self.joined = None


def kill(world, members):
    """The coordinator dies, and another broker leads its partition at once."""
    for member in members:
        member.lose_connection()
    world.coordinator.stop()
    world.coordinator = world.broker()
    for partition in range(2):
        world.coordinator.on_elected(partition, 1)
    world.clock.advance()


def live(world, members, time_ms):
    """Let time pass second by second."""
    for _ in range(0, time_ms, SECOND_MS):
        for member in members:
            member.act()
        world.clock.advance(SECOND_MS)


def settle(world, members, limit_ms=600_000):
    """Return after how many milliseconds all members have their assignments of one generation."""
    for waited_ms in range(0, limit_ms, SECOND_MS):
        if all(member.settled for member in members) and world.state() == "Stable":
            assert len({member.joined.generation for member in members}) == 1
            return waited_ms
        live(world, members, SECOND_MS)
    raise AssertionError((world.state(), members))


@pytest.fixture
def members(world):
    """Three members of a stable group."""
    three = [Member(world) for _ in range(3)]
    settle(world, three)
    live(world, three, SESSION_MS)
    assert len(world.describe().members) == 3
    return three


def test_ten_failovers_disturb_nobody_who_lives(world, members):
    generation = members[0].joined.generation
    for _ in range(10):
        live(world, members, KILLS_MS)
        kill(world, members)
    live(world, members, SECOND_MS)
    assert all(member.settled for member in members)
    assert {member.joined.generation for member in members} == {generation}


@pytest.mark.parametrize("seconds", range(6))
def test_a_rebalance_that_its_coordinator_did_not_survive_begins_anew_at_once(world, members, seconds):
    everyone = [*members, Member(world)]
    live(world, everyone, seconds * SECOND_MS)
    kill(world, everyone)
    assert settle(world, everyone) <= 3 * SECOND_MS
    assert len(world.describe().members) == 4


def test_a_dead_member_is_waited_for_while_failovers_follow_one_another_within_its_session(world, members):
    living = [*members[1:], Member(world)]
    for _ in range(10):
        kill(world, living)
        live(world, living, SESSION_MS - SECOND_MS)
        assert not living[-1].settled
    assert settle(world, living) <= 3 * SECOND_MS
    assert len(world.describe().members) == 3


def test_a_dead_member_is_out_after_its_session_when_failovers_are_further_apart(world, members):
    living = [*members[1:], Member(world)]
    kill(world, living)
    assert SESSION_MS - SECOND_MS <= settle(world, living) <= SESSION_MS + SECOND_MS
    for _ in range(3):
        kill(world, living)
        live(world, living, KILLS_MS)
        assert all(member.settled for member in living)


def test_nobody_is_waited_for_who_died_before_the_first_assignment(world, members):
    stillborn = Member(world)
    live(world, [stillborn], 3 * SECOND_MS)
    assert stillborn.joining == []
    kill(world, [*members, stillborn])
    assert settle(world, members) == 0
    assert len(world.describe().members) == 3


def test_a_member_that_works_on_is_waited_for_from_the_first_join_on_the_last_coordinator(world, members):
    members[0].rejoins = False
    everyone = [*members, Member(world)]
    rest = everyone[1:]
    for _ in range(3):
        live(world, everyone, KILLS_MS)
        assert not rest[-1].settled
        kill(world, everyone)
    live(world, everyone, REBALANCE_MS - SECOND_MS)
    assert not rest[-1].settled
    live(world, everyone, 2 * SECOND_MS)
    assert all(member.settled for member in rest)
    assert len(world.describe().members) == 3
