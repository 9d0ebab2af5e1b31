"""Records that no broker acknowledges (acks=0): what can be promised of them all the same."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from odradek import NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.errors import BufferExhausted, ClientTimeout
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_pipe import PIPE_BYTES

SERVER = "broker-0:9092"
PLACE = TopicPartition("t", 0)
VALUE = b"x" * 10_000
MORE_THAN_SOCKETS_HOLD = 4 * PIPE_BYTES // len(VALUE)


class World:
    """A cluster of one broker, which has the topic, and what its clients are made with."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.broker, self.clock = cluster.brokers[0], clock
        self.settings: dict[str, Any] = {
            "bootstrap_servers": SERVER, "network": cluster.network.host("client"), "clock": clock,
        }  # fmt: skip

    def producer(self, **settings: Any) -> Producer:
        return Producer(acks=0, **settings, **self.settings)

    async def end_offset(self) -> int:
        async with Consumer(**self.settings) as consumer:
            return (await consumer.end_offsets([PLACE]))[PLACE]


@asynccontextmanager
async def world_of(clock: VirtualClock, **configs: str) -> AsyncIterator[World]:
    async with EmbeddedCluster(clock, 1) as cluster:
        world = World(cluster, clock)
        async with Admin(**world.settings) as admin:
            await admin.create_topics([NewTopic("t", 1, 1, configs=configs)])
        yield world


def test_who_closes_has_sent_everything() -> None:
    """What the operating system had not taken yet was thrown away, and had been called delivered."""

    async def main(clock: VirtualClock) -> None:
        async with world_of(clock) as world:
            async with world.producer() as producer:
                for _ in range(MORE_THAN_SOCKETS_HOLD):
                    await producer.send("t", VALUE, partition=0)
            assert await world.end_offset() == MORE_THAN_SOCKETS_HOLD

    run_virtual(main)


def test_a_broker_that_does_not_read_fills_the_producers_memory_and_no_more() -> None:
    """Records counted as delivered before they were sent: there was no bound but 512 MB, and then all were lost."""

    async def main(clock: VirtualClock) -> None:
        async with world_of(clock) as world, world.producer(buffer_memory=100_000, max_block_ms=1_000) as producer:
            await producer.send("t", VALUE, partition=0)
            await producer.flush()
            world.broker.suspend()
            with pytest.raises(BufferExhausted):
                for _ in range(MORE_THAN_SOCKETS_HOLD):
                    await producer.send("t", VALUE, partition=0)
            world.broker.resume()

    run_virtual(main)


def test_batches_are_no_larger_than_kafkas() -> None:
    """A topic whose max.message.bytes are between Kafka's default batch and ours took none: nobody heard."""

    async def main(clock: VirtualClock) -> None:
        async with world_of(clock, **{"max.message.bytes": "20000"}) as world:
            async with world.producer(linger_ms=10) as producer:
                for _ in range(100):
                    await producer.send("t", b"%01000d" % 0, partition=0)
            assert await world.end_offset() == 100

    run_virtual(main)


def test_a_broker_that_reads_nothing_for_long_fails_the_records() -> None:
    async def main(clock: VirtualClock) -> None:
        settings: dict[str, Any] = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 3_000}
        async with world_of(clock) as world, world.producer(**settings) as producer:
            await producer.send("t", VALUE, partition=0)
            await producer.flush()
            world.broker.suspend()
            began_ms = clock.monotonic_ms()
            futures = [await producer.send("t", VALUE, partition=0) for _ in range(MORE_THAN_SOCKETS_HOLD)]
            with pytest.raises(ClientTimeout):
                await futures[-1]
            assert clock.monotonic_ms() - began_ms < 3_500
            world.broker.resume()

    run_virtual(main)
