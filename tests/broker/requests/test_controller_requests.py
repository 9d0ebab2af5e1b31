"""The requests that only the controller answers, over a real controller and ZooKeeper in memory."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.config import BrokerConfig, Given, build_config
from odradek.broker.network.outcomes import RequestContext
from odradek.broker.quotas.client_quotas import ClientQuotas
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.requests import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    list_partition_reassignments,
)
from odradek.broker.settings.catalog import TOPIC_SETTINGS
from odradek.broker.settings.cluster_settings import ControllerSettings
from odradek.broker.settings.layers import Source
from odradek.controller.channel_manager import OnResponse
from odradek.controller.controller import Controller
from odradek.controller.topic_admin import Defaults, auto_create_topic
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.tasks import Tasks
from odradek.zk_schema.startup import create_topmost_paths
from odradek.zk_schema.znodes.brokers import BrokerRegistration, Endpoint, broker_path
from odradek.zk_schema.znodes.configs import decode_config, topic_config_path
from odradek.zk_schema.znodes.topics import TopicAssignment, topic_path


class Obedient:
    """Channels to brokers that do everything; broker 0's metadata is kept."""

    def __init__(self, clock: VirtualClock, metadata: MetadataCache) -> None:
        self._clock, self._metadata = clock, metadata
        self.deaf = False
        self.keeps_files = False
        """Nobody answers that a replica is deleted."""

    def add_broker(self, broker_id: int, host: str, port: int) -> None:
        """All are there."""

    def remove_broker(self, broker_id: int) -> None:
        """And stay."""

    def queued_by_broker(self) -> dict[int, int]:
        return {}

    def send(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        self._clock.call_soon(lambda: self._take(broker_id, message, on_response))

    def _take(self, broker_id: int, message: Message, on_response: OnResponse) -> None:
        if self.deaf:
            return
        if isinstance(message, UpdateMetadataRequest):
            if broker_id == 0:
                self._metadata.update(message)
            on_response(UpdateMetadataResponse())
        elif isinstance(message, StopReplicaRequest) and self.keeps_files:
            return
        elif isinstance(message, StopReplicaRequest):
            errors = [
                StopReplicaPartitionError(topic_name=t.topic_name, partition_index=p.partition_index)
                for t in message.topic_states
                for p in t.partition_states
            ]
            on_response(StopReplicaResponse(partition_errors=errors))
        else:
            on_response(LeaderAndIsrResponse())


@dataclass
class Broker:
    """The part of `Services` that the handlers use."""

    config: BrokerConfig
    clock: Any
    random: random.Random
    zookeeper: Any
    metadata: MetadataCache
    controller: Controller
    channels: Obedient
    quotas: ClientQuotas


async def start(clock: VirtualClock, brokers: int = 3, *, active: bool = True, **settings: str) -> Broker:
    server = MemoryZooKeeper(clock)
    store = server.connect()
    await store.start(1000)
    await create_topmost_paths(store)
    for broker_id in range(brokers):
        registration = BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "host", 9092 + broker_id),))
        await store.create(broker_path(broker_id), registration.encode(), ephemeral=True)
    metadata = MetadataCache()
    channels = Obedient(clock, metadata)
    controller = Controller(store, clock, 0, ControllerSettings(), channels, random.Random(1), Tasks(clock, print))
    if active:
        controller.start()
        while not metadata.brokers:
            await rest(clock)
    given = {"zookeeper.connect": "zk:2181", "num.partitions": "2", "default.replication.factor": "2"}
    given |= {name.replace("_", "."): text for name, text in settings.items()}
    config = build_config([Given(name, text, "test") for name, text in given.items()])
    quotas = ClientQuotas(clock, RateWindows(11, 1000.0), RateWindows(11, 1000.0))
    return Broker(config, clock, random.Random(2), store, metadata, controller, channels, quotas)


