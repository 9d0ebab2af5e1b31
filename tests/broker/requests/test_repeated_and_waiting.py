"""Requests that name a partition twice, and those that wait for what cannot come, or for nobody."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.network.limits import LONG_WAIT_MS
from odradek.broker.transactions.transaction_coordinator import TransactionCoordinator
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import (
    PRODUCE_VERSION,
    TOPIC,
    accepted,
    connect,
    create_topic,
    produce_request,
)

VERSION = 11
FAR_MS = 2**31 - 1
Scene = Callable[[EmbeddedCluster, Any], Awaitable[None]]


def play(scene: Scene, **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {name.replace("_", "."): value for name, value in overrides.items()}
        async with EmbeddedCluster(clock, 1, settings) as cluster:
            await create_topic(cluster, [0])
            await scene(cluster, await connect(cluster, cluster.brokers[0]))

    run_virtual(main)


async def produce(client: Any, times: int) -> int:
    """Send equal batches; returns the bytes of each."""
    for _ in range(times):
        assert accepted(await client.ask(produce_request(), PRODUCE_VERSION))
    return len(produce_request().topic_data[0].partition_data[0].records or b"")


def fetch(offsets: list[int], **fields: Any) -> FetchRequest:
    """Ask for partition 0, once for each offset."""
    partitions = [FetchPartition(partition=0, fetch_offset=one, partition_max_bytes=1 << 20) for one in offsets]
    defaults = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)] if partitions else []
    return FetchRequest(topics=topics, **(defaults | fields))


def indexes_and_sizes(response: Any) -> list[tuple[int, int]]:
    return [(one.partition_index, len(one.records or b"")) for topic in response.responses for one in topic.partitions]


async def timed(clock: Any, awaited: Awaitable[Any]) -> tuple[float, Any]:
    """The virtual seconds that it took, and its result."""
    began_ms = clock.monotonic_ms()
    answer = await awaited
    return (clock.monotonic_ms() - began_ms) / 1000.0, answer


def test_a_partition_that_is_fetched_twice_is_answered_once_as_asked_last() -> None:
    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        size = await produce(client, 2)
        second = cluster.brokers[0].server.services.replicas.partitions[TOPIC, 0].log.log_end_offset // 2
        assert indexes_and_sizes(await client.ask(fetch([0, 0, second]), VERSION)) == [(0, size)]
        opened = await client.ask(fetch([0] * 5, session_epoch=0), VERSION)
        session = {"session_id": opened.session_id}
        sessions = cluster.brokers[0].server.services.fetch_sessions
        assert len(sessions.partitions(opened.session_id)) == 1
        assert indexes_and_sizes(await client.ask(fetch([2 * second], session_epoch=1, **session), VERSION)) == []
        forgotten = [ForgottenTopic(topic=TOPIC, partitions=[0])]
        last = await client.ask(fetch([], session_epoch=2, forgotten_topics_data=forgotten, **session), VERSION)
        assert (indexes_and_sizes(last), sessions.partitions(opened.session_id)) == ([], [])

    play(scene)


def test_more_than_may_be_answered_is_not_waited_for() -> None:
    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        size = await produce(client, 20)
        asked = fetch([0], min_bytes=1 << 20, max_bytes=2 * size, max_wait_ms=10_000)
        took, answer = await timed(cluster.clock, client.ask(asked, VERSION))
        assert took < 1 and indexes_and_sizes(answer) == [(0, 2 * size)]

    play(scene)


def test_the_end_of_a_segment_is_not_waited_at_while_there_are_later_ones() -> None:
    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        size = await produce(client, 1)
        per_segment = 2000 // size
        await produce(client, 4 * per_segment)
        log = cluster.brokers[0].server.services.replicas.partitions[TOPIC, 0].log
        assert len(log.segments) > 3
        asked = fetch([0], min_bytes=3 * per_segment * size, max_wait_ms=10_000)
        took, answer = await timed(cluster.clock, client.ask(asked, VERSION))
        assert took < 1 and indexes_and_sizes(answer) == [(0, per_segment * size)]
        in_the_last = fetch([log.segments[-1].base_offset], min_bytes=1 << 19, max_wait_ms=10_000)
        took, _ = await timed(cluster.clock, client.ask(in_the_last, VERSION))
        assert took >= 10, "here there may be more to come"

    play(scene, log_segment_bytes="2000")


@pytest.mark.parametrize("max_wait_ms", [500, FAR_MS])
def test_nobody_is_waited_for_long_who_has_gone(max_wait_ms: int) -> None:
    """He may have shut one half of his connection, and read the other."""

    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        purgatory = cluster.brokers[0].server.services.replicas.purgatory
        other = await connect(cluster, cluster.brokers[0])
        before = len(purgatory)
        waiting = asyncio.ensure_future(other.ask(fetch([0], max_wait_ms=max_wait_ms), VERSION))
        while len(purgatory) == before:
            await asyncio.sleep(0.01)
        waiting.cancel()
        other.close()
        await asyncio.sleep(min(max_wait_ms, LONG_WAIT_MS) / 1000 + 1)
        assert len(purgatory) == before

    play(scene)


def test_the_coordinator_may_answer_when_its_broker_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for other replicas ends after the server, which serves no request any more: the answer failed, and
    the log said that the action after an append had failed."""
    answers: list[Callable[[ErrorCode], object]] = []
    monkeypatch.setattr(TransactionCoordinator, "add_partitions", lambda *asked, connection: answers.append(asked[-1]))

    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        waiting = asyncio.ensure_future(client.ask(added, 3))
        while not answers:
            await asyncio.sleep(0.01)
        await cluster.brokers[0].stop()
        waiting.cancel()
        answers[0](ErrorCode.NOT_COORDINATOR)

    play(scene)


def test_a_partition_whose_offsets_are_asked_for_twice_is_refused() -> None:
    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        asked = [ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=1) for _ in range(2)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)])
        for version, error in ((0, ErrorCode.NONE), (1, ErrorCode.INVALID_REQUEST), (7, ErrorCode.INVALID_REQUEST)):
            answer = await client.ask(request, version)
            assert [one.error_code for one in answer.topics[0].partitions] == [error, error], version

    play(scene)


def test_a_topic_that_metadata_is_asked_for_twice_is_told_once() -> None:
    async def scene(cluster: EmbeddedCluster, client: Any) -> None:
        topics = [MetadataRequestTopic(name=name) for name in (TOPIC, "nowhere", TOPIC, "nowhere")]
        answer = await client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
        assert [one.name for one in answer.topics] == [TOPIC, "nowhere"]

    play(scene)
