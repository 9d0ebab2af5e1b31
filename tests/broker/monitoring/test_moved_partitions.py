"""Metrics of a partition that is being reassigned: what an alert on under-replicated partitions sees of it."""

import asyncio

import pytest

from odradek.protocol.topic_names import TopicPartition
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.scraping import METRICS_PORT, scrape
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.way_through import TOPIC, create_topic

SETTINGS = {"metrics.port": str(METRICS_PORT)}
LEADER, STAYS, NEW = 0, 1, 2


async def told(cluster: EmbeddedCluster) -> tuple[float, float, float]:
    """Return how many partitions are under-replicated, whether this one is, and how many replicas count."""
    found = await scrape(cluster, cluster.brokers[LEADER])
    return (
        found.value("kafka_server_replicamanager_underreplicatedpartitions"),
        found.value("kafka_cluster_partition_underreplicated", topic=TOPIC),
        found.value("kafka_cluster_partition_replicascount", topic=TOPIC),
    )


@pytest.mark.parametrize(("target", "replicas"), [([LEADER, STAYS, NEW], 3), ([LEADER, NEW], 2)])
def test_replicas_that_a_reassignment_adds_count_when_it_is_done(target: list[int], replicas: int) -> None:
    """Each planned move raised the alert, for as long as it took."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            await create_topic(cluster, [LEADER, STAYS])
            assert await told(cluster) == (0, 0, 2)
            cluster.network.cut(cluster.brokers[LEADER].host, cluster.brokers[NEW].host)
            (active,) = (one.server.services for one in cluster.brokers if one.server.services.controller.is_active)
            await active.controller.alter_reassignments({TopicPartition(TOPIC, 0): target})
            partition = cluster.brokers[LEADER].server.services.replicas.partitions[TOPIC, 0]
            while NEW not in partition.replicas:
                await asyncio.sleep(0.1)
            assert await told(cluster) == (0, 0, 2)
            cluster.network.heal()
            while active.controller.state is None or active.controller.state.reassigning:
                await asyncio.sleep(0.1)
            while len(partition.replicas) != replicas or NEW not in partition.committed_isr:
                await asyncio.sleep(0.1)
            assert await told(cluster) == (0, 0, replicas)

    run_virtual(main)
