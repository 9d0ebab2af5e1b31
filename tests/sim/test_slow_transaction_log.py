"""Transactions whose coordinator waits for its replicas longer than a request between brokers may take.

It waits as long as the transaction may take, as Kafka's does: when it gives up before, it takes for not begun, or for
not ended, what is in its log and may be replicated a moment later.
"""

import asyncio

import pytest

from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from tests.sim.transactional_client import TOPIC, TRANSACTIONS, Client, Producer, with_brokers

REPLICATED = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "3",
    "replica_lag_time_max_ms": "600000",
}


async def one_that_began(client: Client) -> Producer:
    producer = Producer(client, "id")
    coordinator = await client.coordinator("id", TRANSACTIONS)
    await client.create([[coordinator.broker_id]])
    await producer.begin()
    return producer


async def cut_off_a_follower(client: Client) -> None:
    coordinator = await client.coordinator("id", TRANSACTIONS)
    client.cluster.network.cut(coordinator.host, client.cluster.brokers[coordinator.broker_id - 1].host)


def test_a_producer_may_abort_while_its_transaction_is_on_the_way_to_the_replicas() -> None:
    """It was told INVALID_TXN_STATE, which is the end of a producer of librdkafka."""

    async def scenario(client: Client) -> None:
        producer = await one_that_began(client)
        await cut_off_a_follower(client)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        adding = asyncio.ensure_future(producer.ask(request, 3))
        await asyncio.sleep(40)
        ending = asyncio.ensure_future(producer.end(commit=False))
        await asyncio.sleep(1)
        client.cluster.network.heal()
        await ending
        await adding
        assert await producer.state() == "CompleteAbort"

    with_brokers(3, scenario, **REPLICATED)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_that_a_producer_has_asked_for_holds_while_it_is_on_the_way_to_the_replicas(commit: bool) -> None:
    """It was given up, and the transaction aborted as one that had been open for too long: its producer was fenced."""

    async def scenario(client: Client) -> None:
        producer = await one_that_began(client)
        await producer.add(0)
        await asyncio.sleep(35)
        await cut_off_a_follower(client)
        request = EndTxnRequest(
            transactional_id="id", producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
        )
        ending = asyncio.ensure_future(client.ask(await client.coordinator("id", TRANSACTIONS), request, 3))
        await asyncio.sleep(50)
        client.cluster.network.heal()
        assert (await ending).error_code == 0
        await producer.end(commit=commit)
        assert await producer.state() == ("CompleteCommit" if commit else "CompleteAbort")

    with_brokers(3, scenario, **REPLICATED)
