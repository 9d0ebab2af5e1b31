"""What a client believes of a broker that has just started: nothing, until the controller has told it what there is."""

from typing import Any

from odradek.aio import Admin
from odradek.client.admin.values import NewTopic
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual


def test_a_broker_that_was_told_nothing_yet_is_not_believed() -> None:
    """It names no brokers and no topics: a topic that it was asked about did not exist, and one that a pattern had
    found was gone."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2) as cluster:
            world: dict[str, Any] = {"network": cluster.network.host("client"), "clock": clock}
            async with Admin(bootstrap_servers="broker-0:9092,broker-1:9092", **world) as admin:
                await admin.create_topics([NewTopic("t", replica_assignments={0: [0]})])
                await cluster.brokers[1].stop()
                cluster.network.cut("broker-0", "broker-1")
                await cluster.brokers[1].start()
            for _ in range(10):
                async with Admin(bootstrap_servers="broker-0:9092,broker-1:9092", **world) as admin:
                    assert [one.name for one in await admin.describe_topics(["t"])] == ["t"]
                    assert [one.name for one in await admin.describe_topics()] == ["t"]

    run_virtual(main)
