"""Many members on the in-memory ZooKeeper under a seeded adversary.

Whenever a member starts to read a partition: it owns it by ZooKeeper's word, nobody else whose session lives reads it,
and no message was passed over. At each quiet moment: every partition has exactly one owner, who reads it, and members
agree with the assignment that Kafka's rule gives.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence

import pytest

from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.member import Member
from odradek.client.zookeeper.offset_storage import OffsetKeeper, ZooKeeperOffsets
from odradek.client.zookeeper.subscriptions import consumer_of
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import Create, Delete, SetData, Store
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path
from odradek.zk_schema.znodes.consumers import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    ConsumerRegistration,
    consumer_ids_path,
    offset_path,
    owner_path,
)
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment, topic_path

GROUP = "g"
SESSION_TIMEOUT_MS = 6_000
QUIET_MS = 40_000


class SimulatedReading:
    """Reads a message of each partition every 100 ms of virtual time, and notes what it has read."""

    def __init__(self, world: "World", consumer_id: str) -> None:
        self.world = world
        self.consumer_id = consumer_id
        self.store: Store
        self.keeper: OffsetKeeper
        self.partitions: dict[TopicPartition, str] = {}
        self.positions: dict[TopicPartition, int] = {}

    def start(self, partitions: Mapping[TopicPartition, str]) -> None:
        assert not self.partitions
        for name, thread in partitions.items():
            self.world.check_start(self, name, thread)
            self.positions[name] = self.keeper.stored.get(name, 0)
            assert self.positions[name] <= self.world.seen.get(name, 0), (name, self.positions[name])
        self.partitions = dict(partitions)

    def tick(self) -> None:
        for name in self.partitions:
            self.positions[name] += 1
            if self.positions[name] <= self.world.seen.get(name, 0):
                self.world.duplicates += 1
            self.world.seen[name] = max(self.world.seen.get(name, 0), self.positions[name])

    async def stop(self, patience_ms: float) -> None:
        self.partitions = {}
        await asyncio.sleep(self.world.random.uniform(0, patience_ms / 1_000))

    def given_up(self) -> None:
        self.positions = {}

    def abandon(self) -> None:
        self.partitions, self.positions = {}, {}

    def consumed(self, *, in_hand: bool) -> dict[TopicPartition, int]:
        return dict(self.positions)


class SimulatedMember:
    def __init__(self, world: "World", number: int, registration: ConsumerRegistration) -> None:
        self.world = world
        self.registration = registration
        consumer_id = f"{GROUP}_host-{number}"
        self.store = world.zookeeper.connect(session_timeout_ms=SESSION_TIMEOUT_MS)
        self.reading = SimulatedReading(world, consumer_id)
        self.reading.store = self.store
        self.reading.keeper = keeper = OffsetKeeper(ZooKeeperOffsets(self.store, GROUP))
        self.member = Member(
            self.store, world.clock, world.settings, consumer_id, self.reading, keeper, world.brokers_seen
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.store.start(1_000)
        self.member.join(self.registration)
        self.tasks = [asyncio.ensure_future(self.member.run()), asyncio.ensure_future(self._tick())]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self.reading.tick()

    def end_tasks(self) -> None:
        for task in self.tasks:
            assert not task.done(), task
            task.cancel()

    async def leave(self) -> None:
        """As ConsumerConnector.shutdown does."""
        self.end_tasks()
        self.reading.partitions = {}
        if self.store.connected:
            await self.member.commit()
        await self.store.close()

    def crash(self) -> None:
        self.end_tasks()
        self.reading.abandon()
        self.world.zookeeper.crash(self.store)


class World:
    def __init__(self, clock: VirtualClock, seed: int, strategy: str) -> None:
        self.clock = clock
        self.random = random.Random(seed)
        self.zookeeper = MemoryZooKeeper(clock, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.settings = settings_of(
            {"zookeeper.connect": "memory:1", "group.id": GROUP, "partition.assignment.strategy": strategy}, {}
        )
        self.members: list[SimulatedMember] = []
        self.topics: dict[str, int] = {}
        self.brokers: set[int] = set()
        self.seen: dict[TopicPartition, int] = {}
        self.duplicates = 0
        self._made = 0
        self.zookeeper.commit([Create("/brokers"), Create("/brokers/ids"), Create("/brokers/topics")], 0)
        self.add_broker()
        for topic, count in (("t1", 5), ("t2", 3)):
            self.set_topic(topic, count)

    def brokers_seen(self, addresses: Sequence[str]) -> None:
        assert all(address.startswith("host") for address in addresses)

    def check_start(self, reading: SimulatedReading, name: TopicPartition, thread: str) -> None:
        node = self.zookeeper.tree.get(owner_path(GROUP, *name))
        assert node is not None, f"{reading.consumer_id} reads {name} without owning it"
        if self.zookeeper.has_session(reading.store.session_id):
            assert (node.data, node.stat().ephemeral_owner) == (thread.encode(), reading.store.session_id)
        for other in self.members:
            if other.reading is not reading and self.zookeeper.has_session(other.store.session_id):
                assert name not in other.reading.partitions, f"{name}: two owners"

    # What happens to it.

    def set_topic(self, topic: str, count: int) -> None:
        data = TopicAssignment({n: PartitionReplicas((0,)) for n in range(count)}, None).encode()
        path = topic_path(topic)
        self.zookeeper.commit([SetData(path, data) if topic in self.topics else Create(path, data)], 0)
        self.topics[topic] = count

    def add_broker(self) -> None:
        number = len(self.brokers) + 1
        if broker_path(number) not in self.zookeeper.paths():
            registration = BrokerRegistration(number, (Endpoint("PLAINTEXT", f"host{number}", 9092),))
            self.zookeeper.commit([Create(broker_path(number), registration.encode())], 0)
            self.brokers.add(number)

    def remove_broker(self) -> None:
        number = max(self.brokers)
        self.brokers.discard(number)
        self.zookeeper.commit([Delete(broker_path(number))], 0)

    def some_registration(self) -> ConsumerRegistration:
        threads = self.random.randint(1, 3)
        return self.random.choice(
            [
                ConsumerRegistration({"t1": threads, "t2": threads}, STATIC),
                ConsumerRegistration({"t1": threads}, STATIC),
                ConsumerRegistration({"t.*": threads}, WHITE_LIST),
                ConsumerRegistration({"nothing": threads}, BLACK_LIST),
            ]
        )

    async def add_member(self, registration: ConsumerRegistration | None = None) -> None:
        self._made += 1
        self.members.append(member := SimulatedMember(self, self._made, registration or self.some_registration()))
        await member.start()

    async def one_event(self) -> None:
        some = self.random.choice(self.members) if self.members else None
        what = self.random.choice(
            [
                "add",
                "add",
                "leave",
                "crash",
                "expire",
                "expire",
                "cut",
                "lose",
                "lose",
                "topic",
                "grow",
                "broker",
                "away",
            ]
        )
        if what == "add" or some is None:
            if len(self.members) < 6 and self.zookeeper.serving:
                await self.add_member()
        elif what == "leave" and some.store.connected:
            self.members.remove(some)
            await some.leave()
        elif what == "crash":
            self.members.remove(some)
            some.crash()
        elif what == "expire" and self.zookeeper.has_session(some.store.session_id):
            self.zookeeper.expire_session(some.store.session_id)
        elif what == "cut" and some.store.link_up:
            self.zookeeper.partition(some.store)
            for_ms = self.random.choice([10, SESSION_TIMEOUT_MS / 2, 2 * SESSION_TIMEOUT_MS])
            self.clock.call_later(for_ms, lambda: self.zookeeper.heal(some.store))
        elif what == "lose":
            some.store.lose_next_answer()
        elif what == "topic" and len(self.topics) < 5:
            self.set_topic(f"t{len(self.topics) + 1}", self.random.randint(1, 6))
        elif what == "grow":
            topic = self.random.choice(sorted(self.topics))
            self.set_topic(topic, min(self.topics[topic] + 1, 9))
        elif what == "broker":
            self.remove_broker() if len(self.brokers) > 1 else self.add_broker()
        elif what == "away":
            self.zookeeper.stop()
            await asyncio.sleep(self.random.uniform(0.1, 9))
            self.zookeeper.restart()

    # What must be true.

    def check_quiet(self) -> None:
        subscribed = {topic for topic in ("t1", "t2") if self.members}
        if any(one.registration.pattern != STATIC for one in self.members):
            subscribed = set(self.topics)
        elif not any("t2" in one.registration.subscription for one in self.members):
            subscribed.discard("t2")
        wanted = {TopicPartition(topic, n) for topic in subscribed for n in range(self.topics[topic])}
        owners = {name: self.zookeeper.tree.get(owner_path(GROUP, *name)) for name in wanted}
        assert [name for name, node in owners.items() if node is None] == [], "unowned"
        read = [(name, one) for one in self.members for name in one.reading.partitions]
        assert sorted(name for name, _ in read) == sorted(wanted), "each partition is read once"
        for name, one in read:
            node = owners[name]
            assert node is not None
            assert consumer_of(node.data.decode()) == one.reading.consumer_id
            assert one.reading.partitions[name] == node.data.decode()
        for one in self.members:
            assert one.member.balance.settled


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("seed", range(5))
def test_one_owner_for_each_partition_at_each_quiet_moment(seed: int, strategy: str) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, seed, strategy)
        for _ in range(3):
            await world.add_member()
        for _ in range(8):
            for _ in range(world.random.randint(1, 6)):
                await world.one_event()
                await asyncio.sleep(world.random.choice([0, 0.001, 0.1, 3]))
            await asyncio.sleep(QUIET_MS / 1_000)
            world.check_quiet()

    run_virtual(main)


def test_members_that_come_and_go_in_peace_lose_and_repeat_nothing() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, 1, "range")
        for _ in range(4):
            await world.add_member()
            await asyncio.sleep(5)
        while world.members:
            await world.members.pop(0).leave()
            await asyncio.sleep(5)
        assert world.duplicates == 0
        assert min(world.seen[TopicPartition("t1", n)] for n in range(5)) > 200
        for n in range(5):
            stored = world.zookeeper.data(offset_path(GROUP, "t1", n))
            assert int(stored) == world.seen[TopicPartition("t1", n)]

    run_virtual(main)


def test_a_member_that_leaves_hands_over_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, 1, "range")
        await world.add_member(ConsumerRegistration({"t1": 1}))
        await world.add_member(ConsumerRegistration({"t1": 1}))
        await asyncio.sleep(10)
        world.check_quiet()
        await world.members.pop(0).leave()
        await asyncio.sleep(1.1)
        world.check_quiet()

    run_virtual(main)


def test_an_owner_that_stays_too_long_is_outlasted() -> None:
    """Kafka's consumer gives up after rebalance.max.retries and leaves the partition unowned when its owner goes."""

    async def main(clock: VirtualClock) -> None:
        world = World(clock, 1, "range")
        stubborn = world.zookeeper.connect()
        await stubborn.start(1_000)
        await stubborn.create(owner_path(GROUP, "t1", 2), b"g_old-0", ephemeral=True, parents=True)
        await world.add_member(ConsumerRegistration({"t1": 1}))
        await asyncio.sleep(100)
        assert world.members[0].reading.partitions == {}
        assert [path for path in world.zookeeper.paths("/consumers/g/owners") if path[-1].isdigit()][1:] == [
            owner_path(GROUP, "t1", 2)
        ]
        await stubborn.delete(owner_path(GROUP, "t1", 2))
        await asyncio.sleep(0.1)
        world.check_quiet()

    run_virtual(main)


