"""Reading and claiming on the in-memory ZooKeeper."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import ClassVar

import pytest

from odradek.client.records import TopicPartition
from odradek.client.zookeeper.group_store import GroupStore
from odradek.client.zookeeper.groups import group_in_zookeeper
from odradek.client.zookeeper.offset_storage import DualOffsets, OffsetKeeper, ZooKeeperOffsets
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import (
    ANY_VERSION,
    Create,
    NodeExists,
    NotAuthorized,
    SessionExpired,
    Stat,
    WatchFired,
)
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint
from odradek.zk_schema.znodes.consumers import ConsumerRegistration, offset_path, owner_path
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Test = Callable[[MemoryZooKeeper, MemoryStore], Awaitable[None]]


def on_zookeeper(test: Test) -> None:
    async def main(clock: VirtualClock) -> None:
        zookeeper = MemoryZooKeeper(clock)
        store = zookeeper.connect()
        await store.start(1_000)
        await test(zookeeper, store)

    run_virtual(main)


def group_store(store: MemoryStore, consumer_id: str = "g_a") -> GroupStore:
    return GroupStore(store, "g", consumer_id, "range", exclude_internal=True)


def test_the_registration_is_kafkas() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        await group_store(store).register(ConsumerRegistration({"t": 2}, "static", 1416341255235))
        assert zookeeper.data("/consumers/g/ids/g_a") == (
            b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1416341255235"}'
        )
        assert zookeeper.tree.node("/consumers/g/ids/g_a").stat().ephemeral_owner == store.session_id

    on_zookeeper(test)


def test_the_listener_of_a_broker_is_the_one_with_the_protocol(caplog: pytest.LogCaptureFixture) -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        endpoints = (Endpoint("INSIDE", "in", 1), Endpoint("OUTSIDE", "out", 2, "SASL_SSL"))
        data = BrokerRegistration(0, endpoints).encode()
        await store.create("/brokers/ids/0", data, parents=True)
        for protocol, address in (("PLAINTEXT", ["in:1"]), ("SASL_SSL", ["out:2"]), ("SSL", [])):
            group = GroupStore(store, "g", "g_a", "range", exclude_internal=True, security_protocol=protocol)
            assert list((await group.read([])).brokers) == address
        assert [one.getMessage() for one in caplog.records] == ["g_a: no broker has a listener with SSL"]

    on_zookeeper(test)


def registered(host: str, port: int) -> bytes:
    return BrokerRegistration(7, (Endpoint("INSIDE", host, port),)).encode()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("7", b"{}"),
        ("9" * 5000, b"{}"),
        ("x", b""),
        ("7", registered("", 1)),  # of its address the second reading thought that it was in use
        ("7", registered("in", 0)),
    ],
)
def test_a_broker_that_cannot_be_understood_stops_no_group(name: str, data: bytes) -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        good = BrokerRegistration(0, (Endpoint("INSIDE", "in", 1),)).encode()
        await store.create("/brokers/ids/0", good, parents=True)
        await store.create(f"/brokers/ids/{name}", data)
        assert list((await group_store(store).read([])).brokers) == ["in:1"]

    on_zookeeper(test)


def test_an_id_that_somebody_else_has_is_refused() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        other = zookeeper.connect()
        await other.start(1_000)
        await group_store(other).register(ConsumerRegistration({"t": 1}))
        with pytest.raises(NodeExists):
            await group_store(store).register(ConsumerRegistration({"t": 1}))
        fired: list[object] = []
        store.subscribe(fired.append)
        await other.close()
        await store.exists("/")
        assert [event for event in fired if isinstance(event, WatchFired)]
        await group_store(store).register(ConsumerRegistration({"t": 1}))

    on_zookeeper(test)


def test_claims_are_the_threads_names_and_say_who_is_in_the_way() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        other = zookeeper.connect()
        await other.start(1_000)
        await group_store(other, "g_b").claim({T1: "g_b-0"}, other.session_id)
        claimed = await group_store(store).claim({T0: "g_a-0", T1: "g_a-1"}, store.session_id)
        assert claimed.won == {T0: "g_a-0"}
        assert claimed.blockers == [owner_path("g", "t", 1)]
        assert zookeeper.data(owner_path("g", "t", 0)) == b"g_a-0"
        await group_store(store).release([T0, T1])
        assert zookeeper.paths("/consumers/g/owners/t") == [
            "/consumers/g/owners/t",
            owner_path("g", "t", 1),
        ], "only our own is deleted"

    on_zookeeper(test)


def test_a_claim_of_an_earlier_session_creates_nothing_in_the_next() -> None:
    """It would be claimed by one and consumed by nobody."""

    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        before = store.session_id
        zookeeper.expire_session(before)
        with pytest.raises(SessionExpired):
            await group_store(store).claim({T0: "g_a-0"}, before)
        assert store.session_id not in (0, before)
        assert zookeeper.tree.ephemerals(store.session_id) == []

    on_zookeeper(test)


@pytest.mark.parametrize(
    "path",
    ["/consumers/g/ids/g_c", "/brokers/ids/1", "/brokers/topics/t9", "/brokers/topics/t"],
    ids=["member", "broker", "topic for a pattern", "topic"],
)
def test_after_reading_everything_is_watched_also_what_is_not_there_yet(path: str) -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        group = group_store(store)
        await group.register(ConsumerRegistration({"t": 1}))
        if path.startswith("/brokers/topics/t9"):
            await group_store(store, "g_b").register(ConsumerRegistration({"t.*": 1}, "white_list"))
        view = await group.read([])
        assert dict(view.partitions) == {"t": ()}
        assert view.brokers == []
        fired: list[object] = []
        store.subscribe(fired.append)
        other = zookeeper.connect()
        await other.start(1_000)
        await other.create(path, b"x", parents=True)
        await store.exists("/")
        await store.exists("/")
        assert [event for event in fired if isinstance(event, WatchFired)]

    on_zookeeper(test)


def test_reading_a_topic() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        zookeeper.commit([Create("/brokers"), Create("/brokers/topics")], 0)
        data = TopicAssignment({10: PartitionReplicas((0,)), 9: PartitionReplicas((0,))}, None).encode()
        zookeeper.commit([Create("/brokers/topics/t", data)], 0)
        group = group_store(store)
        await group.register(ConsumerRegistration({"t": 2}))
        view = await group.read([T0])
        assert dict(view.partitions) == {"t": (9, 10)}
        assert dict(view.threads) == {"t": ["g_a-0", "g_a-1"]}
        assert view.held == frozenset()

    on_zookeeper(test)


@pytest.mark.parametrize("topic", ["", "..", "a/b"])
def test_a_topic_that_no_cluster_can_have_stops_no_roundrobin_group(topic: str) -> None:
    """One such name in one member's subscription, which Kafka's own consumer does not check, ended the balancing of all
    others, for which roundrobin reads everybody's topics."""

    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        zookeeper.commit([Create("/brokers"), Create("/brokers/topics")], 0)
        data = TopicAssignment({0: PartitionReplicas((0,))}, None).encode()
        zookeeper.commit([Create("/brokers/topics/t", data)], 0)
        group = GroupStore(store, "g", "g_a", "roundrobin", exclude_internal=True)
        await group.register(ConsumerRegistration({"t": 1, topic: 1}))
        assert dict((await group.read([])).partitions) == {"t": (0,), topic: ()}

    on_zookeeper(test)


