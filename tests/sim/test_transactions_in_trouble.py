"""Transactions of whole brokers on virtual time: what was committed is committed, whatever dies in between, and nothing
that comes late or hangs holds up those who read committed records."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
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


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_committed_transaction_gets_its_markers_when_all_brokers_were_killed_before(brokers: int) -> None:
    async def scenario(client: Client) -> None:
        cluster = client.cluster
        await client.create([[broker] for broker in range(brokers)])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add(*range(brokers))
        for index in range(brokers):
            await producer.send(index)
        coordinator = await client.coordinator("id", TRANSACTIONS)
        for broker in cluster.brokers:
            cluster.network.cut(coordinator.host, broker.host, one_way=True)
        await producer.end()
        assert await producer.state() == "PrepareCommit"
        for broker in cluster.brokers:
            broker.kill()
        cluster.network.heal()
        await asyncio.gather(*(broker.start() for broker in cluster.brokers))

        async def complete() -> bool:
            return await producer.state() == "CompleteCommit"

        await until(60_000, client, complete)
        for index in range(brokers):
            assert await client.committed_values(index) == (2, 2, [0])

    with_brokers(brokers, scenario)


def test_offsets_that_come_after_their_transaction_has_ended_are_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(5) == ErrorCode.NONE
        await producer.end()

        async def is_stable() -> bool:
            return await committed_offset(client) == (5, ErrorCode.NONE)

        await until(10_000, client, is_stable)
        assert await producer.commit_offset(6) == ErrorCode.INVALID_TXN_STATE  # sent again by a client that timed out
        assert await producer.commit_offset(6, version=4) == ErrorCode.TRANSACTION_ABORTABLE
        assert await is_stable()
        [broker] = client.cluster.brokers
        for index, partition in broker.server.services.replicas.partitions.items():
            assert partition.last_stable_offset == partition.high_watermark, index

    with_brokers(1, scenario)


def test_offsets_while_the_coordinator_moves_and_of_a_generation_that_nobody_knows() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(5, generation_id=5, member_id="m") == ErrorCode.UNKNOWN_MEMBER_ID
        verification: Any = client.cluster.brokers[0].server.services.transaction_verification

        async def moving(name: str, producer: Any, partitions: Any) -> Any:
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)

        verification._ask = moving
        assert await producer.commit_offset(5, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.commit_offset(5, 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_brokers(1, scenario)


def test_transactions_are_listed_by_when_they_began() -> None:
    """The latest one of each producer, over or not; one that has begun none since it was initialised is left out."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0)
        await producer.end()

        async def listed(older_than_ms: int) -> list[str]:
            states = (await producer.ask(ListTransactionsRequest(duration_filter=older_than_ms), 1)).transaction_states
            return [one.transaction_state for one in states]

        async def complete() -> bool:
            return await producer.state() == "CompleteCommit"

        await until(10_000, client, complete)
        await asyncio.sleep(10)
        assert await listed(-1) == await listed(10_000) == ["CompleteCommit"]
        assert await listed(60_000) == []
        await producer.begin()
        assert await producer.state() == "Empty"
        assert (await listed(-1), await listed(0)) == (["Empty"], [])

    with_brokers(1, scenario)


