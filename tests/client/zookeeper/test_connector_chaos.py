"""A group under load whose members are killed and joined at random: one owner for each partition, nothing lost."""

import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from odradek.testing.balanced_group import BalancedGroup
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster, pytest.mark.timeout(900)]

SEED = int(os.environ.get("ODRADEK_CHAOS_SEED", "20140601"))
ROUNDS = int(os.environ.get("ODRADEK_CHAOS_ROUNDS", "4"))
"""`make night` plays more of them. A round takes about eight seconds: ZooKeeper misses the dead after six."""
PARTITIONS, MEMBERS = 20, 4
CHUNK, CHUNK_SECONDS, WINDOW = 20, 0.1, 80
"""What is sent at a time, how often, and how many messages are looked at in a quiet moment."""
FEWEST, MOST = 2, 6
ACTIONS = range(2, 6)
"""How many are killed or started in one round."""

Program = Any
"""conftest.Program."""
Group = Any
"""conftest.ReadingGroup."""
Reads = dict[tuple[int, int], list[Program]]


class Chaos:
    """What happens to the group, and what was committed when somebody was killed."""

    def __init__(self, group: Group, znodes: BalancedGroup) -> None:
        self.group, self.znodes = group, znodes
        self.random = random.Random(SEED)
        self.living: list[Program] = []
        self.committed_at_death: dict[Program, dict[int, int]] = {}
        """Of what a dead member owned: partition → the offset committed last. What is behind it may be read again."""

    def start(self) -> None:
        self.living.append(self.group.start())

    def kill(self) -> None:
        """SIGKILL. Its owner znodes stand until ZooKeeper misses it, so that nobody else commits meanwhile.

        Where ZooKeeper has missed it before everything was read, what was committed before counts, of all partitions.
        """
        victim = self.living.pop(self.random.randrange(len(self.living)))
        before = self.znodes.offsets()
        victim.kill()
        owners, offsets = self.znodes.owners(), self.znodes.offsets()
        if victim.name in self.znodes.members():
            own = [partition for partition, owner in owners.items() if owner == victim.name]
        else:
            own, offsets = list(range(PARTITIONS)), before
        self.committed_at_death[victim] = {partition: offsets.get(partition, 0) for partition in own}

    def act(self) -> None:
        """Some deaths and births, at places of the load that only the seed knows."""
        for _ in range(self.random.choice(ACTIONS)):
            may_kill, may_start = len(self.living) > FEWEST, len(self.living) < MOST
            if may_kill and (not may_start or self.random.random() < len(self.living) / (MEMBERS * 2)):
                self.kill()
            else:
                self.start()
            reached = self.group.sent + self.random.randrange(CHUNK, CHUNK * 12)
            wait_until(lambda reached=reached: self.group.sent >= reached, "the load goes on")

    def check_quiet(self) -> None:
        """Every partition has one owner, each of the living has some, and the owner alone reads what comes now."""
        names = {member.name for member in self.living}
        assert len(names) == len(self.living)
        wait_until(self._is_settled, f"one living owner for every partition; they are {sorted(names)}")
        owners = self.znodes.owners()
        marks = {member: len(member.read) for member in self.living}
        # A chunk may be on its way since before the group was quiet.
        first = self.group.sent + CHUNK
        window = range(first, first + WINDOW)

        def read_now() -> list[tuple[int, str]]:
            return [(v, one.name) for one, mark in marks.items() for _, _, v in one.read[mark:] if v in window]

        wait_until(lambda: {value for value, _ in read_now()} == set(window), "what comes now is read")
        assert sorted(read_now()) == [(value, owners[value % PARTITIONS]) for value in window]
        assert self.znodes.owners() == owners

    def _is_settled(self) -> bool:
        """The dead are forgotten, and everything is shared among the living."""
        names = {member.name for member in self.living}
        owners = self.znodes.owners()
        return set(self.znodes.members()) == names == set(owners.values()) and len(owners) == PARTITIONS

    def check_repeats(self) -> int:
        """What was read more than once was read in vain by members who died before it was committed; how many."""
        found: Reads = defaultdict(list)
        for program in self.group.programs:
            for partition, offset, _ in program.read:
                found[partition, offset].append(program)
        for place, readers in found.items():
            for_good = [one for one in readers if not self._died_before_commit(one, *place)]
            assert len(for_good) <= 1, f"partition, offset {place} was committed and came again: " + "".join(
                f"\n{one.name}: {one.errors.read_text()}" for one in for_good
            )
        return sum(len(readers) - 1 for readers in found.values())

    def _died_before_commit(self, reader: Program, partition: int, offset: int) -> bool:
        committed = self.committed_at_death.get(reader, {})
        return partition in committed and offset >= committed[partition]


@contextmanager
def load(group: Group) -> Iterator[None]:
    """Messages without end."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(CHUNK_SECONDS):
            group.send(CHUNK)

    sender = threading.Thread(target=run)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


@pytest.fixture
def chaos(cluster: UpCluster, group: Group) -> Iterator[Chaos]:
    with BalancedGroup(cluster.zookeeper, f"g-{group.topic}", group.topic) as znodes:
        yield Chaos(group, znodes)


@pytest.mark.parametrize("group", [PARTITIONS], ids=["partitions"], indirect=True)
def test_members_killed_and_started_at_random_under_load(chaos: Chaos) -> None:
    group = chaos.group
    for _ in range(MEMBERS):
        chaos.start()
    with load(group):
        for _ in range(ROUNDS):
            wait_until(lambda: all(member.ready for member in chaos.living), "all have joined")
            chaos.check_quiet()
            chaos.act()
        wait_until(lambda: all(member.ready for member in chaos.living), "all have joined")
        chaos.check_quiet()
    group.wait_all_read("everything, in the end")
    group.check_order()
    for program in group.programs:
        assert all(value == offset * PARTITIONS + partition for partition, offset, value in program.read)
    assert len(chaos.committed_at_death) >= ROUNDS, "enough were killed"
    repeated = chaos.check_repeats()
    assert repeated == group.repeated
    for member in chaos.living:
        member.end()
    assert (chaos.znodes.members(), chaos.znodes.owners()) == ([], {}), "all have left"
    ends = {partition: len(range(partition, group.sent, PARTITIONS)) for partition in range(PARTITIONS)}
    assert chaos.znodes.offsets() == ends, "everything is committed"
