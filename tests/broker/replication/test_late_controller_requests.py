"""What a controller has given up, and sent again by a later connection, comes late by the earlier one."""

from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.testing.embedded import EmbeddedCluster
from tests.broker.replication.one_broker import state, with_broker


def connection_to(cluster: EmbeddedCluster) -> Peer:
    broker = cluster.brokers[0]
    return Peer(cluster.network.host("controller"), cluster.clock, broker.host, cluster.port, "controller")


def stop(controller_epoch: int) -> StopReplicaRequest:
    partition = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="t", partition_states=[partition])
    return StopReplicaRequest(controller_epoch=controller_epoch, topic_states=[topic])


@pytest.mark.parametrize("kind", ["LeaderAndIsr", "UpdateMetadata"])
def test_a_late_deletion_spares_the_replica_of_a_topic_made_anew(kind: str) -> None:
    """StopReplica names no topic id, and of a topic that is being deleted no leader epoch: one that the network had
    held, of a connection that its controller has given up, deleted what had been written to the new topic."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        epoch = services.controller_requests.controller_epoch
        anew = LeaderAndIsrTopicState(
            topic_name="t", topic_id=services.replicas.partitions["t", 0].topic_id, partition_states=[state(0, 0)]
        )
        told: dict[str, tuple[Message, int]] = {
            "LeaderAndIsr": (LeaderAndIsrRequest(controller_epoch=epoch, topic_states=[anew]), 7),
            "UpdateMetadata": (UpdateMetadataRequest(controller_epoch=epoch), 8),
        }
        earlier, later = connection_to(cluster), connection_to(cluster)
        await earlier.request(ApiVersionsRequest(), 0, 1000)
        await later.request(*told[kind], 1000)
        with pytest.raises(BrokerUnreachable, match="closed by the other side"):
            await earlier.request(stop(epoch), 4, 1000)
        assert ("t", 0) in services.replicas.partitions and services.logs.get("t", 0) is not None
        answer: Any = await earlier.request(stop(epoch), 4, 1000)
        assert answer.error_code == ErrorCode.NONE, "who is still there sends again by a connection that is the latest"
        assert services.logs.get("t", 0) is None
        earlier.close()
        later.close()

    with_broker(scenario)


def test_metadata_that_comes_late_is_not_taken_over() -> None:
    """Of the epoch of the present controller: clients were told of what was no more, until the next change."""

    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        epoch = services.controller_requests.controller_epoch
        earlier, later = connection_to(cluster), connection_to(cluster)
        await earlier.request(ApiVersionsRequest(), 0, 1000)
        await later.request(stop(epoch), 4, 1000)
        brokers = services.metadata.brokers
        assert brokers
        with pytest.raises(BrokerUnreachable, match="closed by the other side"):
            await earlier.request(UpdateMetadataRequest(controller_epoch=epoch), 8, 1000)
        assert services.metadata.brokers == brokers
        earlier.close()
        later.close()

    with_broker(scenario)


def test_a_new_controller_may_use_the_connection_that_it_has() -> None:
    async def scenario(cluster: EmbeddedCluster, services: Services) -> None:
        epoch = services.controller_requests.controller_epoch
        earlier, later = connection_to(cluster), connection_to(cluster)
        await earlier.request(ApiVersionsRequest(), 0, 1000)
        await later.request(UpdateMetadataRequest(controller_epoch=epoch), 8, 1000)
        await later.request(UpdateMetadataRequest(controller_epoch=epoch - 1), 8, 1000)
        answer: Any = await earlier.request(stop(epoch + 1), 4, 1000)
        assert answer.error_code == ErrorCode.NONE and services.logs.get("t", 0) is None
        answer = await later.request(UpdateMetadataRequest(controller_epoch=epoch), 8, 1000)
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        earlier.close()
        later.close()

    with_broker(scenario)
