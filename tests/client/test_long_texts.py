"""Texts of an application that no request can hold: said at once. Brokers close the connection on which they come."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek import ConfigResource, ConsumerGroupMetadata, NewTopic, OffsetAndMetadata, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.errors import ConfigError
from odradek.testing import run
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

LONG = "x" * 40_000
T0 = TopicPartition("t", 0)


async def alter_configs(world: dict[str, Any]) -> None:
    async with Admin(**world) as admin:
        await admin.alter_configs([ConfigResource("TOPIC", "t", {"leader.replication.throttled.replicas": LONG})])


async def describe_users(world: dict[str, Any]) -> None:
    async with Admin(**world) as admin:
        await admin.describe_user_scram_credentials([LONG])


async def commit(world: dict[str, Any]) -> None:
    async with Consumer(group_id="g", **world) as consumer:
        consumer.assign([T0])
        await consumer.commit({T0: OffsetAndMetadata(1, LONG, -1)})


@pytest.mark.parametrize("work", [alter_configs, describe_users, commit])
def test_it_is_the_text_that_is_wrong_and_not_the_cluster(work: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """It was tried again until the time was over, or told as a broker that cannot be reached."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1) as cluster:
            world: dict[str, Any] = {
                "network": cluster.network.host("client"),
                "clock": clock,
                "bootstrap_servers": f"broker-0:{cluster.port}",
            }
            async with Admin(**world) as admin:
                await admin.create_topics([NewTopic("t", 1, 1)])
            with pytest.raises(ConfigError, match="a text has at most 32767 bytes, not 40000"):
                await work(world)

    run_virtual(main)


def test_a_long_text_with_the_offsets_of_a_transaction_does_not_break_the_producer() -> None:
    """It was sent by a task of the producer, which failed everything from then on."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="id") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                report = await producer.send("t", b"x")
                for position, group in ((OffsetAndMetadata(1, LONG), "g"), (OffsetAndMetadata(1), LONG)):
                    with pytest.raises(ConfigError, match="a text has at most 32767 bytes, not 40000"):
                        await producer.send_offsets_to_transaction({T0: position}, ConsumerGroupMetadata(group))
                await producer.send_offsets_to_transaction({T0: 1}, ConsumerGroupMetadata("g"))
            assert (await report).offset == 0

    run(main, brokers=1, topics={"t": 1}, seed=7)
