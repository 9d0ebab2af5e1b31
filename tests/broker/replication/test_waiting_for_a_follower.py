"""The broker stops waiting for a follower that was about to join the ISR and does not come, though nothing happens."""

import asyncio

from odradek.broker.replication.isr import IsrCriteria
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from tests.broker.replication.one_broker import with_broker

LEADER, FOLLOWER = 0, 1


def test_who_waits_for_the_high_watermark_is_woken_when_the_follower_has_not_come() -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        replicas, partition = services.replicas, services.replicas.partitions["t", 0]
        partition.criteria = IsrCriteria(1_000, lambda broker: True)
        alone = LeaderAndIsrPartitionState(
            partition_index=0, leader=LEADER, leader_epoch=1, isr=[LEADER], partition_epoch=1,
            replicas=[LEADER, FOLLOWER],
        )  # fmt: skip
        assert services.controller_requests.apply("t", partition.topic_id, alone) is ErrorCode.NONE
        replicas.append(partition, make_batch([b"x"]), 1)
        _, pending = partition.follower_fetched(FOLLOWER, 1, 0, -1, services.clock.monotonic_ms())
        assert pending is not None
        partition.isr_refused(pending)
        replicas.append(partition, make_batch([b"x"]), 1)
        assert partition.high_watermark == 1
        heard = asyncio.Event()
        replicas.purgatory.listen(partition.advanced, heard.set)
        await asyncio.wait_for(heard.wait(), 60.0)
        assert partition.high_watermark == 2

    with_broker(scenario)
