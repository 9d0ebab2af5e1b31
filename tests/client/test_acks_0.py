"""Records that no broker acknowledges (acks=0): what can be promised of them all the same."""

from typing import Any

import pytest

from odradek import NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.errors import BufferExhausted, ClientTimeout
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import PIPE_BYTES

SERVER = "broker-0:9092"
PLACE = TopicPartition("t", 0)
VALUE = b"x" * 10_000
MORE_THAN_SOCKETS_HOLD = 4 * PIPE_BYTES // len(VALUE)


async def world_of(cluster: EmbeddedCluster, clock: VirtualClock, **settings: str) -> dict[str, Any]:
    """Make the topic; return what its clients are to be made with."""
    world: dict[str, Any] = {"network": cluster.network.host("client"), "clock": clock}
    async with Admin(bootstrap_servers=SERVER, **world) as admin:
        await admin.create_topics([NewTopic("t", 1, 1, configs=settings)])
    return world


async def end_offset(world: dict[str, Any]) -> int:
    async with Consumer(bootstrap_servers=SERVER, **world) as consumer:
        return (await consumer.end_offsets([PLACE]))[PLACE]


def test_who_closes_has_sent_everything() -> None:
    """What the operating system had not taken yet was thrown away, and had been called delivered."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world = await world_of(cluster, clock)
            async with Producer(bootstrap_servers=SERVER, acks=0, **world) as producer:
                for _ in range(MORE_THAN_SOCKETS_HOLD):
                    await producer.send("t", VALUE, partition=0)
            assert await end_offset(world) == MORE_THAN_SOCKETS_HOLD

    run_virtual(main)


def test_a_broker_that_does_not_read_fills_the_producers_memory_and_no_more() -> None:
    """Records counted as delivered before they were sent: there was no bound but 512 MB, and then all were lost."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world = await world_of(cluster, clock)
            settings: dict[str, Any] = {"acks": 0, "buffer_memory": 100_000, "max_block_ms": 1_000}
            async with Producer(bootstrap_servers=SERVER, **settings, **world) as producer:
                await producer.send("t", VALUE, partition=0)
                await producer.flush()
                cluster.brokers[0].suspend()
                with pytest.raises(BufferExhausted):
                    for _ in range(MORE_THAN_SOCKETS_HOLD):
                        await producer.send("t", VALUE, partition=0)
                cluster.brokers[0].resume()

    run_virtual(main)


def test_batches_are_no_larger_than_kafkas() -> None:
    """A topic whose max.message.bytes are between Kafka's default batch and ours took none: nobody heard."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world = await world_of(cluster, clock, **{"max.message.bytes": "20000"})
            async with Producer(bootstrap_servers=SERVER, acks=0, linger_ms=10, **world) as producer:
                for _ in range(100):
                    await producer.send("t", b"%01000d" % 0, partition=0)
            assert await end_offset(world) == 100

    run_virtual(main)


def test_a_broker_that_reads_nothing_for_long_fails_the_records() -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world = await world_of(cluster, clock)
            settings: dict[str, Any] = {"acks": 0, "request_timeout_ms": 1_000, "delivery_timeout_ms": 3_000}
            async with Producer(bootstrap_servers=SERVER, **settings, **world) as producer:
                await producer.send("t", VALUE, partition=0)
                await producer.flush()
                cluster.brokers[0].suspend()
                began_ms = clock.monotonic_ms()
                futures = [await producer.send("t", VALUE, partition=0) for _ in range(MORE_THAN_SOCKETS_HOLD)]
                with pytest.raises(ClientTimeout):
                    await futures[-1]
                assert clock.monotonic_ms() - began_ms < 3_500
                cluster.brokers[0].resume()

    run_virtual(main)