async def committed_offset(client: Client) -> tuple[int, int]:
    """Offset and error of an OffsetFetch that requires stable offsets."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
    response = await client.ask_coordinator(GROUP, GROUPS, request, 7)
    partition = response.topics[0].partitions[0]
    return partition.committed_offset, partition.error_code


def test_offsets_of_no_group_or_no_producer_are_refused() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        coordinator = await client.coordinator(GROUP, GROUPS)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = TxnOffsetCommitRequest(
            transactional_id="id",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

        async def ask() -> int:
            error: int = (await client.ask(coordinator, request, 3)).topics[0].partitions[0].error_code
            return error

        assert await ask() == ErrorCode.INVALID_GROUP_ID
        request.group_id, request.producer_id = GROUP, -1
        assert await ask() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        request.producer_id = producer.id
        assert await ask() == ErrorCode.NONE

    with_brokers(1, scenario)


def test_offsets_of_an_epoch_that_nobody_was_given_do_not_keep_the_transaction_from_ending() -> None:
    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add_offsets()
        assert await producer.commit_offset(1) == ErrorCode.NONE
        producer.epoch += 1
        assert await producer.commit_offset(2) == ErrorCode.INVALID_PRODUCER_EPOCH
        producer.epoch -= 1
        await producer.end()

        async def complete() -> bool:
            return await producer.state() == "CompleteCommit"

        await until(3_000, client, complete)
        assert await committed_offset(client) == (1, ErrorCode.NONE)

    with_brokers(1, scenario)


def test_a_hanging_follower_holds_up_the_transactions_of_its_partitions_alone() -> None:
    async def scenario(client: Client) -> None:
        stuck, healthy = Producer(client, "stuck"), Producer(client, "healthy")
        leader = (await client.coordinator("stuck", TRANSACTIONS)).broker_id
        hanging, other = {0, 1, 2} - {leader}
        await client.create([[leader, hanging], [leader, other]])
        for producer, index in ((stuck, 0), (healthy, 1)):
            await producer.begin()
            await producer.add(index)
            await producer.send(index)
        client.cluster.network.cut(f"broker-{leader}", f"broker-{hanging}")
        await stuck.end()
        await asyncio.sleep(1)
        await healthy.end()

        async def complete() -> bool:
            return await healthy.state() == "CompleteCommit"

        await until(3_000, client, complete)
        assert await stuck.state() == "PrepareCommit"
        client.cluster.network.heal()

    with_brokers(3, scenario, transaction_state_log_num_partitions="1", replica_lag_time_max_ms="60000")


def test_a_producer_that_begins_again_uses_up_no_producer_ids() -> None:
    async def scenario(client: Client) -> None:
        producer, another = Producer(client, "id"), Producer(client, "another")
        await producer.begin()
        first = producer.id
        for epoch in range(1, 4):
            await producer.begin()
            assert (producer.id, producer.epoch) == (first, epoch)
        await another.begin()
        assert another.id == first + 1

    with_brokers(1, scenario)


def test_a_broker_knows_where_things_live_before_anybody_has_told_it_of_topics() -> None:
    async def scenario(client: Client) -> None:
        cluster = client.cluster
        [broker] = cluster.brokers
        await Producer(client, "id").begin()
        names = [f"id-{number}" for number in range(20)]
        before = [broker.server.services.transactions.partition_for(name) for name in names]
        await broker.stop()
        cluster.overrides["transaction.state.log.num.partitions"] = "7"
        await broker.start()
        assert not broker.server.services.metadata.topics
        assert [broker.server.services.transactions.partition_for(name) for name in names] == before

    with_brokers(1, scenario)


async def one_producer(client: Client, *indexes: int) -> Producer:
    """A producer in a transaction with these partitions, all on one broker."""
    await client.create([[0]] * len(indexes))
    producer = Producer(client, "id")
    await producer.begin()
    await producer.add(*indexes)
    return producer


def test_a_late_request_begins_no_transaction_where_one_was_open_when_it_came() -> None:
    """KIP-890: it waits for the verification of another partition, while the markers of an abort are written."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0, 1)
        await producer.send(0)
        verification: Any = client.cluster.brokers[0].server.services.transaction_verification
        ask, asked, ended = verification._ask, asyncio.Event(), asyncio.Event()

        async def slow(*question: Any) -> Any:
            verdicts = await ask(*question)
            asked.set()
            await ended.wait()
            return verdicts

        verification._ask = slow
        late = asyncio.ensure_future(producer.send_together((0, 1), (1, 0)))
        await asked.wait()
        await producer.end(commit=False)

        async def complete() -> bool:
            return await producer.state() == "CompleteAbort"

        await until(10_000, client, complete)
        ended.set()
        assert await late == [ErrorCode.INVALID_TXN_STATE] * 2
        for partition in client.cluster.brokers[0].server.services.replicas.partitions.values():
            assert partition.last_stable_offset == partition.high_watermark, partition

    with_brokers(1, scenario)