def test_a_registration_that_is_taken_away_comes_back() -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, 1, "range")
        await world.add_member(ConsumerRegistration({"t1": 1}))
        await asyncio.sleep(1)
        world.zookeeper.commit([Delete(f"{consumer_ids_path(GROUP)}/g_host-1")], 0)
        world.zookeeper.commit([Delete(owner_path(GROUP, "t1", 3))], 0)
        await asyncio.sleep(5)
        world.check_quiet()

    run_virtual(main)


def test_what_an_earlier_session_of_ours_has_left_is_no_obstacle() -> None:
    """The session counts as lost here before ZooKeeper has ended it: its znodes are still there."""

    async def main(clock: VirtualClock) -> None:
        world = World(clock, 1, "range")
        await world.add_member(ConsumerRegistration({"t1": 1}))
        await asyncio.sleep(1)
        before = world.members[0].store.session_id
        tree = world.zookeeper.tree
        left = {path: tree.node(path).data for path in tree.ephemerals(before)}
        assert len(left) == 6
        world.zookeeper.expire_session(before)
        for path, data in left.items():
            world.zookeeper.commit([Create(path, data, ephemeral=True)], before)
        await asyncio.sleep(5)
        world.check_quiet()
        assert world.members[0].store.session_id != before

    run_virtual(main)
