"""A disk fails under a broker with two log directories; the broker lives on, and its partitions move."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.replication import log_copy
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import AwaitedAppend
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PATH
from odradek.zk_schema.znodes.topics import PartitionState, state_path, topic_path

SETTINGS = {"log.dirs": "/a,/b", "default.replication.factor": "2", "num.partitions": "2"}
Scenario = Callable[[EmbeddedCluster], Awaitable[None]]


def with_brokers(scenario: Scenario, brokers: int = 2) -> None:
    """A cluster whose topic `t` has two partitions: each broker has one in /a and one in /b."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers, SETTINGS) as cluster:
            await until(lambda: any(broker.server.services.metadata.brokers for broker in cluster.brokers))
            await cluster.brokers[0].server.services.auto_create_topic("t")
            await until(lambda: all(in_sync(cluster, index) == len(cluster.brokers) for index in range(2)))
            await scenario(cluster)

    run_virtual(main)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("never")


def replica(broker: EmbeddedBroker, index: int) -> Partition | None:
    return broker.server.services.replicas.partitions.get(("t", index)) if broker.running else None


def state(cluster: EmbeddedCluster, index: int) -> PartitionState:
    return PartitionState.decode("t", index, cluster.zookeeper.data(state_path("t", index)))


def in_sync(cluster: EmbeddedCluster, index: int) -> int:
    leaders = [one for broker in cluster.brokers if (one := replica(broker, index)) is not None and one.is_leader]
    return len(leaders[0].committed_isr) if leaders else 0


def homes(broker: EmbeddedBroker) -> dict[str, int]:
    """Partition by directory."""
    return {log.log_directory: log.partition for log in broker.server.services.logs.all_logs() if log.topic == "t"}


def log_end(broker: EmbeddedBroker) -> int:
    partition = replica(broker, 0)
    return -1 if partition is None else partition.log.log_end_offset


def append(broker: EmbeddedBroker, index: int, value: bytes = b"value") -> ErrorCode:
    replicas = broker.server.services.replicas
    try:
        replicas.append(replicas.led("t", index), make_batch([value]), 1)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_leaders_move_and_the_rest_stays() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        index = next(index for index in range(2) if state(cluster, index).leader == 0)
        broker, other = cluster.brokers
        failing = next(path for path, partition in homes(broker).items() if partition == index)
        broker.files.broken.add(failing)
        failed = replica(broker, index)
        assert failed is not None
        waiting = AwaitedAppend(failed, failed.log.log_end_offset + 1)
        assert append(broker, index) == ErrorCode.KAFKA_STORAGE_ERROR
        assert append(broker, index) == ErrorCode.KAFKA_STORAGE_ERROR
        assert waiting.settle() and waiting.error is ErrorCode.KAFKA_STORAGE_ERROR, "who waits is told at once"
        await until(lambda: state(cluster, index).leader == 1)
        await until(lambda: (partition := replica(other, index)) is not None and partition.is_leader)
        assert append(other, index) == ErrorCode.NONE
        await until(lambda: state(cluster, index).isr == (1,))
        told = other.server.services.metadata.partition("t", index)
        assert told is not None and told.offline_replicas == [0]
        left = replica(broker, 1 - index)
        assert left is not None and not left.offline and not broker.server.broken.is_set()
        assert set(state(cluster, 1 - index).isr) == {0, 1}
        assert await other.store.children(LOG_DIR_EVENT_PATH) == []

        broker.files.broken.clear()  # the disk is mended, and the broker begins anew
        await broker.stop()
        await broker.start()
        await until(lambda: set(state(cluster, index).isr) == {0, 1})
        log = broker.server.services.logs.get("t", index)
        assert log is not None and log.log_end_offset == 1 and log.log_directory == failing

    with_brokers(scenario)


def test_the_controller_is_told_when_zookeeper_is_back() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        index = next(index for index in range(2) if state(cluster, index).leader == 0)
        broker = cluster.brokers[0]
        cluster.zookeeper.partition(broker.store)
        broker.files.broken.add(next(path for path, partition in homes(broker).items() if partition == index))
        assert append(broker, index) == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(1)
        assert state(cluster, index).leader == 0
        cluster.zookeeper.heal(broker.store)
        await until(lambda: state(cluster, index).leader == 1)

    with_brokers(scenario)


def test_the_last_directory_takes_the_broker_with_it() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        broker = cluster.brokers[0]
        logs = broker.server.services.logs
        broker.files.broken.add("/a")
        logs.checkpoints.write_recovery_points()
        assert [directory.path for directory in logs.online()] == ["/b"] and not broker.server.broken.is_set()
        broker.files.broken.add("/b")
        logs.checkpoints.write_recovery_points()
        assert logs.online() == [] and broker.server.broken.is_set()

    with_brokers(scenario)


