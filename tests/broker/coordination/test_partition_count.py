"""How many partitions a coordinator's topic has: as many as it had first, until it is deleted and made again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.coordination.partition_count import NOWHERE, UNKNOWN_COUNT, PartitionCount, partition_for
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from odradek.protocol.messages.update_metadata import (
    LEADER_DURING_DELETE,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.testing.askers import Asker
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import sleep
from odradek.world.tasks import OnDeath
from odradek.zk_schema.store import ConnectionLost, Stat, StoreError
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment

SETTING = 5


class AtOnce:
    """Tasks that are done before anybody goes on."""

    def spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, object]], on_death: OnDeath) -> None:
        asyncio.run(work())


at_once: Any = AtOnce()


def know(metadata: MetadataCache, partitions: int) -> None:
    metadata.topics[CONSUMER_OFFSETS] = {index: UpdateMetadataPartitionState() for index in range(partitions)}


@pytest.mark.parametrize("first", [SETTING, SETTING + 1])
def test_partitions_that_are_added_later_move_no_group(first: int) -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    assert count() == SETTING, "what it will be created with"
    know(metadata, first)
    assert count() == first
    know(metadata, first + 3)
    assert count() == first


def test_metadata_that_knows_fewer_than_are_created_may_not_know_all_yet() -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    know(metadata, SETTING - 1)
    assert count() == SETTING - 1
    know(metadata, SETTING)
    assert count() == SETTING


def tell(metadata: MetadataCache, topic_id: bytes, partitions: int, leader: int = 1) -> None:
    states = [UpdateMetadataPartitionState(partition_index=index, leader=leader) for index in range(partitions)]
    topic = UpdateMetadataTopicState(topic_name=CONSUMER_OFFSETS, topic_id=topic_id, partition_states=states)
    metadata.update(UpdateMetadataRequest(topic_states=[topic]))


class Store:
    """ZooKeeper with a topic of two partitions."""

    def __init__(self, topic_id: bytes | None) -> None:
        self.assignment = TopicAssignment({index: PartitionReplicas((1,)) for index in range(2)}, topic_id)
        self.error: StoreError | None = None

    async def get(self, path: str) -> tuple[bytes, Stat | None]:
        if self.error is not None:
            raise self.error
        return self.assignment.encode(), None


def test_zookeeper_is_asked_again_when_it_could_not_say_the_number() -> None:
    """Nothing is anywhere until it says it; each failure was told as the death of a task, with its stack."""
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    store: Any = Store(b"1" * 16)
    asyncio.run(count.read(store))
    tell(metadata, b"1" * 16, 2)
    assert count() == 2
    store.error = ConnectionLost("/brokers/topics")
    metadata.topics.clear()
    tell(metadata, b"2" * 16, 1)
    assert count() == count() == UNKNOWN_COUNT
    assert partition_for("g", UNKNOWN_COUNT) == NOWHERE
    store.error, store.assignment = None, TopicAssignment({0: PartitionReplicas((1,))}, b"2" * 16)
    assert count() == UNKNOWN_COUNT, "it is asked"
    assert count() == 1


@pytest.mark.parametrize("told_of_deletion", [False, True])
@pytest.mark.parametrize("again", [1, SETTING, SETTING + 7])
@pytest.mark.parametrize("first", [2, SETTING + 1])
def test_a_topic_that_is_made_again_has_as_many_as_it_has_now(first: int, again: int, told_of_deletion: bool) -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    store: Any = Store(b"1" * 16)
    if first == 2:
        asyncio.run(count.read(store))
    tell(metadata, b"1" * 16, first)
    assert count() == first
    if told_of_deletion:
        tell(metadata, b"1" * 16, first, LEADER_DURING_DELETE)
        assert count() == first, "nothing else is known yet"
    else:
        metadata.topics.clear()
    if first == 2:
        store.assignment = TopicAssignment({index: PartitionReplicas((1,)) for index in range(again)}, b"2" * 16)
    tell(metadata, b"2" * 16, again)
    assert count() == again or count() == again, "asked again"


def test_a_leader_that_is_named_first_does_not_keep_the_number_of_the_deleted_topic() -> None:
    """A new controller says who leads, then the metadata: what was asked in between found the partitions of before."""
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    tell(metadata, b"1" * 16, SETTING + 3)
    assert count() == SETTING + 3
    leads = LeaderAndIsrTopicState(topic_name=CONSUMER_OFFSETS, topic_id=b"2" * 16)
    metadata.learn_ids(LeaderAndIsrRequest(controller_epoch=2, topic_states=[leads]))
    count()
    tell(metadata, b"2" * 16, SETTING)
    assert count() == SETTING


def test_an_id_that_an_old_topic_is_given_does_not_make_it_another_one() -> None:
    metadata = MetadataCache()
    count = PartitionCount(CONSUMER_OFFSETS, metadata, SETTING, at_once)
    store: Any = Store(None)
    asyncio.run(count.read(store))
    tell(metadata, b"1" * 16, SETTING)
    assert count() == 2


@pytest.mark.parametrize(("key_type", "topic"), [(0, CONSUMER_OFFSETS), (1, TRANSACTION_STATE)])
def test_groups_and_transactions_are_found_when_their_topic_is_made_again_with_fewer(key_type: int, topic: str) -> None:
    """They were looked for in partitions that are no more, until all brokers were restarted."""

    async def main(clock: VirtualClock) -> None:
        overrides = {"transaction.state.log.num.partitions": "5", "transaction.state.log.replication.factor": "1"}
        async with EmbeddedCluster(clock, 1, overrides) as cluster:
            ask = Asker(cluster).ask
            keys = [f"k{number}" for number in range(20)]
            find: Message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)

            async def make(partitions: int) -> ErrorCode:
                made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
                return (await ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)).topics[0].error_code

            assert await make(5) == ErrorCode.NONE
            await ask(find, 4)
            await ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
            while (error := await make(2)) == ErrorCode.TOPIC_ALREADY_EXISTS:
                await sleep(clock, 10)
            assert error == ErrorCode.NONE
            await ask(find, 4)  # ZooKeeper is asked how many there are; clients ask again
            await sleep(clock, 1_000)
            found = (await ask(find, 4)).coordinators
            assert {one.error_code for one in found} == {ErrorCode.NONE}

    run_virtual(main)


@pytest.mark.parametrize(("key_type", "topic"), [(0, CONSUMER_OFFSETS), (1, TRANSACTION_STATE)])
def test_groups_and_transactions_stay_where_they_are_when_the_last_partition_gets_its_first_leader(
    key_type: int, topic: str
) -> None:
    """The metadata has no partition that never had a leader. By the number of the others a group lived in another
    partition until that broker came: what it had committed was lost, and a producer that was fenced went on."""

    async def main(clock: VirtualClock) -> None:
        names = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
        async with EmbeddedCluster(clock, 2, dict.fromkeys(names, "2")) as cluster:
            ask = Asker(cluster).ask
            find: Message = FindCoordinatorRequest(
                key_type=key_type, coordinator_keys=[f"k{number}" for number in range(20)]
            )

            async def found() -> dict[str, int]:
                return {one.key: one.node_id for one in (await ask(find, 4)).coordinators}

            cluster.brokers[1].kill()
            await sleep(clock, 60_000)
            alone = [CreatableReplicaAssignment(partition_index=index, broker_ids=[index]) for index in (0, 1)]
            made = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=alone)
            await ask(CreateTopicsRequest(topics=[made], timeout_ms=1_000), 7)
            await found()
            await sleep(clock, 1_000)
            before = await found()
            assert set(before.values()) == {0, -1}
            await cluster.brokers[1].start()
            await sleep(clock, 60_000)
            assert await found() == {key: 1 if node == -1 else 0 for key, node in before.items()}

    run_virtual(main)


@pytest.mark.parametrize(("key_type", "topic"), [(0, CONSUMER_OFFSETS), (1, TRANSACTION_STATE)])
def test_a_topic_that_is_made_again_is_loaded_by_who_led_the_old_one_in_a_later_epoch(
    key_type: int, topic: str
) -> None:
    """The first epoch of the new topic was taken for an old one of the deleted topic, until a restart."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            ask = Asker(cluster).ask
            there = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
            made = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[there])
            create: Message = CreateTopicsRequest(topics=[made], timeout_ms=10_000)
            await ask(create, 7)
            broker, zookeeper = cluster.brokers[1], cluster.zookeeper
            services = broker.server.services
            coordinator = services.groups if key_type == 0 else services.transactions
            while coordinator.check("g") is not ErrorCode.NONE:
                await sleep(clock, 10)
            zookeeper.partition(broker.store)
            await sleep(clock, 20_000)
            zookeeper.heal(broker.store)
            while coordinator.check("g") is not ErrorCode.NONE:
                await sleep(clock, 10)
            assert services.replicas.partitions[topic, 0].leader_epoch > 0
            await ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
            while (await ask(create, 7)).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                await sleep(clock, 10)
            await sleep(clock, 1_000)
            coordinator.check("g")  # ZooKeeper is asked how many partitions there are
            await sleep(clock, 1_000)
            assert services.replicas.partitions[topic, 0].leader_epoch == 0
            assert coordinator.check("g") is ErrorCode.NONE

    run_virtual(main)
