"""A transaction commits offsets, or writes, to a topic that is so new that its coordinator has not heard of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

CONTROLLER, LEADER, COORDINATOR = 0, 1, 2
AWAY_MS = 5_000.0
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


class Stage:
    """Three brokers: the controller, the leader of a topic and of the group, and the transaction's coordinator."""

    def __init__(self, clock: VirtualClock, cluster: EmbeddedCluster) -> None:
        self.clock, self.network = clock, cluster.network
        client = cluster.network.host("client")
        self.peers = [Peer(client, clock, f"broker-{broker}", cluster.port, "client") for broker in range(3)]
        self.producer: dict[str, Any] = {}

    async def ask(self, broker: int, message: Message, version: int) -> Any:
        return await self.peers[broker].request(message, version, 60_000)

    async def create(self, name: str, broker: int) -> None:
        where = [CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=where)
        await self.ask(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        await asyncio.sleep(1)

    async def prepare(self) -> None:
        await asyncio.sleep(1)
        await self.create("t", LEADER)
        await self.create("__transaction_state", COORDINATOR)
        request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
        begun = await self.ask(COORDINATOR, request, 4)
        self.producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

    async def create_unheard(self, name: str) -> None:
        """Make a topic of which the coordinator hears a little later."""
        self.network.cut("broker-0", "broker-2")
        await self.create(name, LEADER)
        self.clock.call_later(AWAY_MS, lambda: self.network.heal("broker-0", "broker-2"))

    async def commit(self) -> None:
        request = EndTxnRequest(transactional_id="id", committed=True, **self.producer)
        assert (await self.ask(COORDINATOR, request, 3)).error_code == ErrorCode.NONE
        await asyncio.sleep(2 * AWAY_MS / 1000)


def run(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 3, SETTINGS) as cluster:
            stage = Stage(clock, cluster)
            await stage.prepare()
            await scenario(stage)
            for peer in stage.peers:
                peer.close()

    run_virtual(main)


def test_offsets_are_committed_though_the_coordinator_had_not_heard_of_their_topic() -> None:
    """It took the partition for deleted, which needs no marker: the transaction was committed without its offsets,
    which nobody could read any more."""

    async def scenario(stage: Stage) -> None:
        await stage.create_unheard("__consumer_offsets")
        added = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while added == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0.1)
            asked = AddOffsetsToTxnRequest(transactional_id="id", group_id="g", **stage.producer)
            added = (await stage.ask(COORDINATOR, asked, 3)).error_code
        assert added == ErrorCode.NONE
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[offset])]
        commit = TxnOffsetCommitRequest(transactional_id="id", group_id="g", topics=topics, **stage.producer)
        assert (await stage.ask(LEADER, commit, 3)).topics[0].partitions[0].error_code == ErrorCode.NONE
        await stage.commit()
        asked_for = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        fetch = OffsetFetchRequest(group_id="g", topics=asked_for, require_stable=True)
        [told] = (await stage.ask(LEADER, fetch, 7)).topics[0].partitions
        assert (told.error_code, told.committed_offset) == (ErrorCode.NONE, 5)

    run(scenario)


def test_a_transaction_that_goes_on_in_a_topic_made_anew_ends_there() -> None:
    """The partition was part of it, and the coordinator, which had heard of the deletion alone, let the leader write:
    then it took the partition for deleted, and the transaction stayed open there."""

    async def scenario(stage: Stage) -> None:
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=stage.producer["producer_id"],
            v3_and_below_producer_epoch=stage.producer["producer_epoch"],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        [added] = (await stage.ask(COORDINATOR, add, 3)).results_by_topic_v3_and_below[0].results_by_partition
        assert added.partition_error_code == ErrorCode.NONE
        await stage.ask(CONTROLLER, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
        await asyncio.sleep(1)
        await stage.create_unheard("t")
        batch = encode_batch(0, [0], [None], [b"value"], base_sequence=0, transactional=True, **stage.producer)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
        produce = ProduceRequest(transactional_id="id", acks=-1, timeout_ms=1000, topic_data=data)
        written = ErrorCode.NOT_ENOUGH_REPLICAS
        while written == ErrorCode.NOT_ENOUGH_REPLICAS:
            await asyncio.sleep(0.1)
            [answer] = (await stage.ask(LEADER, produce, 9)).responses[0].partition_responses
            written = answer.error_code
        assert written == ErrorCode.NONE
        await stage.commit()
        wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        ends = ListOffsetsRequest(
            replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name="t", partitions=wanted)]
        )
        [end] = (await stage.ask(LEADER, ends, 5)).topics[0].partitions
        assert (end.error_code, end.offset) == (ErrorCode.NONE, 2)

    run(scenario)