@pytest.mark.parametrize("broken", ["", "/meta.properties"])
def test_the_deletion_of_a_topic_waits_for_a_directory_that_has_failed_since_the_start(broken: str) -> None:
    """The broker had been told of no replica in there, so it said that all were deleted, and one stayed for ever."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        index = next(index for index in range(2) if state(cluster, index).leader == 0)
        broker, other = cluster.brokers[1], cluster.brokers[0]
        failing = next(path for path, partition in homes(broker).items() if partition == index)
        await broker.stop()
        await other.store.create(delete_topic_path("t"))
        await asyncio.sleep(1)
        broker.files.broken.add(failing + broken)
        await broker.start()
        await until(lambda: not homes(broker))  # the other replica is deleted
        await asyncio.sleep(5)
        assert await other.store.exists(topic_path("t"))

        broker.files.broken.clear()
        await broker.stop()
        await broker.start()
        while await other.store.exists(topic_path("t")):
            await asyncio.sleep(0.05)
        assert not homes(broker)

    with_brokers(scenario)


@pytest.mark.parametrize("target_fails", [True, False])
def test_a_directory_fails_amid_a_move(target_fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it goes to: the replica stays what and where it is. Where it comes from: the replica is gone."""
    monkeypatch.setattr(log_copy, "READ_BYTES", 50_000)

    async def scenario(cluster: EmbeddedCluster) -> None:
        broker = cluster.brokers[0]
        source = next(path for path, partition in homes(broker).items() if partition == 0)
        target = "/a" if source == "/b" else "/b"
        for _ in range(20):
            leader = next(one for one in cluster.brokers if (p := replica(one, 0)) is not None and p.is_leader)
            append(leader, 0, bytes(50_000))
        await until(lambda: all(log_end(one) == 20 for one in cluster.brokers))
        moves = broker.server.services.replicas.moves

        async def begin() -> None:
            assert moves.alter("t", 0, target, exists=True) == ErrorCode.NONE
            await asyncio.sleep(0)

        await broker.run(begin())
        assert broker.server.services.logs.future_logs() != []
        broker.files.broken.add(target if target_fails else source)
        await asyncio.sleep(1)
        partition = replica(broker, 0)
        assert partition is not None and partition.offline is not target_fails
        if target_fails:
            assert partition.log.log_directory == source and broker.server.services.logs.future_logs() == []
            assert set(state(cluster, 0).isr) == {0, 1}
        else:
            await until(lambda: state(cluster, 0).isr == (1,))
        broker.files.broken.clear()
        await broker.stop()
        await broker.start()
        await until(lambda: (log := broker.server.services.logs.get("t", 0)) is not None
                    and log.log_directory == target and log.log_end_offset == 20)  # fmt: skip

    with_brokers(scenario)


def test_a_directory_that_is_away_at_the_start() -> None:
    """Its partitions are refused, those of the other serve, and new topics go there."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        broker, other = cluster.brokers
        away, here = homes(broker)["/a"], homes(broker)["/b"]
        await broker.stop()
        broker.files.broken.add("/a")
        await broker.start()
        await until(lambda: set(state(cluster, here).isr) == {0, 1})
        await until(lambda: (told := other.server.services.metadata.partition("t", away)) is not None
                    and told.offline_replicas == [0])  # fmt: skip
        assert state(cluster, away).isr == (1,)
        await other.server.services.auto_create_topic("new")
        await until(lambda: broker.server.services.logs.get("new", 0) is not None)
        assert homes(broker) == {"/b": here}

    with_brokers(scenario)


def test_a_move_ends_with_a_directory_that_fails_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a sync finds none. It was to wait for room, and was not there any more: a stack was what was said."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        broker = cluster.brokers[0]
        logs, moves = broker.server.services.logs, broker.server.services.replicas.moves
        target = next(path for path, partition in homes(broker).items() if partition != 0)

        def give_up(topic: str, index: int) -> None:
            future, error = logs.future_log(topic, index), OSError(errno.ENOSPC, "No space left on device")
            assert future is not None
            raise future.give_up_directory(error) from error

        monkeypatch.setattr(logs, "promote_future_log", give_up)

        async def begin() -> None:
            assert moves.alter("t", 0, target, exists=True) == ErrorCode.NONE

        await broker.run(begin())
        await until(lambda: logs.directories[target].offline is not None)
        await asyncio.sleep(1)
        assert not any(moves._moves())

    with_brokers(scenario)
