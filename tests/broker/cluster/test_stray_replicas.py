"""A broker that comes back lets go of replicas that the cluster gave to others meanwhile, and of nothing else."""

import asyncio
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.cluster.stray_replicas import Stray, stray_reason
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_environment, open_test_log
from odradek.testing.memory_store import MemoryStore
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.store import ConnectionLost, SessionExpired, Stat, Store, StoreError
from odradek.zk_schema.znodes.topics import PartitionReplicas, PartitionState, TopicAssignment, state_path, topic_path

ID, OTHER_ID = b"a" * 16, b"b" * 16
MOVED, KEPT = "moved", "kept"
NO_LEADER = -1


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "topic_id", "known_id", "expected"),
    [
        ((1, 2), (), (), ID, ID, None),
        ((2, 3), (), (), ID, ID, Stray.REASSIGNED),
        ((2, 3), (), (), ID, ZERO_UUID, Stray.REASSIGNED),
        ((2, 3), (1,), (), ID, ID, None),
        ((2, 3), (), (1,), ID, ID, None),
        ((1, 2), (), (), ID, OTHER_ID, Stray.OTHER_TOPIC),
        ((1, 2), (), (), None, OTHER_ID, None),
        (None, (), (), ID, ID, None),
    ],
)
def test_only_what_zookeeper_says_makes_a_stray(
    replicas: tuple[int, ...] | None,
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    topic_id: bytes | None,
    known_id: bytes,
    expected: Stray | None,
) -> None:
    log = open_test_log(make_environment(), clean=True)
    held = {} if replicas is None else {0: PartitionReplicas(replicas, adding, removing)}
    assert stray_reason(log, known_id, TopicAssignment(held, topic_id), 1) is expected


class Client:
    """Asks broker 0."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self._peer = Peer(cluster.network.host("client"), cluster.clock, "broker-0", cluster.port, "test")

    async def ask(self, request: Message, version: int) -> Any:
        return await self._peer.request(request, version, 60_000)

    async def create(self) -> None:
        on_both = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0, 1])]
        made = [
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=on_both)
            for name in (MOVED, KEPT)
        ]
        response = await self.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 7)
        assert not any(topic.error_code for topic in response.topics), response

    async def reassign_to_broker_0(self) -> None:
        moved = ReassignableTopic(name=MOVED, partitions=[ReassignablePartition(partition_index=0, replicas=[0])])
        answer = await self.ask(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000), 0)
        assert answer.error_code == 0 and not answer.responses[0].partitions[0].error_code, answer

    async def until(self, condition: Any) -> None:
        while not await condition():
            await asyncio.sleep(0.05)


async def assignment(store: Store, topic: str) -> TopicAssignment:
    data, _ = await store.get(topic_path(topic))
    return TopicAssignment.decode(topic, data)


def run(change: Any, check: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            client = Client(cluster)
            back = cluster.brokers[1]
            await client.create()

            async def replicated() -> bool:
                logs = back.server.services.logs
                return logs.get(MOVED, 0) is not None and logs.get(KEPT, 0) is not None

            await client.until(replicated)
            back.kill()
            await change(client, cluster.brokers[0].store)
            await back.start()
            assert back.server.services.logs.get(KEPT, 0) is not None
            await check(client, back)

    run_virtual(main)


def test_a_replica_that_was_reassigned_while_its_broker_was_dead_is_deleted() -> None:
    async def change(client: Client, store: Store) -> None:
        await client.reassign_to_broker_0()

        async def moved() -> bool:
            return (await assignment(store, MOVED)).partitions[0] == PartitionReplicas((0,))

        await client.until(moved)

    async def check(client: Client, back: Any) -> None:
        assert back.server.services.logs.get(MOVED, 0) is None

        async def removed() -> bool:
            directory = back.server.config.log_dirs[0]
            return not any(name.startswith(MOVED) for name in back.files.list_directory(directory))

        await client.until(removed)

    run(change, check)


@pytest.mark.parametrize("error", [ConnectionLost, SessionExpired])
@pytest.mark.parametrize("path", [topic_path(MOVED), state_path(MOVED, 0)])
def test_so_is_one_when_the_connection_is_lost_as_it_is_looked_for(
    path: str, error: type[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed until the next start: it took room, and a topic that was made anew could not be on this broker."""
    get, lost = MemoryStore.get, list[str]()

    async def lossy(store: MemoryStore, asked: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        if asked == path and lost == ["armed"]:
            lost.append(asked)
            raise error(path)
        return await get(store, asked, watch=watch)

    monkeypatch.setattr(MemoryStore, "get", lossy)

    async def change(client: Client, store: Store) -> None:
        await client.reassign_to_broker_0()

        async def moved() -> bool:
            return (await assignment(store, MOVED)).partitions[0] == PartitionReplicas((0,))

        await client.until(moved)
        lost.append("armed")

    async def check(client: Client, back: Any) -> None:
        assert lost == ["armed", path]
        assert back.server.services.logs.get(MOVED, 0) is None

    run(change, check)


@pytest.mark.parametrize(
    "state", [PartitionState(NO_LEADER, 5, (1,), 1).encode(), PartitionState(1, 5, (1, 0), 1).encode(), b"{nonsense"]
)
def test_a_replica_that_the_isr_counts_on_is_kept_whatever_is_assigned(state: bytes) -> None:
    """A reassignment was cancelled, and the controller died before it had taken the replica out of the ISR: perhaps
    nobody else has what was acknowledged."""

    async def change(client: Client, store: Store) -> None:
        async def seen_dead() -> bool:
            data, _ = await store.get(state_path(MOVED, 0))
            return PartitionState.decode(MOVED, 0, data).isr == (0,)

        await client.until(seen_dead)
        known = await assignment(store, MOVED)
        await store.set(topic_path(MOVED), TopicAssignment({0: PartitionReplicas((0,))}, known.topic_id).encode())
        await store.set(state_path(MOVED, 0), state)

    async def check(client: Client, back: Any) -> None:
        assert back.server.services.logs.get(MOVED, 0) is not None

    run(change, check)


def test_a_topic_that_zookeeper_does_not_name_keeps_its_log() -> None:
    async def change(client: Client, store: Store) -> None:
        await store.delete(topic_path(MOVED) + "/partitions/0/state")
        await store.delete(topic_path(MOVED) + "/partitions/0")
        await store.delete(topic_path(MOVED) + "/partitions")
        await store.delete(topic_path(MOVED))

    async def check(client: Client, back: Any) -> None:
        assert back.server.services.logs.get(MOVED, 0) is not None

    run(change, check)


def test_the_log_of_another_topic_of_that_name_is_set_aside() -> None:
    async def change(client: Client, store: Store) -> None:
        known = await assignment(store, MOVED)
        await store.set(topic_path(MOVED), TopicAssignment(known.partitions, OTHER_ID).encode())

    async def check(client: Client, back: Any) -> None:
        (directory,) = back.server.services.logs.directories
        assert any(name.endswith("-stray") for name in back.files.list_directory(directory))

    run(change, check)
