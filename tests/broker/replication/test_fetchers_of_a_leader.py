"""How a follower spreads its partitions over the fetchers that it has for a leader."""

import asyncio

from odradek.broker.cluster.peer import Peer
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

LEADER, FOLLOWER = 0, 1
TOPICS = [f"t{number}" for number in range(20)]


def test_topics_of_one_partition_are_spread_too() -> None:
    """All were copied over one connection, however many `num.replica.fetchers` allows."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 2, {"num.replica.fetchers": "4"}) as cluster:
            leader, follower = cluster.brokers
            peer = Peer(cluster.network.host("client"), clock, leader.host, cluster.port, "test")
            for topic in TOPICS:
                await peer.request(create_topic_request(topic, [LEADER, FOLLOWER]), 7, 60_000)
            while len(follower.server.services.replicas.partitions) < len(TOPICS):
                await asyncio.sleep(0.05)
            names = {task.get_name() for task in asyncio.all_tasks()}
            fetchers = {f"fetcher-{FOLLOWER}-from-{LEADER}-{number}" for number in range(4)}
            assert fetchers <= names

    run_virtual(main)
