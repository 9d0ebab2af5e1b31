"""A client of transactions on virtual time, which asks whole brokers request by request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.record_batch import batches
from odradek.testing.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import create_topic_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from tests.sim.asking import Asking

TOPIC, GROUP = "t", "g"


GROUPS, TRANSACTIONS = 0, 1


READ_COMMITTED = 1


SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


class Client(Asking):
    """Asks leaders and coordinators, again until they are ready."""

    async def create(self, assignments: list[list[int]]) -> None:
        """One partition for each list of replicas."""
        controller = await self.find(controls)
        response = await self.ask(controller, create_topic_request(TOPIC, *assignments), 7)
        assert response.topics[0].error_code == 0, response

    async def leader(self, index: int) -> EmbeddedBroker:
        def leads(broker: EmbeddedBroker) -> bool:
            partition = broker.server.services.replicas.partitions.get((TOPIC, index))
            return partition is not None and partition.is_leader

        return await self.find(leads)

    async def coordinator(self, key: str, key_type: int) -> EmbeddedBroker:
        while True:
            anybody = await self.find(lambda broker: True)
            found = await self.ask(anybody, FindCoordinatorRequest(key=key, key_type=key_type), 3)
            if found.error_code == 0:
                return self.cluster.brokers[found.node_id]
            await asyncio.sleep(0.1)

    async def ask_coordinator(self, key: str, key_type: int, request: Message, version: int) -> Any:
        retried = {
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        }
        while True:
            response = await self.ask(await self.coordinator(key, key_type), request, version)
            if getattr(response, "error_code", 0) not in retried:
                return response
            await asyncio.sleep(0.1)

    async def committed_values(self, index: int) -> tuple[int, int, list[int]]:
        """Last stable offset, high watermark, and the offsets that a reader of committed records is given."""
        broker = await self.leader(index)
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = (await self.ask(broker, request, 11)).responses[0].partitions[0]
        assert answer.error_code == 0, answer
        aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
        assert not aborted
        headers = [header for _, header in batches(answer.records or b"")]
        offsets = [
            offset
            for header in headers
            if not header.is_control
            for offset in range(header.base_offset, header.next_offset)
        ]
        return answer.last_stable_offset, answer.high_watermark, offsets


class Producer:
    """A transactional producer that does one thing at a time."""

    def __init__(self, client: Client, transactional_id: str) -> None:
        self.client, self.transactional_id = client, transactional_id
        self.id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    async def ask(self, request: Message, version: int) -> Any:
        return await self.client.ask_coordinator(self.transactional_id, TRANSACTIONS, request, version)

    async def begin(self) -> None:
        asked = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        response = await self.ask(asked, 4)
        assert response.error_code == 0, response
        self.id, self.epoch = response.producer_id, response.producer_epoch

    async def add(self, *indexes: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(indexes))],
        )
        while True:
            response = await self.ask(request, 3)
            errors = {
                one.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            }
            if errors == {0}:
                return
            assert errors == {ErrorCode.CONCURRENT_TRANSACTIONS}, response
            await asyncio.sleep(0.1)

    async def send(self, index: int) -> None:
        assert await self.send_together((index, self.next_sequence(index))) == [ErrorCode.NONE]

    def next_sequence(self, index: int) -> int:
        sequence = self.sequences.get(index, 0)
        self.sequences[index] = sequence + 1
        return sequence

    def batch(self, sequence: int) -> bytearray:
        return make_batch(producer_id=self.id, producer_epoch=self.epoch, sequence=sequence, transactional=True)

    def produce(self, *batches: tuple[int, int], acks: int = -1) -> ProduceRequest:
        """A request with a batch for each pair of a partition and a sequence."""
        data = [PartitionProduceData(index=index, records=self.batch(sequence)) for index, sequence in batches]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        return ProduceRequest(transactional_id=self.transactional_id, acks=acks, timeout_ms=60_000, topic_data=topics)

    async def send_together(self, *batches: tuple[int, int], version: int = 9) -> list[int]:
        """Errors, one for each batch."""
        leader = await self.client.leader(batches[0][0])
        answers = (await self.client.ask(leader, self.produce(*batches), version)).responses[0].partition_responses
        return [answer.error_code for answer in answers]

    async def end(self, *, commit: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        response = await self.ask(request, 3)
        assert response.error_code == 0, response

    async def state(self) -> str:
        response = await self.ask(DescribeTransactionsRequest(transactional_ids=[self.transactional_id]), 0)
        name: str = response.transaction_states[0].transaction_state
        return name

    async def commit_offset(self, offset: int, version: int = 3, **more: Any) -> int:
        """TxnOffsetCommit for partition 0 of the topic; its error."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
            **more,
        )
        response = await self.client.ask_coordinator(GROUP, GROUPS, request, version)
        error: int = response.topics[0].partitions[0].error_code
        return error

    async def add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id=GROUP
        )
        response = await self.ask(request, 3)
        assert response.error_code == 0, response


def controls(broker: EmbeddedBroker) -> bool:
    metadata = broker.server.services.metadata
    return bool(metadata.brokers) and metadata.controller_id == broker.broker_id


def with_brokers(brokers: int, scenario: Callable[[Client], Awaitable[None]], **overrides: str) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = SETTINGS | {name.replace("_", "."): value for name, value in overrides.items()}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            await scenario(Client(cluster))

    run_virtual(main)


async def until(within_ms: float, client: Client, holds: Callable[[], Awaitable[bool]]) -> None:
    clock = client.cluster.clock
    end_ms = clock.monotonic_ms() + within_ms
    while not await holds():
        assert clock.monotonic_ms() < end_ms, f"not within {within_ms} ms"
        await asyncio.sleep(0.1)


async def one_producer(client: Client, *indexes: int) -> Producer:
    """A producer in a transaction with these partitions, all on one broker."""
    await client.create([[0]] * len(indexes))
    producer = Producer(client, "id")
    await producer.begin()
    await producer.add(*indexes)
    return producer
