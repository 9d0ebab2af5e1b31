"""A broker that stands still for longer than its session, and then finds everything that was sent to it meanwhile."""

import asyncio
import random

from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.history import History
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"


def leads(broker: EmbeddedBroker) -> bool:
    partition = broker.server.services.replicas.partitions.get((TOPIC, 0))
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
            replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[suspended.broker_id, other.broker_id])
            made = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[replicas])
            await administrator.ask_controller(CreateTopicsRequest(topics=[made], timeout_ms=1_000), 7)
            while not leads(other):
                await asyncio.sleep(0.1)
            suspended.resume()
            for _ in range(1_000):
                assert not leads(suspended)
                await asyncio.sleep(0.001)
            assert suspended.server.services.replicas.partitions[TOPIC, 0].leader == other.broker_id

    run_virtual(main)
