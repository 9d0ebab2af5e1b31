"""A broker that comes back after a power failure (broker/cluster/unclean_restart.py)."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from odradek.broker import server
from odradek.broker.cluster.peer import Peer
from odradek.broker.log.directories.directory_files import CLEAN_SHUTDOWN, encode_clean_shutdown
from odradek.broker.server import StartFailure
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.history import History
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import Clock
from odradek.zk_schema.store import Store
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.topics import PartitionState, state_path

LOSES_NAMES = 2
"""A seed with which the controller's disk loses the names of the logs that were made last."""
T = CreatableTopic(name="t", num_partitions=3, replication_factor=3)
TWO_DIRECTORIES = {"log.dirs": "/a,/b", "num.partitions": "2"}


@pytest.mark.parametrize("lost", ["the end of its logs", "its disk"])
def test_a_controller_without_power_leads_nothing_when_it_is_back_at_once(lost: str) -> None:
    """Else the next controller finds it alive, in the ISR and leading, without what its disk has lost."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            controller = await elected(cluster)
            await create(cluster, T)
            await asyncio.sleep(1)
            before = states(cluster)
            controller.power_failure()
            if lost == "its disk":
                controller.files.erase()
            await comes_back_from_outside_the_isrs(cluster, controller, before)

    run_virtual(main)


def test_a_replica_whose_name_the_disk_has_lost_counts_as_one_that_has_lost_its_end() -> None:
    """Names of logs that are made in a burst are synced together, up to half a second later."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3, seed=LOSES_NAMES) as cluster:
            controller = await elected(cluster)
            alone = CreatableReplicaAssignment(partition_index=0, broker_ids=[controller.broker_id])
            for made in (
                CreatableTopic(name="before", num_partitions=-1, replication_factor=-1, assignments=[alone]),
                T,
            ):
                await create(cluster, made)
                while not held(controller, made.name):
                    await asyncio.sleep(0.01)
            before = states(cluster)
            directories = [one.directory for one in controller.server.services.logs.all_logs() if one.topic == "t"]
            controller.power_failure()
            assert not any(map(controller.files.is_directory, directories)), "this disk was to lose the names"
            await comes_back_from_outside_the_isrs(cluster, controller, before)
            assert held(controller, "t") == {0, 1, 2}

    run_virtual(main)


@pytest.mark.parametrize(("missing", "doubted"), [(None, set()), ("/a", {0, 1}), ("/b", {0, 1})])
def test_no_log_is_trusted_while_another_directory_is_missing(
    missing: str | None, doubted: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was closed cleanly may be a copy from before, which would lead if no controller has seen the broker go."""
    waited: list[Sequence[PartitionKey]] = []

    async def wait(store: Store, clock: Clock, broker_id: int, partitions: Sequence[PartitionKey], ms: int) -> None:
        waited.append(partitions)

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=1, overrides=TWO_DIRECTORIES) as cluster:
            broker = await with_a_log_in_each_directory(cluster)
            await broker.stop()
            if missing is not None:
                broker.files.remove_directory(missing)
            monkeypatch.setattr(server, "wait_until_out_of_isr", wait)
            await broker.start()
            assert [{index for _, index in some} for some in waited] == [doubted]

    run_virtual(main)


@pytest.mark.parametrize("doubt", ["a directory was away", "a kill", "none"])
def test_a_start_that_fails_while_logs_are_in_doubt_leaves_them_in_doubt(
    doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed them as if all were well: the next start trusted them, and did not wait."""
    waited: list[set[int]] = []

    async def wait(store: Store, clock: Clock, broker_id: int, partitions: Sequence[PartitionKey], ms: int) -> None:
        waited.append({index for _, index in partitions})
        if len(waited) < 3:
            raise StartFailure("somebody stops it, or its id is in use")

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=1, overrides=TWO_DIRECTORIES) as cluster:
            broker = await with_a_log_in_each_directory(cluster)
            if doubt == "a kill":
                broker.kill()
            else:
                await broker.stop()
            if doubt == "a directory was away":
                broker.files.set_content(f"/b/{CLEAN_SHUTDOWN}", encode_clean_shutdown(0))
            monkeypatch.setattr(server, "wait_until_out_of_isr", wait)
            for _ in range(2):
                with pytest.raises(StartFailure):
                    await broker.start()
            await broker.start()
            await broker.stop()
            await broker.start()
            assert waited == [set() if doubt == "none" else {0, 1}] * 3 + [set()]

    run_virtual(main)


