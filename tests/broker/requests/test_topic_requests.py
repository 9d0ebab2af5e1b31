"""CreateTopics and DeleteTopics: what is made, refused, and answered when brokers are slow."""

import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from odradek.broker.requests import (
    create_partitions,
    create_topics,
    delete_topics,
)
from odradek.broker.settings.catalog import TOPIC_SETTINGS
from odradek.broker.settings.layers import Source
from odradek.controller.deletion_marks import mark_for_deletion
from odradek.controller.topic_admin import Defaults, NewTopic, auto_create_topic, create_topic, new_topic_id
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.primitives import ZERO_UUID
from odradek.testing.virtual_clock import VirtualClock
from odradek.zk_schema import store
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.configs import decode_config, topic_config_path
from odradek.zk_schema.znodes.json_data import uuid_text
from odradek.zk_schema.znodes.topics import topic_path
from tests.broker.requests.controlled_cluster import ask, counted, creation, play, rest, start


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


def test_what_is_too_large_for_zookeeper_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's connection was cut off, and again at each of its attempts, which had no end."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        monkeypatch.setattr(store, "WRITE_BYTES_MAX", 3000)
        replicas = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(range(1000)))]
        large = CreatableTopic(name="large", assignments=replicas, num_partitions=-1, replication_factor=-1)
        answer = await ask(create_topics, broker, creation(large, counted("small", 1)))
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
        assert (answer.topics[0].error_message or "").startswith("/brokers/topics/large: more than the ")
        for count, error in ((10, ErrorCode.NONE), (400, ErrorCode.POLICY_VIOLATION)):
            further = CreatePartitionsTopic(name="small", count=count, assignments=None)
            request = CreatePartitionsRequest(topics=[further], timeout_ms=300)
            assert (await ask(create_partitions, broker, request)).results[0].error_code == error

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


@pytest.mark.parametrize(
    "module, request_of_a_topic",
    [
        (create_topics, creation(counted("new"))),
        (create_partitions, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=9)], timeout_ms=300)),
        (delete_topics, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=300)),
    ],
)
def test_a_controller_whose_session_ends_sends_the_client_to_the_next_one(
    module: ModuleType, request_of_a_topic: Message
) -> None:
    """It said so when it had ZooKeeper again; until then the client waited, while another broker was the controller."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        assert (await ask(create_topics, broker, creation(counted("t")))).topics[0].error_code == 0
        broker.zookeeper.cut(unnoticed_ms=0)
        assert broker.controller.is_active
        answer = await ask(module, broker, request_of_a_topic)
        (result,) = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
        assert result.error_code == ErrorCode.NOT_CONTROLLER

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


def test_a_topic_named_twice_that_is_gone_by_the_second_time_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer was UNKNOWN_TOPIC_OR_PARTITION then, and kafka-go, which keeps the last one, reported that."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t"), counted("by-id")))

        async def mark_and_wait(store: Any, topic: str) -> None:
            await mark_for_deletion(store, topic)
            while await store.exists(topic_path(topic)):
                await rest(clock)

        monkeypatch.setattr(delete_topics, "mark_for_deletion", mark_and_wait)
        topic_id = broker.metadata.topic_id("by-id")
        named = [DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id), DeleteTopicState(name="unknown")]
        request = DeleteTopicsRequest(topics=named * 2, timeout_ms=5000)
        answers = (await ask(delete_topics, broker, request)).responses
        first, second = answers[:3], answers[3:]
        assert [one.error_code for one in first] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (first[1].name, first[1].topic_id) == ("by-id", topic_id)
        assert second == first

    play(scenario)


def test_a_topic_whose_deletion_ends_meanwhile_is_not_marked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark would be for the next topic of that name, which nobody wants to be deleted."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock)
        await ask(create_topics, broker, creation(counted("t")))
        named = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000)
        exists, others = broker.zookeeper.exists, [named]

        async def exists_until_it_is_asked(path: str, **watch: bool) -> Any:
            found = await exists(path, **watch)
            if path == topic_path("t") and others:
                assert (await ask(delete_topics, broker, others.pop())).responses[0].error_code == ErrorCode.NONE
                while await exists(topic_path("t")):
                    await rest(clock)
            return found

        monkeypatch.setattr(broker.zookeeper, "exists", exists_until_it_is_asked)
        with pytest.raises(KafkaError) as refused:
            await mark_for_deletion(broker.zookeeper, "t")
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await exists(delete_topic_path("t")) is None

    play(scenario)


def test_no_topic_is_created_that_a_mark_would_have_deleted() -> None:
    """One of Kafka's brokers may have left it; the controller takes it away."""

    async def scenario(clock: VirtualClock) -> None:
        broker = await start(clock, active=False)
        await broker.zookeeper.create(delete_topic_path("t"), b"")
        with pytest.raises(KafkaError, match="Topic 't' is marked for deletion") as refused:
            new, defaults = NewTopic("t"), Defaults(1, 1)
            await create_topic(broker.zookeeper, new, {0: None}, defaults, broker.random, lambda settings: None)
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await broker.zookeeper.exists(topic_path("t")) is None

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


def test_no_topic_id_looks_like_an_option_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [bytes([first]) * 16 for first in (0xF8, 0xFB, 0xFC)]
    randomness = random.Random()
    monkeypatch.setattr(randomness, "randbytes", lambda count: drawn.pop(0))
    assert uuid_text(new_topic_id(randomness)).startswith("_")
    assert drawn == []


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
