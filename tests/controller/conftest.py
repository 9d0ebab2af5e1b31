"""A cluster of real controllers on the in-memory ZooKeeper, with brokers that only note what they are told.

After every ZooKeeper transaction the invariants are checked: the leader is in the ISR or there is none, there is never
a second leader in one leader epoch, epochs only grow; and a broker hears only of what ZooKeeper has had.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.controller.channel_manager import OnResponse
from odradek.controller.controller import Controller
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.topic_names import TopicPartition
from odradek.testing.memory_store import MemoryStore
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.registration import create_topmost_paths
from odradek.zk_schema.store import Create, Delete, NoNode, SetData
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path
from odradek.zk_schema.znodes.configs import encode_config, topic_config_path
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH
from odradek.zk_schema.znodes.topics import PartitionReplicas, PartitionState, TopicAssignment, state_path, topic_path

Play = Callable[[Callable[[Any], Awaitable[None]]], None]
"""Type of the fixture `play`."""

SETTLE_MS = 400


@dataclass
class FakeBroker:
    """Obeys as a broker does, and remembers."""

    id: int
    store: MemoryStore
    epoch: int = -1
    controller_epoch: int = 0
    alive: bool = True
    answers: bool = True
    """False: requests to it stay unanswered until it is set again."""
    refuses_all_with: ErrorCode | None = None
    storage_errors: set[TopicPartition] = field(default_factory=set)
    refuses_repetitions: bool = False
    """True: as Kafka's, it takes no state of a leader epoch that it has."""
    received: list[Message] = field(default_factory=list)
    replicas: dict[TopicPartition, Any] = field(default_factory=dict)
    metadata: dict[TopicPartition, Any] = field(default_factory=dict)
    live_brokers: set[int] = field(default_factory=set)
    deleted: list[TopicPartition] = field(default_factory=list)

    def take(self, message: Any, cluster: "Cluster") -> Message:
        if self.refuses_all_with is not None:
            return self._refuse(message, self.refuses_all_with)
        if message.broker_epoch < self.epoch:
            return self._refuse(message, ErrorCode.STALE_BROKER_EPOCH)
        if message.controller_epoch < self.controller_epoch:
            return self._refuse(message, ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = message.controller_epoch
        self.received.append(message)
        if isinstance(message, LeaderAndIsrRequest):
            return self._become(message, cluster)
        if isinstance(message, UpdateMetadataRequest):
            return self._learn(message, cluster)
        assert isinstance(message, StopReplicaRequest)
        return self._stop(message)

    def _refuse(self, message: Any, error: ErrorCode) -> Message:
        response: Any = {4: LeaderAndIsrResponse, 5: StopReplicaResponse, 6: UpdateMetadataResponse}[message.API_KEY]
        refused: Message = response(error_code=error)
        return refused

    def _become(self, message: LeaderAndIsrRequest, cluster: "Cluster") -> Message:
        response = LeaderAndIsrResponse()
        for topic in message.topic_states:
            errors = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            response.topics.append(errors)
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                assert (partition, state.leader_epoch, state.leader) in cluster.history, f"ZooKeeper never had {state}"
                error = ErrorCode.KAFKA_STORAGE_ERROR if partition in self.storage_errors else ErrorCode.NONE
                known = self.replicas.get(partition)
                if self.refuses_repetitions and known is not None and known.leader_epoch >= state.leader_epoch:
                    error = ErrorCode.STALE_CONTROLLER_EPOCH
                errors.partition_errors.append(
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=error)
                )
                if error is ErrorCode.NONE and (known is None or known.leader_epoch <= state.leader_epoch):
                    self.replicas[partition] = state
        return response

    def _learn(self, message: UpdateMetadataRequest, cluster: "Cluster") -> Message:
        self.live_brokers = {broker.id for broker in message.live_brokers}
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == -2:
                    self.metadata.pop(partition, None)
                else:
                    assert (partition, state.leader_epoch, state.leader) in cluster.history, (
                        f"ZooKeeper never had {state}"
                    )
                    self.metadata[partition] = state
        return UpdateMetadataResponse()

    def _stop(self, message: StopReplicaRequest) -> Message:
        response = StopReplicaResponse()
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                error = ErrorCode.KAFKA_STORAGE_ERROR if partition in self.storage_errors else ErrorCode.NONE
                response.partition_errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=error
                    )
                )
                if state.delete_partition and error is ErrorCode.NONE:
                    self.deleted.append(partition)
                    self.replicas.pop(partition, None)
        return response

    def led(self) -> set[TopicPartition]:
        return {partition for partition, state in self.replicas.items() if state.leader == self.id}

    def of(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.received if isinstance(message, kind)]