async def rest(clock: VirtualClock) -> None:
    done = asyncio.Event()
    clock.call_later(10, done.set)
    await done.wait()


async def ask(module: ModuleType, broker: Broker, request: Message, version: int | None = None) -> Any:
    """Through the codec, as on the wire."""
    used = module.VERSIONS[1] if version is None else version
    received = decode(module.REQUEST, used, encode(request, used))
    outcome = module.handle(broker, received, RequestContext(used, "test", "127.0.0.1:1", "PLAINTEXT"))
    reply = await outcome if isinstance(outcome, Coroutine) else outcome
    return decode(type(reply.response), used, encode(reply.response, used))


def play(scenario: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario)


def creation(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=fields.pop("timeout_ms", 5000), **fields)


def counted(name: str, partitions: int = -1, factor: int = -1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in settings.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)


@pytest.mark.parametrize("version", range(8))
def test_create_then_delete(version: int) -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        answer = await ask(create_topics, broker, creation(counted("t", 3, 2, retention_ms="1000")), version)
        (topic,) = answer.topics
        assert (topic.name, topic.error_code) == ("t", 0)
        assert broker.metadata.partition_count("t") == 3, "known here when it is answered"
        if version >= 5:
            assert (topic.num_partitions, topic.replication_factor) == (3, 2)
            sources = {config.name: (config.value, config.config_source) for config in topic.configs}
            assert sources.keys() == TOPIC_SETTINGS.keys()
            assert (sources["retention.ms"], sources["segment.ms"]) == (
                ("1000", Source.TOPIC),
                ("604800000", Source.DEFAULT),
            )
        if version >= 1:
            assert topic.error_message is None
        if version >= 7:
            assert topic.topic_id == broker.metadata.topic_id("t") != ZERO_UUID
        written = (await broker.zookeeper.get(topic_config_path("t")))[0]
        assert decode_config("", written) == {"retention.ms": "1000"}
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=5000)
        (gone,) = (await ask(delete_topics, broker, named, min(version, 6))).responses
        assert (gone.name, gone.error_code) == ("t", 0)
        assert not broker.metadata.topics

    play(scenario)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (counted(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (counted(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (counted("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (counted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (counted("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (counted("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),  # a.b exists
        (counted("a.b"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (counted("t", 0), ErrorCode.INVALID_PARTITIONS),
        (counted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (counted("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (counted("t", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (counted("t", retention_ms=None), ErrorCode.INVALID_CONFIG),
        (counted("t", retention_seconds="1"), ErrorCode.INVALID_CONFIG),
        (counted("t", 0, retention_seconds="1"), ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_refused_topics(topic: CreatableTopic, error: ErrorCode) -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        assert (await ask(create_topics, broker, creation(counted("a.b")))).topics[0].error_code == 0
        (answer,) = (await ask(create_topics, broker, creation(topic))).topics
        assert answer.error_code == error
        assert answer.error_message
        assert answer.configs == [], "null would say that they may not be seen"
        assert await broker.zookeeper.children("/brokers/topics") == ["a.b"]

    play(scenario)


def test_given_replicas() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)

        def given(name: str, *replicas: list[int], first: int = 0, **fields: Any) -> CreatableTopic:
            assignments = [
                CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                for index, brokers in enumerate(replicas, first)
            ]
            return CreatableTopic(
                name=name, assignments=assignments, **{"num_partitions": -1, "replication_factor": -1, **fields}
            )

        request = creation(
            given("good", [2, 1], [0, 2]),
            given("both", [1], num_partitions=1),
            given("uneven", [1], [1, 2]),
            given("double", [1, 1]),
            given("gap", [1], first=1),
        )
        answer = await ask(create_topics, broker, request)
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "good": ErrorCode.NONE,
            "both": ErrorCode.INVALID_REQUEST,
            "uneven": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "double": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "gap": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        }
        state = broker.metadata.partition("good", 0)
        assert state is not None
        assert (state.leader, state.replicas) == (2, [2, 1])

    play(scenario)


def test_validate_only_defaults_and_doubles() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        answer = await ask(create_topics, broker, creation(counted("t"), validate_only=True))
        assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (2, 2)
        assert answer.topics[0].topic_id == ZERO_UUID
        assert not await broker.zookeeper.children("/brokers/topics")
        answer = await ask(create_topics, broker, creation(counted("t"), counted("t")))
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]

    play(scenario)


def test_brokers_that_do_not_answer_in_time() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        assert (await ask(create_topics, broker, creation(counted("old")))).topics[0].error_code == 0
        broker.channels.deaf = True
        (topic,) = (await ask(create_topics, broker, creation(counted("t"), timeout_ms=300))).topics
        assert topic.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert await broker.zookeeper.exists(topic_path("t")), "made nevertheless"
        further = CreatePartitionsTopic(name="old", count=3, assignments=None)
        more = CreatePartitionsRequest(topics=[further], timeout_ms=300)
        (late,) = (await ask(create_partitions, broker, more)).results
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert topic.error_message == "The topic is being created; its leaders are not known yet."
        assert late.error_message == "The partitions are being created; their leaders are not known yet."
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=300)
        assert (await ask(delete_topics, broker, request)).responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    play(scenario)


def test_deletion_by_id_and_refusals() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t")))
        topic_id = broker.metadata.topic_id("t")
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="t", topic_id=topic_id),
                DeleteTopicState(name="unknown"),
                DeleteTopicState(topic_id=b"x" * 16),
                DeleteTopicState(topic_id=topic_id),
                DeleteTopicState(name="t"),
                DeleteTopicState(name=None),
            ],
            timeout_ms=5000,
        )
        both, unknown, unknown_id, gone, again, neither = (await ask(delete_topics, broker, request)).responses
        assert (again.error_code, again.name, again.topic_id) == (0, "t", topic_id), "each time it was named"
        assert neither.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert both.error_code == ErrorCode.INVALID_REQUEST
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert unknown_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (gone.error_code, gone.name) == (0, "t")
        broker.config = replace(broker.config, delete_topic_enable=False)
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=5000)
        for version, error in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
            assert (await ask(delete_topics, broker, named, version)).responses[0].error_code == error

    play(scenario)


def test_a_topic_that_only_has_its_files_left_is_not_deleted_again() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t")))
        broker.channels.keeps_files = True
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=5000)
        codes = [(await ask(delete_topics, broker, named)).responses[0].error_code for _ in range(2)]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await broker.zookeeper.exists(topic_path("t")), "until the files are gone"

    play(scenario)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a" * 250])
def test_a_name_that_no_topic_has_never_becomes_a_path(name: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=300)
        assert (await ask(delete_topics, broker, doomed)).responses[
            0
        ].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=2)], timeout_ms=300)
        assert (await ask(create_partitions, broker, more)).results[
            0
        ].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_more_partitions() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1, 2)))

        async def raise_to(count: int, *replicas: list[int], name: str = "t", validate_only: bool = False) -> int:
            given = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas] or None
            topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=validate_only)
            code: int = (await ask(create_partitions, broker, request)).results[0].error_code
            return code

        assert await raise_to(3, validate_only=True) == 0
        assert broker.metadata.partition_count("t") == 1
        assert await raise_to(3) == 0
        assert broker.metadata.partition_count("t") == 3
        assert await raise_to(4, [2, 0]) == 0
        data, _ = await broker.zookeeper.get(topic_path("t"))
        assert TopicAssignment.decode("t", data).partitions[3].replicas == (2, 0)
        assert await raise_to(4) == await raise_to(2) == ErrorCode.INVALID_PARTITIONS
        assert await raise_to(5, [1], [2]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, [1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, [1, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await raise_to(5, name="x") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_elections_and_moves() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 1, 2)))
        asked = [TopicPartitions(topic="t", partitions=[0]), TopicPartitions(topic="x", partitions=[0])]
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(topic_partitions=asked))
        codes = [p.error_code for topic in answer.replica_election_results for p in topic.partition_result]
        assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(topic_partitions=None))
        assert not answer.replica_election_results, "null: only what had to be done"
        answer = await ask(elect_leaders, broker, ElectLeadersRequest(election_type=7, topic_partitions=asked))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        results = [p for topic in answer.replica_election_results for p in topic.partition_result]
        assert [p.error_code for p in results] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        state = broker.metadata.partition("t", 0)
        assert state is not None
        (other,) = {0, 1, 2} - set(state.replicas)
        move = ReassignableTopic(name="t", partitions=[ReassignablePartition(replicas=[other, state.replicas[0]])])
        moved = await ask(alter_partition_reassignments, broker, AlterPartitionReassignmentsRequest(topics=[move]))
        assert moved.responses[0].partitions[0].error_code == 0
        under_way = await ask(list_partition_reassignments, broker, ListPartitionReassignmentsRequest())
        (partition,) = under_way.topics[0].partitions
        assert (partition.adding_replicas, partition.removing_replicas) == ([other], [state.replicas[1]])

    play(scenario)


