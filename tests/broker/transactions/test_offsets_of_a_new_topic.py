"""A transaction commits offsets while `__consumer_offsets` is so new that not all brokers have heard of it."""

import asyncio
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

CONTROLLER, OF_GROUP, OF_TRANSACTION = 0, 1, 2
AWAY_MS = 5_000.0
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


def test_offsets_are_committed_though_the_coordinator_had_not_heard_of_their_topic() -> None:
    """It took the partition for deleted, which needs no marker: the transaction was committed without its offsets,
    which nobody could read any more."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            network, port = cluster.network, cluster.port
            peers = [Peer(network.host("client"), clock, f"broker-{id_}", port, "client") for id_ in range(3)]

            async def ask(broker: int, message: Message, version: int) -> Any:
                return await peers[broker].request(message, version, 60_000)

            async def create(name: str, broker: int) -> None:
                where = [CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])]
                topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=where)
                await ask(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
                await asyncio.sleep(1)

            await asyncio.sleep(1)
            assert cluster.brokers[CONTROLLER].server.services.controller.is_active
            await create("t", OF_GROUP)
            await create("__transaction_state", OF_TRANSACTION)
            begun = await ask(
                OF_TRANSACTION, InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000), 4
            )
            producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
            network.cut("broker-0", "broker-2")
            await create("__consumer_offsets", OF_GROUP)
            clock.call_later(AWAY_MS, lambda: network.heal("broker-0", "broker-2"))

            added = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            while added == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                await asyncio.sleep(0.1)
                asked = AddOffsetsToTxnRequest(transactional_id="id", group_id="g", **producer)
                added = (await ask(OF_TRANSACTION, asked, 3)).error_code
            assert added == ErrorCode.NONE
            offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
            commit = TxnOffsetCommitRequest(
                transactional_id="id",
                group_id="g",
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
                **producer,
            )
            assert (await ask(OF_GROUP, commit, 3)).topics[0].partitions[0].error_code == ErrorCode.NONE
            end = EndTxnRequest(transactional_id="id", committed=True, **producer)
            assert (await ask(OF_TRANSACTION, end, 3)).error_code == ErrorCode.NONE
            await asyncio.sleep(2 * AWAY_MS / 1000)
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            fetched = await ask(OF_GROUP, OffsetFetchRequest(group_id="g", topics=topics, require_stable=True), 7)
            [told] = fetched.topics[0].partitions
            assert (told.error_code, told.committed_offset) == (ErrorCode.NONE, 5)
            for peer in peers:
                peer.close()

    run_virtual(main)
