"""Connectors that are asked for things sooner, or later, than usual, on a cluster in memory."""

import random

from odradek.client.records import TopicPartition
from odradek.client.zookeeper.config import settings_of
from odradek.client.zookeeper.core import ConnectorCore
from odradek.testing import run
from odradek.testing.virtual_run import VirtualCluster

T0 = TopicPartition("t", 0)


async def connect(cluster: VirtualCluster, **settings: object) -> ConnectorCore:
    embedded = cluster.embedded
    store = embedded.zookeeper.connect(session_timeout_ms=6_000, clock=embedded.clock)
    await store.start(1_000)
    given = settings_of({"zookeeper.connect": "memory", "group.id": "g"}, settings)
    return ConnectorCore(
        given, store, embedded.clock, random.Random(1), "host", lambda _: embedded.network.host("program")
    )


def test_offsets_can_be_set_in_kafka_before_the_member_joins() -> None:
    """It was refused, with the claim that no broker was registered; in ZooKeeper they could be set."""

    async def main(cluster: VirtualCluster) -> None:
        core = await connect(cluster, offsets_storage="kafka", dual_commit_enabled=False)
        await core.commit({T0: 5})
        assert await core.keeper.read([T0]) == {T0: 5}
        await core.close(in_hand=True)

    run(main, brokers=1, topics={"t": 1})