def test_a_topic_that_is_being_deleted_holds_nobody_up() -> None:
    """Of such a topic no controller takes a broker out of an ISR, and nobody wants its records."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            await elected(cluster)
            await create(cluster, T)
            await asyncio.sleep(1)
            store = cluster.zookeeper.connect()
            await store.start(1_000)
            broker = next(broker for broker in cluster.brokers if not active(broker))
            broker.power_failure()
            await store.create(delete_topic_path("t"))  # before a controller has seen that the broker is gone
            await asyncio.sleep(10)
            began_ms = clock.monotonic_ms()
            await broker.start()
            assert clock.monotonic_ms() - began_ms < 1_000
            await asyncio.sleep(5)
            assert await store.exists(delete_topic_path("t")) is None
            await store.close()

    run_virtual(main)


def test_a_whole_cluster_without_power_comes_back() -> None:
    """Nobody waits for those who wait."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            await asyncio.sleep(1)
            for broker in cluster.brokers:
                broker.power_failure()
            await asyncio.gather(*(broker.start() for broker in cluster.brokers))
            await asyncio.sleep(1)
            assert clock.monotonic_ms() < 12_000
            assert sum(active(broker) for broker in cluster.brokers) == 1

    run_virtual(main)


def test_nobody_is_served_before_the_broker_is_registered() -> None:
    """A controller that has not seen a broker go would otherwise have its next life lead, with what its log still has:
    the others cut theirs to that."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=2) as cluster:
            await asyncio.sleep(1)
            broker = cluster.brokers[1]
            broker.kill()
            starting = asyncio.ensure_future(broker.start())
            peer = Peer(cluster.network.host("client"), clock, broker.host, cluster.port, "test")
            asking = asyncio.ensure_future(peer.request(ApiVersionsRequest(), 0, 60_000))
            await asyncio.sleep(5)
            assert not starting.done() and not asking.done()
            await asking
            assert starting.done()

    run_virtual(main)


async def elected(cluster: EmbeddedCluster) -> EmbeddedBroker:
    """Return the controller, as soon as there is one."""
    while not any(active(broker) for broker in cluster.brokers):
        await asyncio.sleep(0.1)
    return next(broker for broker in cluster.brokers if active(broker))


async def create(cluster: EmbeddedCluster, topic: CreatableTopic) -> None:
    administrator = Administrator(cluster, History(cluster.clock), random.Random(0), topic.name, [])
    await administrator.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)


async def comes_back_from_outside_the_isrs(
    cluster: EmbeddedCluster, broker: EmbeddedBroker, before: list[PartitionState]
) -> None:
    """Start a broker that was in all ISRs `before`: it is taken out of each of them first, and in them again later."""
    starting = asyncio.ensure_future(broker.start())
    isrs = []
    while not starting.done():
        isrs.append([state.isr for state in states(cluster)])
        await asyncio.sleep(0.01)
    assert any(all(broker.broker_id not in isr for isr in some) for some in isrs), "it was never taken out"
    await asyncio.sleep(5)
    for old, new in zip(before, states(cluster), strict=True):
        assert len(new.isr) == 3 and new.leader_epoch > old.leader_epoch


async def with_a_log_in_each_directory(cluster: EmbeddedCluster) -> EmbeddedBroker:
    """Return the one broker, as soon as it has both partitions of its topic."""
    (broker,) = cluster.brokers
    await asyncio.sleep(1)
    await broker.server.services.auto_create_topic("t")
    while held(broker, "t") != {0, 1}:
        await asyncio.sleep(0.1)
    return broker


def active(broker: EmbeddedBroker) -> bool:
    return broker.running and broker.server.services.controller.is_active


def held(broker: EmbeddedBroker, topic: str) -> set[int]:
    """Return the partitions of the topic whose log the broker has."""
    return {one.partition for one in broker.server.services.logs.all_logs() if one.topic == topic}


def states(cluster: EmbeddedCluster) -> list[PartitionState]:
    zookeeper = cluster.zookeeper
    return [PartitionState.decode("t", index, zookeeper.data(state_path("t", index))) for index in range(3)]