class FakeChannels:
    """One controller's `Channels` to the fake brokers: a turn of the loop there, one back; order kept."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._queues: dict[int, list[tuple[Message, OnResponse]]] = {}
        self.cut = False

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        assert (host, port) == (f"host{broker_id}", 9092)
        self._queues.setdefault(broker_id, [])

    def remove_broker(self, broker_id: int) -> None:
        self._queues.pop(broker_id, None)

    def queued_by_broker(self) -> dict[int, int]:
        return {broker_id: len(queue) for broker_id, queue in self._queues.items()}

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        queue.append((message, on_response))
        if len(queue) == 1:
            self._cluster.clock.call_soon(lambda: self._deliver(broker_id, queue))

    def _deliver(self, broker_id: int, queue: list[tuple[Message, OnResponse]]) -> None:
        if self._queues.get(broker_id) is not queue or not queue or self.cut:
            return
        broker = self._cluster.brokers[broker_id]
        if not broker.alive or not broker.answers:
            self._cluster.clock.call_later(20, lambda: self._deliver(broker_id, queue))
            return
        message, on_response = queue.pop(0)
        response = broker.take(message, self._cluster)
        self._cluster.clock.call_soon(lambda: on_response(response))
        if queue:
            self._cluster.clock.call_soon(lambda: self._deliver(broker_id, queue))


class Cluster:
    """ZooKeeper, brokers, and the controllers of some of them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.zookeeper = MemoryZooKeeper(clock, session_timeout_ms=3000)
        self.brokers: dict[int, FakeBroker] = {}
        self.controllers: dict[int, Controller] = {}
        self.channels: dict[int, FakeChannels] = {}
        self.history: set[tuple[TopicPartition, int, int]] = set()
        """Every (partition, leader epoch, leader) that ZooKeeper ever had."""
        self._leader_of: dict[tuple[TopicPartition, int], int] = {}
        self._newest: dict[TopicPartition, PartitionState] = {}
        self._controller_epoch = 0
        self.tasks = Tasks(clock, lambda why: None)
        self.commits: list[tuple[int, list[Any]]] = []
        """Transactions that changed something: session and operations."""
        self.before_commit: Callable[[list[Any], int], None] | None = None
        """A fault: called with a transaction before it is carried out; may raise."""
        self.after_commit: Callable[[list[Any], int], None] | None = None
        self._watch_transactions()

    def _watch_transactions(self) -> None:
        commit = self.zookeeper.commit

        def checked(operations: list[Any], session_id: int) -> Any:
            if self.before_commit is not None:
                self.before_commit(operations, session_id)
            results = commit(operations, session_id)
            self.commits.append((session_id, operations))
            for operation in operations:
                if isinstance(operation, Create | SetData):
                    self._check(operation.path, operation.data)
                elif isinstance(operation, Delete):
                    self._forget(operation.path)
            if self.after_commit is not None:
                self.after_commit(operations, session_id)
            return results

        self.zookeeper.commit = checked  # type: ignore[method-assign, assignment]

    def _check(self, path: str, data: bytes) -> None:
        """The invariants, over every state that ZooKeeper ever has."""
        if path == CONTROLLER_EPOCH_PATH:
            assert int(data) >= self._controller_epoch
            self._controller_epoch = int(data)
        if not (path.startswith("/brokers/topics/") and path.endswith("/state")):
            return
        _, _, _, topic, _, index, _ = path.split("/")
        partition, state = TopicPartition(topic, int(index)), PartitionState.decode(topic, int(index), data)
        assert state.leader == -1 or state.leader in state.isr, (partition, state)
        assert state.isr, (partition, state)
        if state.leader != -1:
            other = self._leader_of.setdefault((partition, state.leader_epoch), state.leader)
            assert other == state.leader, f"{partition}: {other} and {state.leader} lead in epoch {state.leader_epoch}"
        before = self._newest.get(partition)
        if before is not None:
            assert state.leader_epoch >= before.leader_epoch, (partition, before, state)
            assert state.controller_epoch >= before.controller_epoch, (partition, before, state)
            assert state.leader == before.leader or state.leader_epoch > before.leader_epoch, (before, state)
        self._newest[partition] = state
        self.history.add((partition, state.leader_epoch, state.leader))

    def _forget(self, path: str) -> None:
        """A topic that is made anew begins with new epochs."""
        for partition in [p for p in self._newest if topic_path(p.topic) == path]:
            del self._newest[partition]
            self._leader_of = {key: leader for key, leader in self._leader_of.items() if key[0] != partition}

    # Brokers and controllers.

    async def begin(self, *broker_ids: int, controllers: Iterable[int] | None = None, **settings: Any) -> None:
        """Brokers with a controller each (or only some): registered, one elected, all quiet."""
        admin = self.admin = self.zookeeper.connect()
        await admin.start(1000)
        await create_topmost_paths(admin)
        for broker_id in broker_ids:
            await self.add_broker(broker_id)
        for broker_id in broker_ids if controllers is None else controllers:
            await self.add_controller(broker_id, **settings)
        await self.settle()

    async def add_broker(self, broker_id: int, rack: str | None = None) -> FakeBroker:
        store = self.zookeeper.connect()
        await store.start(1000)
        broker = FakeBroker(broker_id, store)
        before = self.brokers.get(broker_id)
        if before is not None:
            broker.storage_errors = before.storage_errors
        self.brokers[broker_id] = broker
        registration = BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", f"host{broker_id}", 9092),), rack)
        await store.create(broker_path(broker_id), registration.encode(), ephemeral=True)
        stat = await store.exists(broker_path(broker_id))
        assert stat is not None
        broker.epoch = stat.czxid
        return broker

    async def add_controller(self, broker_id: int, **settings: Any) -> Controller:
        channels = self.channels[broker_id] = FakeChannels(self)
        controller = Controller(
            self.brokers[broker_id].store,
            self.clock,
            broker_id,
            ControllerSettings(**settings),
            channels,
            random.Random(broker_id),
            self.tasks,
        )
        self.controllers[broker_id] = controller
        controller.start()
        return controller

    def kill(self, broker_id: int) -> None:
        """The broker's process dies, with its controller; its session ends at once."""
        broker = self.brokers[broker_id]
        broker.alive = False
        if broker_id in self.controllers:
            self.channels[broker_id].cut = True
            controller = self.controllers.pop(broker_id)
            assert controller._task is not None
            controller._task.cancel()
            controller._resign("killed by the test")
        session_id = broker.store.session_id
        broker.store.vanish()
        self.zookeeper.end_session(session_id)

    @property
    def active(self) -> Controller:
        """The one active controller."""
        (active,) = [c for broker_id, c in self.controllers.items() if c.is_active and self.holder() == broker_id]
        return active

    def holder(self) -> int:
        try:
            return int(json.loads(self.zookeeper.data(CONTROLLER_PATH))["brokerid"])
        except NoNode:
            return -1

    async def settle(self, duration_ms: float = SETTLE_MS) -> None:
        """Let everything happen that is under way."""
        await asyncio.sleep(duration_ms / 1000)

    # Topics.

    async def create_topic(self, topic: str, *replicas: Iterable[int], **config: str) -> None:
        """As an administrator does: settings first. One list of replicas for each partition."""
        partitions = {index: PartitionReplicas(tuple(brokers)) for index, brokers in enumerate(replicas)}
        settings = encode_config({key.replace("_", "."): value for key, value in config.items()})
        await self.admin.create(topic_config_path(topic), settings)
        topic_id = random.Random(topic).randbytes(16)
        await self.admin.create(topic_path(topic), TopicAssignment(partitions, topic_id).encode())
        await self.settle()

    async def delete_topic(self, topic: str) -> None:
        await self.admin.create(delete_topic_path(topic))
        await self.settle()

    async def put_in_isr(self, brokers: list[int], partition: int = 0) -> None:
        """Propose an ISR of t as its leader does."""
        state = self.state("t", partition)
        data = PartitionData(
            partition_index=partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=self.version("t", partition),
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=-1) for b in brokers],
        )
        assert self.active.state is not None
        topics = [TopicData(topic_id=self.active.state.topic_ids["t"], partitions=[data])]
        epoch = self.brokers[state.leader].epoch
        request = AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch, topics=topics)
        response = await self.active.alter_partition(request, 3)
        assert response.topics[0].partitions[0].error_code == 0, response
        await self.settle()

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        return PartitionState.decode(topic, partition, self.zookeeper.data(state_path(topic, partition)))

    def version(self, topic: str, partition: int = 0) -> int:
        return self.zookeeper.tree.node(state_path(topic, partition)).stat().version

    def exists(self, path: str) -> bool:
        return self.zookeeper.tree.get(path) is not None

    def check_agreement(self) -> None:
        """At rest: every live broker has the metadata that ZooKeeper has, and leads what it should."""
        for (topic, index), newest in self._newest.items():
            partition = TopicPartition(topic, index)
            if not self.exists(state_path(topic, index)):
                continue
            for broker in self.brokers.values():
                if broker.alive:
                    told = broker.metadata[partition]
                    assert (told.leader, told.leader_epoch) == (newest.leader, newest.leader_epoch), (broker.id, told)
                    assert sorted(told.isr) == sorted(newest.isr), (broker.id, partition, told, newest)
            if newest.leader != -1 and self.brokers[newest.leader].alive:
                assert partition in self.brokers[newest.leader].led(), (partition, newest)


@pytest.fixture
def play() -> Callable[[Callable[[Cluster], Awaitable[None]]], None]:
    """Runs a scenario, a coroutine function of a Cluster, on virtual time."""

    def run(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
        async def main(clock: VirtualClock) -> None:
            await scenario(Cluster(clock))

        run_virtual(main)

    return run
