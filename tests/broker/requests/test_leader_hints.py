"""What a broker that does not lead a partition says of its leader (KIP-951)."""

import asyncio
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import create_topic_request, produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

LEADER, ASKED = 0, 1


def answered(kind: str, topic_id: bytes) -> tuple[Message, int]:
    if kind == "produce":
        return produce_request("t", bytes(make_batch([b"x"]))), 10
    asked = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    return FetchRequest(max_wait_ms=0, topics=[asked]), 16


@pytest.mark.parametrize(
    ("kind", "replicas"), [("produce", [LEADER, ASKED]), ("produce", [LEADER]), ("fetch", [LEADER])]
)
def test_the_leader_is_named_with_or_without_a_replica(kind: str, replicas: list[int]) -> None:
    """A broker that had given its replica away named nobody: clients had to ask for the metadata first."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=2) as cluster:
            network = cluster.network.host("client")
            peers = [Peer(network, clock, broker.host, cluster.port, "test") for broker in cluster.brokers]
            created: Any = await peers[LEADER].request(create_topic_request("t", replicas), 7, 60_000)
            metadata = cluster.brokers[ASKED].server.services.metadata
            while metadata.partition("t", 0) is None:
                await asyncio.sleep(0.05)
            response: Any = await peers[ASKED].request(*answered(kind, created.topics[0].topic_id), 60_000)
            topic = response.responses[0]
            (answer,) = topic.partition_responses if kind == "produce" else topic.partitions
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (LEADER, 0)
            (node,) = response.node_endpoints
            assert (node.node_id, node.host, node.port) == (LEADER, cluster.brokers[LEADER].host, cluster.port)

    run_virtual(main)
