"""Members that join, sync, die, restart and commit at random, over a log that is slow, fails, and changes hands.

Checked all the time: every request is answered at most once; all members that are given an assignment of one generation
are given it by one leader; generations that are handed out never go back; an acknowledged commit is never lost. In the
end, when the trouble is over: every request has been answered, the group is stable, everybody has the same generation
and an assignment, and no timer is left but those of the members' sessions.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from odradek.broker.groups.group_effects import JoinResult, SyncRequest, SyncResult
from odradek.protocol.errors import ErrorCode

GROUP = "g"
PARTITION = ("t", 0)
TROUBLE = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER]
NEW_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
STEPS = 250


@dataclass
class Client:
    """Does what a consumer does. A life ends with a death or a restart; answers to an earlier one reach nobody."""

    run: "Run"
    instance_id: str | None
    version: int
    alive: bool = True
    life: int = 0
    busy: bool = False
    member_id: str = ""
    joined: JoinResult | None = None
    synced: bool = False

    def act(self) -> None:
        """The next thing a consumer would do."""
        if not self.alive or self.busy:
            return
        if self.joined is None:
            self.join()
        elif not self.synced:
            self.sync()
        elif self.run.random.random() < 0.5:
            self.commit()
        else:
            generation = self.joined.generation
            self.told(self.run.world.coordinator.heartbeat(GROUP, self.member_id, self.instance_id, generation))

    def join(self) -> None:
        attempt = self.run.world.attempt(
            member_id=self.member_id,
            instance_id=self.instance_id,
            version=self.version,
            rebalance_ms=self.run.random.choice([3_000, 8_000, 20_000]),
        )
        self.run.world.coordinator.join(GROUP, attempt, self.request(self.on_joined))

    def on_joined(self, result: JoinResult) -> None:
        if result.error is ErrorCode.NONE:
            assert result.generation >= self.run.newest_generation
            self.joined, self.synced = result, False
        if result.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = result.member_id
        self.told(result.error)

    def sync(self) -> None:
        joined = self.joined
        assert joined is not None
        word = f"{joined.generation} by {joined.member_id} {self.run.random.random()}".encode()
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        assignments = {one.member_id: word for one in joined.members} if leads else {}
        attempt = SyncRequest(joined.member_id, self.instance_id, joined.generation, None, None, assignments)
        self.run.world.coordinator.sync(GROUP, attempt, self.request(self.on_synced))

    def on_synced(self, result: SyncResult) -> None:
        if result.error is ErrorCode.NONE:
            assert self.joined is not None
            self.synced = True
            self.run.assigned(self.joined.generation, result.assignment)
        self.told(result.error)

    def commit(self) -> None:
        run = self.run
        run.offset += 1
        offset = run.offset

        def on_committed(errors: dict[tuple[str, int], ErrorCode]) -> None:
            if errors[PARTITION] is ErrorCode.NONE:
                run.acknowledged = max(run.acknowledged, offset)
            self.told(errors[PARTITION])

        attempt = run.commit_attempt(self.joined, offset)
        attempt = replace(attempt, instance_id=self.instance_id)
        run.world.coordinator.commit(GROUP, attempt, self.request(on_committed))

    def told(self, error: ErrorCode) -> None:
        if error in NEW_ID:
            self.member_id = ""
        if error is not ErrorCode.NONE:
            self.joined, self.synced = None, False

    def request(self, then: Any) -> Any:
        """The ticket of a request: to be answered once, whether anybody still listens or not."""
        self.busy = True
        life = self.life
        number = self.run.ask()

        def answer(result: Any) -> None:
            self.run.answered(number)
            if self.life == life:
                self.busy = False
                then(result)

        return answer

    def end_life(self, *, restart: bool) -> None:
        self.life += 1
        self.alive, self.busy = restart, False
        self.member_id, self.joined, self.synced = "", None, False


@dataclass
class Run:
    """One seed."""

    world: Any
    random: Random
    clients: list[Client] = field(default_factory=list)
    open_requests: set[int] = field(default_factory=set)
    asked: int = 0
    words: dict[int, bytes] = field(default_factory=dict)
    newest_generation: int = 0
    offset: int = 0
    acknowledged: int = -1
    epoch: int = 0

    def ask(self) -> int:
        self.asked += 1
        self.open_requests.add(self.asked)
        return self.asked

    def answered(self, number: int) -> None:
        assert number in self.open_requests, "answered twice"
        self.open_requests.remove(number)

    def assigned(self, generation: int, word: bytes) -> None:
        assert generation >= self.newest_generation, "a generation came back"
        self.newest_generation = generation
        if word:
            assert self.words.setdefault(generation, word) == word, "two assignments of one generation"

    def commit_attempt(self, joined: JoinResult | None, offset: int) -> Any:
        return self.world.commit_attempt({PARTITION: offset}, joined)

    def acknowledge_some(self, trouble: float) -> None:
        """Some appends end, in any order, a few of them badly."""
        waiting = self.world.log.waiting
        for done in [done for done in waiting if self.random.random() < 0.6]:
            waiting.remove(done)
            done(self.random.choice(TROUBLE) if self.random.random() < trouble else ErrorCode.NONE)

    def move(self) -> None:
        """Another broker becomes the coordinator."""
        self.world.coordinator.stop()
        self.epoch += 1
        self.world.coordinator = self.world.broker()
        for partition in range(2):
            self.world.coordinator.on_elected(partition, self.epoch)

    def step(self) -> None:
        chance = self.random.random()
        client = self.random.choice(self.clients)
        if chance < 0.04:
            client.end_life(restart=client.alive)
            client.alive = self.random.random() < 0.6
        elif chance < 0.06 and client.member_id:
            self.world.coordinator.leave(GROUP, [(client.member_id, client.instance_id)])
            client.end_life(restart=True)
        elif chance < 0.065:
            self.move()
        else:
            client.act()
        self.acknowledge_some(0.1)
        self.world.clock.advance(self.random.choice([0, 1, 50, 300, 1000, 4000]))
        self.check_offsets()

    def check_offsets(self) -> None:
        error, fetched = self.world.coordinator.fetch_offsets(GROUP, [PARTITION], require_stable=False)
        if error is ErrorCode.NONE:
            assert fetched[PARTITION].offset >= self.acknowledged, "an acknowledged commit is lost"

    def settle(self) -> None:
        for client in self.clients:
            client.alive = True
        for _ in range(150):
            self.world.log.acknowledge()
            for client in self.clients:
                client.act()
            self.world.clock.advance(1000)
        self.world.log.acknowledge()


@pytest.mark.parametrize("seed", range(20))
def test_random_group(make_world, seed):
    world = make_world(seed=seed, group_initial_rebalance_delay_ms=seed % 3 * 1000)
    world.log.held = True
    run = Run(world, Random(seed))
    for number in range(5):
        instance_id = f"static-{number}" if number % 2 else None
        run.clients.append(Client(run, instance_id, version=[3, 5, 9, 9, 4][number]))
    for _ in range(STEPS):
        run.step()
    run.settle()
    assert not run.open_requests
    described = world.describe(GROUP)
    assert described.group_state == "Stable"
    assert {member.member_id for member in described.members} == {client.member_id for client in run.clients}
    assert len({client.joined.generation for client in run.clients if client.joined}) == 1
    assert all(client.synced for client in run.clients)
    assert all(member.member_assignment for member in described.members)
    assert run.acknowledged > 0
    assert world.offsets()[PARTITION] >= run.acknowledged
    assert world.clock.outstanding == len(run.clients) + 1  # sessions, and the check for expired offsets
