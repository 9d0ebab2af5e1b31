"""Texts of an application that no request can hold: said at once. Brokers close the connection on which they come."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek import ConfigResource, NewTopic, OffsetAndMetadata, TopicPartition
from odradek.aio import Admin, Consumer
from odradek.client.errors import ConfigError
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