def test_requests_of_brokers() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t", 3, 1)))
        assert broker.controller.state is not None
        epoch = broker.controller.state.brokers[1].epoch
        block = await ask(allocate_producer_ids, broker, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        assert (block.error_code, block.producer_id_start, block.producer_id_len) == (0, 0, 1000)
        for version in range(4):
            stopped = await ask(controlled_shutdown, broker, ControlledShutdownRequest(broker_id=1), version)
            assert (stopped.error_code, stopped.remaining_partitions) == (0, [])
        unknown = await ask(controlled_shutdown, broker, ControlledShutdownRequest(broker_id=9))
        assert unknown.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        stale = await ask(alter_partition, broker, AlterPartitionRequest(broker_id=1, broker_epoch=1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    play(scenario)


def test_a_broker_that_is_not_the_controller_says_so() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock, active=False)
        topic = CreatePartitionsTopic(name="t", count=2)
        error = ErrorCode.NOT_CONTROLLER
        assert (await ask(create_topics, broker, creation(counted("t")))).topics[0].error_code == error
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        assert (await ask(delete_topics, broker, named)).responses[0].error_code == error
        more = CreatePartitionsRequest(topics=[topic])
        assert (await ask(create_partitions, broker, more)).results[0].error_code == error
        for module, request in (
            (alter_partition, AlterPartitionRequest()),
            (controlled_shutdown, ControlledShutdownRequest()),
            (allocate_producer_ids, AllocateProducerIdsRequest()),
            (elect_leaders, ElectLeadersRequest(topic_partitions=None)),
            (alter_partition_reassignments, AlterPartitionReassignmentsRequest()),
            (list_partition_reassignments, ListPartitionReassignmentsRequest()),
        ):
            assert (await ask(module, broker, request)).error_code == error
        assert not await broker.zookeeper.children("/brokers/topics")

    play(scenario)


def test_automatic_creation() -> None:
    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        racks = dict.fromkeys(range(3))

        async def create(topic: str, factor: int = 2) -> ErrorCode:
            return await auto_create_topic(
                broker.zookeeper, topic, racks, Defaults(1, factor), random.Random(1), {"cleanup.policy": "compact"}
            )

        assert await create("t") is ErrorCode.LEADER_NOT_AVAILABLE
        assert await create("t") is ErrorCode.LEADER_NOT_AVAILABLE, "somebody else was quicker: it is there"
        assert await create("a/b") is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await create("x", 4) is ErrorCode.INVALID_REPLICATION_FACTOR
        await rest(clock)
        assert broker.metadata.partition_count("t") == 1

    play(scenario)