def test_an_end_that_comes_late_ends_no_later_transaction() -> None:
    """A client gives up a connection on which nothing is answered, and ends its transaction by another; what the
    network still held of the first came in the midst of its next transaction, whose first records were aborted and the
    rest committed."""

    async def scenario(client: Client) -> None:
        broker = client.cluster.brokers[0]
        given_up = Peer(
            client.cluster.network.host("client"), client.cluster.clock, broker.host, client.cluster.port, "c"
        )
        await given_up.request(MetadataRequest(topics=[]), 7, 10_000)
        producer = await one_producer(client, 0, 1)
        await producer.end(commit=False)
        await producer.add(0)
        await producer.send(0)

        async def end_by_it(committed: bool) -> int:
            request = EndTxnRequest(
                transactional_id="id", producer_id=producer.id, producer_epoch=producer.epoch, committed=committed
            )
            error: int = (await given_up.request(request, 3, 10_000)).error_code  # type: ignore[attr-defined]
            return error

        assert await end_by_it(committed=False) == ErrorCode.CONCURRENT_TRANSACTIONS
        await producer.add(1)
        await producer.send(1)
        await producer.end(commit=True)

        async def is_complete() -> bool:
            return await producer.state() == "CompleteCommit"

        await until(10_000, client, is_complete)
        for index in (0, 1):
            assert await client.committed_values(index) == (3, 3, [1]), index  # between the markers of both
        answers = [await end_by_it(committed=True) for _ in range(2)]
        assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE], "who is there asks again, and is heard"
        given_up.close()

    with_brokers(1, scenario)


def test_no_transaction_begins_without_an_answer_to_the_producer() -> None:
    """acks=0: it could not be told what the coordinator says."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0)
        broker = client.cluster.brokers[0]
        partition = broker.server.services.replicas.led(TOPIC, 0)
        with pytest.raises(BrokerUnreachable, match="closed by the other side"):
            await client.ask(broker, producer.produce((0, 0), acks=0), 9)
        assert partition.log.log_end_offset == 0
        await producer.send(0)
        assert partition.log.log_end_offset == 1

    with_brokers(1, scenario)


def test_a_batch_outside_of_its_transaction_ends_the_transaction_and_not_a_producer_that_knows_the_error() -> None:
    """KIP-890: version 11 of Produce is that."""

    async def scenario(client: Client) -> None:
        await client.create([[0]])
        producer = Producer(client, "id")
        await producer.begin()
        assert await producer.send_together((0, 0)) == [ErrorCode.INVALID_TXN_STATE]
        assert await producer.send_together((0, 0), version=11) == [ErrorCode.TRANSACTION_ABORTABLE]

    with_brokers(1, scenario)


def test_a_batch_behind_one_whose_verification_failed_waits_for_it() -> None:
    """Else the first one would be out of order for ever."""

    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0)
        verification: Any = client.cluster.brokers[0].server.services.transaction_verification
        ask = verification._ask

        async def moving(name: str, producer: Any, partitions: Any) -> Any:
            verification._ask = ask
            return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)

        verification._ask = moving
        assert await producer.send_together((0, 0)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert await producer.send_together((0, 1)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert await producer.send_together((0, 0)) == [ErrorCode.NONE]
        assert await producer.send_together((0, 1)) == [ErrorCode.NONE]

    with_brokers(1, scenario)


def test_two_batches_of_a_partition_and_two_producers_in_one_request() -> None:
    async def scenario(client: Client) -> None:
        producer = await one_producer(client, 0, 1)
        assert await producer.send_together((0, 0), (0, 1)) == [ErrorCode.NONE] * 2
        request = producer.produce((0, 2), (1, 0))
        stranger = make_batch(producer_id=producer.id + 1, sequence=0, transactional=True)
        request.topic_data[0].partition_data[1].records = stranger
        answers = (await client.ask(client.cluster.brokers[0], request, 9)).responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    with_brokers(1, scenario)
