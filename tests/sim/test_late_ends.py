"""An EndTxn that the network delivers late, by a connection that its producer has given up, to a coordinator that has
loaded the transaction since: before KIP-890 nothing in it says that it is not for the current transaction.

It ended that one in the middle, as Kafka's does: the first records were aborted and the rest committed, or the producer
was told INVALID_TXN_STATE, which is the end of a producer of librdkafka.
"""

from odradek.broker.cluster.peer import Peer
from odradek.broker.transactions.transaction_state import TxnState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.topic_names import TRANSACTION_STATE
from odradek.testing.embedded import EmbeddedBroker
from tests.sim.transactional_client import TRANSACTIONS, Client, Producer, controls, until, with_brokers


async def given_up_connection(client: Client, broker: EmbeddedBroker) -> Peer:
    cluster = client.cluster
    peer = Peer(cluster.network.host("client"), cluster.clock, broker.host, cluster.port, "given up")
    await peer.request(MetadataRequest(topics=[]), 7, 10_000)
    return peer


async def abort_late(producer: Producer, given_up: Peer) -> int:
    request = EndTxnRequest(
        transactional_id="id", producer_id=producer.id, producer_epoch=producer.epoch, committed=False
    )
    error: int = (await given_up.request(request, 3, 10_000)).error_code  # type: ignore[attr-defined]
    given_up.close()
    return error


async def commit(client: Client, producer: Producer) -> None:
    await producer.end(commit=True)

    async def is_complete() -> bool:
        return await producer.state() == "CompleteCommit"

    await until(10_000, client, is_complete)


def test_after_a_reload_by_the_same_broker() -> None:
    async def scenario(client: Client) -> None:
        [broker] = client.cluster.brokers
        await client.create([[0], [0]])
        producer = Producer(client, "id")
        await producer.begin()
        given_up = await given_up_connection(client, broker)
        await producer.add(0)
        await producer.end(commit=False)
        await producer.add(0)
        await producer.send(0)
        before = broker.server.services.transactions.describe("id")
        client.cluster.zookeeper.expire_session(broker.store.session_id)

        async def is_loaded_again() -> bool:
            state = broker.server.services.transactions.describe("id")
            return isinstance(state, TxnState) and state is not before

        await until(60_000, client, is_loaded_again)
        assert await abort_late(producer, given_up) == ErrorCode.CONCURRENT_TRANSACTIONS
        await producer.add(1)
        await producer.send(1)
        await commit(client, producer)
        assert [await client.committed_values(index) for index in (0, 1)] == [(3, 3, [1]), (2, 2, [0])]

    with_brokers(1, scenario)


def test_after_another_broker_was_the_coordinator_for_a_while() -> None:
    """The first heard nothing of the end that counted."""

    async def scenario(client: Client) -> None:
        brokers = client.cluster.brokers
        first = await client.coordinator("id", TRANSACTIONS)
        second = brokers[1 - first.broker_id]

        async def move(leader: EmbeddedBroker, follower: EmbeddedBroker) -> None:
            replicas = [leader.broker_id, follower.broker_id]
            moved = ReassignablePartition(partition_index=0, replicas=replicas)
            topic = ReassignableTopic(name=TRANSACTION_STATE, partitions=[moved])
            controller = await client.find(controls)
            await client.ask(controller, AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000), 0)
            elected = [TopicPartitions(topic=TRANSACTION_STATE, partitions=[0])]
            await client.ask(controller, ElectLeadersRequest(topic_partitions=elected), 1)

            async def is_loaded() -> bool:
                return isinstance(leader.server.services.transactions.describe("id"), TxnState)

            await until(10_000, client, is_loaded)
            assert await client.coordinator("id", TRANSACTIONS) is leader

        await client.create([[0], [0]])
        producer = Producer(client, "id")
        await producer.begin()
        given_up = await given_up_connection(client, first)
        await producer.add(0)
        await move(second, first)
        await producer.end(commit=False)
        await producer.add(0)
        await producer.send(0)
        await move(first, second)
        await producer.add(1)
        assert await abort_late(producer, given_up) == ErrorCode.CONCURRENT_TRANSACTIONS
        await producer.send(1)
        await commit(client, producer)
        assert [await client.committed_values(index) for index in (0, 1)] == [(3, 3, [1]), (2, 2, [0])]

    with_brokers(2, scenario, transaction_state_log_num_partitions="1", transaction_state_log_replication_factor="2")
