"""A broker that stands still for longer than its session, and then finds everything that was sent to it meanwhile."""

import asyncio
import random

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.topic_names import CONSUMER_OFFSETS
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.history import History
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"


def leads(broker: EmbeddedBroker, topic: str = TOPIC) -> bool:
    partition = broker.server.services.replicas.partitions.get((topic, 0))
    return partition is not None and partition.is_leader


def test_what_a_controller_said_to_a_registration_that_is_over_makes_nobody_lead() -> None:
    """A LeaderAndIsr waited in the socket of a suspended broker. It was obeyed after the session had expired and before
    the broker was registered anew: it led in an epoch that was over, and took records with acks=1 that were lost."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=3) as cluster:
            cluster.zookeeper.draw_latency_ms = lambda: 20.0
            administrator = Administrator(cluster, History(clock), random.Random(0), TOPIC, [])
            await asyncio.sleep(2)
            others = [broker for broker in cluster.brokers if not broker.server.services.controller.is_active]
            suspended, other = others[:2]
            suspended.suspend()
            await administrator.ask_controller(
                create_topic_request(TOPIC, [suspended.broker_id, other.broker_id], timeout_ms=1_000), 7
            )
            while not leads(other):
                await asyncio.sleep(0.1)
            suspended.resume()
            for _ in range(1_000):
                assert not leads(suspended)
                await asyncio.sleep(0.001)
            assert suspended.server.services.replicas.partitions[TOPIC, 0].leader == other.broker_id

    run_virtual(main)


def test_a_coordinator_whose_session_expired_reads_anew_what_others_have_written_meanwhile() -> None:
    """It led nothing any more, but kept what it knew of its groups. When it led again it did not read its log, and
    members were sent back to offsets that had been committed long before."""

    async def main(clock: VirtualClock) -> None:
        one = {"offsets.topic.num.partitions": "1"}
        async with asyncio.timeout(120), EmbeddedCluster(clock, 3, one) as cluster:
            administrator = Administrator(cluster, History(clock), random.Random(0), TOPIC, [])
            while not any(leads(broker, CONSUMER_OFFSETS) for broker in cluster.brokers):
                await administrator.ask(cluster.brokers[0], FindCoordinatorRequest(key="g"), 1)
                await asyncio.sleep(0.5)
            (first,) = [broker for broker in cluster.brokers if leads(broker, CONSUMER_OFFSETS)]
            await commit(administrator, first, 5)
            first.suspend()
            others = [broker for broker in cluster.brokers if broker is not first]
            while not any(leads(broker, CONSUMER_OFFSETS) for broker in others):
                await asyncio.sleep(0.5)
            (second,) = [broker for broker in others if leads(broker, CONSUMER_OFFSETS)]
            await commit(administrator, second, 9)
            first.resume()
            while leads(first, CONSUMER_OFFSETS):  # until it hears that its session has expired
                await asyncio.sleep(0.01)
            while not leads(first, CONSUMER_OFFSETS):
                await administrator.elect_leaders()
                await asyncio.sleep(0.5)
            topics = [OffsetFetchRequestTopic(name=CONSUMER_OFFSETS, partition_indexes=[0])]
            answer = None
            while answer is None or not answer.topics:  # until it has read its log
                answer = await administrator.ask(first, OffsetFetchRequest(group_id="g", topics=topics), 5)
                await asyncio.sleep(0.1)
            assert answer.topics[0].partitions[0].committed_offset == 9

    run_virtual(main)


async def commit(administrator: Administrator, coordinator: EmbeddedBroker, offset: int) -> None:
    """Without membership; again while the coordinator reads its partition."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=CONSUMER_OFFSETS, partitions=[partition])]
    while True:
        answer = await administrator.ask(coordinator, OffsetCommitRequest(group_id="g", topics=topics), 5)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            return
        await asyncio.sleep(0.1)


def test_a_cluster_ends_though_a_broker_is_suspended() -> None:
    """What had failed in the test was not told: NothingLeftToHappen was."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock) as cluster:
            cluster.brokers[0].suspend()
            raise ValueError("the test's own")

    with pytest.raises(ValueError, match="the test's own"):
        run_virtual(main)
