"""The fetcher of the ConsumerConnector against a scripted broker."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.aio import Admin, Producer
from odradek.client.admin.values import NewTopic
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, UnsupportedByBroker
from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.consumption import Consumption
from odradek.client.zookeeper.fetch_loop import FetchLoop
from odradek.client.zookeeper.streams import ConsumerTimeout, MessageStream
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fields import Message
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)
LOG_END = 100
Broker = Any
"""tests/client/conftest.ScriptedBroker."""


class World:
    """A log of offsets `start` … 99 of one partition, answered one message at a time, and one stream."""

    def __init__(self, clock: VirtualClock, scripted_broker: Callable[..., Broker]) -> None:
        network = VirtualNetwork(clock)
        self.broker = scripted_broker(network)
        self.broker.handlers[FetchRequest] = self.fetch
        self.broker.handlers[ListOffsetsRequest] = self.offsets
        self.start = 10
        self.errors: list[ErrorCode] = []
        self.stored: dict[TopicPartition, int] = {}
        self.settings = settings_of({"zookeeper.connect": "z", "group.id": "g"}, {"auto_offset_reset": "smallest"})
        self.consumption = Consumption(clock, self, self.stored)
        self.stream = MessageStream(2, 0, None, None, self.consumption.wake)
        brokers = self.settings.for_brokers(["broker:9092"])
        self.cluster = Cluster(network.host("client"), clock, random.Random(2), brokers)
        self.fetcher = FetchLoop(self.cluster, brokers, self.consumption, self.settings.reset_timestamp)

    def stream_of(self, topic: str, thread: int) -> MessageStream:
        return self.stream

    def fetch(self, request: FetchRequest) -> FetchResponse | None:
        asked = request.topics[0].partitions[0].fetch_offset
        if self.errors:
            data = PartitionData(partition_index=0, error_code=self.errors.pop(0))
        elif not self.start <= asked <= LOG_END:
            data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        elif asked == LOG_END:
            return None
        else:
            batch = bytes(encode_batch(asked, [0], [None], [b"x"]))
            data = PartitionData(partition_index=0, high_watermark=LOG_END, records=batch)
        topic = request.topics[0]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=topic.topic_id, partitions=[data])])

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        offset = {-1: LOG_END, -2: self.start}[request.topics[0].partitions[0].timestamp]
        one = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

    def asked(self) -> list[int]:
        return [request.topics[0].partitions[0].fetch_offset for request in self.broker.requests(FetchRequest)]

    async def read(self, count: int) -> list[int]:
        found = []
        for _ in range(count):
            await asyncio.sleep(1)
            found.append(next(self.stream).offset)
        return found


@pytest.fixture
def play(scripted_broker: Callable[..., Broker]) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    def run(test: Callable[[World], Awaitable[None]]) -> None:
        async def main(clock: VirtualClock) -> None:
            world = World(clock, scripted_broker)
            running = asyncio.ensure_future(world.fetcher.run())
            await test(world)
            running.cancel()
            world.cluster.close()

        run_virtual(main)

    return run


Play = Callable[[Callable[[World], Awaitable[None]]], None]


def test_it_reads_ahead_as_far_as_the_stream_allows(play: Play) -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(10)
        assert world.asked() == [20, 21], "queued.max.message.chunks"
        assert await world.read(3) == [20, 21, 22]
        await asyncio.sleep(10)
        assert world.asked() == [20, 21, 22, 23, 24]

    play(test)


def test_without_an_offset_it_starts_by_auto_offset_reset(play: Play) -> None:
    async def test(world: World) -> None:
        world.consumption.start({T0: "g_a-0"})
        assert await world.read(2) == [10, 11]

    play(test)


@pytest.mark.parametrize("stored", [3, 500])
def test_out_of_range_starts_anew(play: Play, stored: int) -> None:
    async def test(world: World) -> None:
        world.stored[T0] = stored
        world.consumption.start({T0: "g_a-0"})
        assert await world.read(2) == [10, 11]

    play(test)


def test_what_was_read_ahead_is_handed_out_before_it_starts_anew(play: Play) -> None:
    async def test(world: World) -> None:
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(10)
        world.start = 50
        assert await world.read(2) == [20, 21]
        with pytest.raises(ConsumerTimeout):
            next(world.stream)
        assert world.consumption.consumed(in_hand=False) == {T0: 22}
        assert await world.read(1) == [50]

    play(test)


def test_a_leader_that_is_none_any_more_is_looked_for(play: Play) -> None:
    async def test(world: World) -> None:
        world.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        assert await world.read(1) == [20]
        assert len(world.broker.requests(MetadataRequest)) == 3

    play(test)


def test_what_cannot_be_read_is_said_and_tried_again(play: Play) -> None:
    async def test(world: World) -> None:
        world.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(1)
        with pytest.raises(KafkaError, match="t-0: cannot be read at offset 20"):
            next(world.stream)
        assert await world.read(1) == [20]

    play(test)


def test_a_message_that_is_too_large_is_said(play: Play) -> None:
    async def test(world: World) -> None:
        def part_of_a_batch(request: FetchRequest) -> FetchResponse:
            data = PartitionData(partition_index=0, records=bytes(encode_batch(20, [0], [None], [b"x" * 99]))[:80])
            topic = request.topics[0]
            answer = FetchableTopicResponse(topic="t", topic_id=topic.topic_id, partitions=[data])
            return FetchResponse(responses=[answer])

        world.broker.handlers[FetchRequest] = part_of_a_batch
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(1)
        with pytest.raises(ClientError, match=r"larger than fetch\.message\.max\.bytes=1048576"):
            next(world.stream)

    play(test)


def test_an_answer_after_the_release_is_not_for_the_next_claim(play: Play) -> None:
    """Asked at 20, released, claimed again at 60 before the answer is here."""

    async def test(world: World) -> None:
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        while not world.asked():
            await asyncio.sleep(0.0001)
        world.consumption.abandon()
        world.stored[T0] = 60
        world.consumption.start({T0: "g_a-0"})
        assert await world.read(2) == [60, 61]

    play(test)


@pytest.mark.parametrize("kind", [FetchRequest, ListOffsetsRequest])
def test_what_a_broker_does_not_serve_is_said_and_asked_again_with_pauses(play: Play, kind: type[Message]) -> None:
    """One kind was never asked again, the other without end at one moment."""

    async def test(world: World) -> None:
        served = world.broker.highest.pop(kind.API_KEY)
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(1)
        with pytest.raises(UnsupportedByBroker):
            next(world.stream)
        world.broker.highest[kind.API_KEY] = served
        world.broker.network.reset("broker")
        await asyncio.sleep(1)
        while True:
            try:
                assert await world.read(1) == [10]
            except UnsupportedByBroker:  # said again before the connection broke
                continue
            break

    play(test)


def test_a_partition_that_an_answer_leaves_out_is_asked_for_after_a_pause(play: Play) -> None:
    """It was asked for again at once, as fast as the broker answered."""

    async def test(world: World) -> None:
        world.broker.handlers[FetchRequest] = lambda _: FetchResponse(responses=[])
        world.stored[T0] = 20
        world.consumption.start({T0: "g_a-0"})
        await asyncio.sleep(10)
        pause_ms = world.cluster.config.retry_backoff_ms
        assert 0 < len(world.asked()) <= 10_000 / pause_ms + 1

    play(test)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_partition_without_a_leader_keeps_nobody_from_reading_the_others(frozen: bool) -> None:
    """The offsets of all were awaited for as long as socket.timeout.ms, those that were known by then dropped, and
    nothing was read at all for ever."""

    class OneStream:
        def stream_of(self, topic: str, thread: int) -> MessageStream:
            return stream

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as embedded:
            host = embedded.network.host("client")
            world: dict[str, Any] = {"bootstrap_servers": "broker-0:9092", "network": host, "clock": clock}
            async with Admin(**world) as admin:
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0], 1: [1]})])
            async with Producer(**world) as producer:
                await (await producer.send("t", b"", partition=0))
            if frozen:
                embedded.brokers[1].suspend()
            else:
                await embedded.brokers[1].stop()
            settings = settings_of({"zookeeper.connect": "z", "group.id": "g"}, {"auto_offset_reset": "smallest"})
            consumption = Consumption(clock, OneStream(), {})
            nonlocal stream
            stream = MessageStream(2, 0, None, None, consumption.wake)
            brokers = settings.for_brokers(["broker-0:9092"])
            cluster = Cluster(host, clock, random.Random(2), brokers)
            running = asyncio.ensure_future(FetchLoop(cluster, brokers, consumption, settings.reset_timestamp).run())
            consumption.start({T0: "g_a-0", TopicPartition("t", 1): "g_a-0"})
            await asyncio.sleep(10)
            running.cancel()
            cluster.close()
            embedded.brokers[1].resume()
            assert next(stream).partition == 0

    stream: MessageStream
    run_virtual(main)


def test_a_partition_out_of_range_does_not_wait_for_one_without_a_leader(play: Play) -> None:
    """Both were looked up together, and the first one not again before the second was found too, or its time over."""

    async def test(world: World) -> None:
        world.consumption.start({T0: "g_a-0", TopicPartition("t", 1): "g_a-0"})
        assert await world.read(1) == [10]
        world.start = 50
        assert await world.read(1) == [11]
        with pytest.raises(ConsumerTimeout):
            next(world.stream)  # now all from before is done with
        assert await world.read(1) == [50]

    play(test)