def test_offsets_are_plain_numbers_and_written_once() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        keeper = OffsetKeeper(ZooKeeperOffsets(store, "g"))
        assert await keeper.read([T0]) == {}
        for offset in (5, 5, 7, 7):
            await keeper.commit(lambda offset=offset: {T0: offset})  # type: ignore[misc]
        path = offset_path("g", "t", 0)
        assert zookeeper.data(path) == b"7"
        assert zookeeper.tree.node(path).stat().version == 1
        await store.set(path, b"9")  # by another member, or a tool
        await keeper.commit(lambda: {T0: 7}, unchanged=True)
        assert zookeeper.data(path) == b"7", "the application has asked for that one"
        assert await keeper.read([T0, T1]) == {T0: 7}

    on_zookeeper(test)


def test_names_that_are_no_partitions_are_left_out_of_a_group() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        for name in ("3", "1_0", "-5", "\u0663", "x", "99999999999"):
            await store.create(offset_path("g", "t", 0)[:-1] + name, b"7", parents=True)
            await store.create(owner_path("g", "t", 0)[:-1] + name, b"g_a-0", parents=True)
        group = await group_in_zookeeper(store, "g")
        assert group is not None
        assert group.offsets == {TopicPartition("t", 3): 7}
        assert group.owners == {TopicPartition("t", 3): "g_a-0"}

    on_zookeeper(test)


def test_offsets_that_expire_are_written_again_while_nothing_is_consumed() -> None:
    """In Kafka they do: of a topic that was quiet for a week a group would lose its place."""

    class Kafka:
        written: ClassVar[list[int]] = []

        async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 4)

        async def write(self, offsets: Mapping[TopicPartition, int], retries: int, *, unchanged: bool = False) -> None:
            self.written += offsets.values()

    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        keeper = OffsetKeeper(DualOffsets(Kafka(), ZooKeeperOffsets(store, "g")))
        await keeper.read([T0])
        await keeper.commit(lambda: {T0: 5})
        await keeper.commit(lambda: {T0: 5})
        assert Kafka.written == [5, 5]
        assert zookeeper.tree.node(offset_path("g", "t", 0)).stat().version == 0

    on_zookeeper(test)


def test_an_offset_whose_answer_is_lost_is_written_all_the_same() -> None:
    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        keeper = OffsetKeeper(ZooKeeperOffsets(store, "g"))
        store.lose_next_answer()
        await keeper.commit(lambda: {T0: 5})
        store.lose_next_answer()
        await keeper.commit(lambda: {T0: 6})
        assert zookeeper.data(offset_path("g", "t", 0)) == b"6"

    on_zookeeper(test)


class Refusing(MemoryStore):
    """A session that may not write what is of partition 0."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        if path.endswith("/0"):
            raise NotAuthorized(path)
        return await super().set(path, data, version)


def test_a_commit_that_is_refused_in_part_ends_when_its_other_writes_have() -> None:
    """Others waited for the connection still: the next commit, or another owner of the partition, was overtaken by what
    was older."""

    async def test(zookeeper: MemoryZooKeeper, store: MemoryStore) -> None:
        store.__class__ = Refusing
        for partition in (T0, T1):
            await store.create(offset_path("g", *partition), b"0", parents=True)
        keeper = OffsetKeeper(ZooKeeperOffsets(store, "g"))
        store.lose_next_answer()  # of T1: it is written again when the connection is back
        with pytest.raises(NotAuthorized):
            await keeper.commit(lambda: {T0: 5, T1: 5})
        assert store.connected and zookeeper.tree.node(offset_path("g", *T1)).stat().version == 2

    on_zookeeper(test)
