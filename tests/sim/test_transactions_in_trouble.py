"""Transactions whose brokers die, hang or hear of things late."""

import asyncio
import random
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.topic_names import TRANSACTION_STATE
from odradek.testing.simulation.history import History
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.testing.usual_requests import create_topic_request
from tests.sim.transactional_client import (
    TOPIC,
    TRANSACTIONS,
    Client,
    Producer,
    controls,
    one_producer,
    until,
    with_brokers,
)


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


def test_a_decision_that_the_next_coordinator_may_not_have_is_not_carried_out() -> None:
    """The second coordinator had found it in its log, and committed one partition; the third, in sync too, had never
    had it, and aborted the other one for the producer's successor."""

    async def scenario(client: Client) -> None:
        cluster = client.cluster
        first, second, third = cluster.brokers[1:]
        controller = await client.find(controls)
        assert controller is cluster.brokers[0], "it is cut off from nobody"
        request = create_topic_request(TRANSACTION_STATE, [1, 2, 3])
        assert (await client.ask(controller, request, 7)).topics[0].error_code == 0
        await client.create([[0], [1]])
        producer = Producer(client, "id")
        await producer.begin()
        await producer.add(0, 1)
        for index in (0, 1):
            await producer.send(index)
        logs = [one.server.services.replicas.partitions[(TRANSACTION_STATE, 0)].log for one in (first, second, third)]
        for other in (first, second):
            cluster.network.cut(third.host, other.host)
        asked, end_offset = asyncio.ensure_future(producer.end()), logs[0].log_end_offset

        async def has_it() -> bool:
            return logs[1].log_end_offset > end_offset

        await until(10_000, client, has_it)
        asked.cancel()
        first.kill()

        async def is_loaded() -> bool:
            return not isinstance(second.server.services.transactions.describe("id"), ErrorCode)

        await until(60_000, client, is_loaded)
        await asyncio.sleep(2)
        second.kill()
        assert logs[2].log_end_offset == end_offset
        cluster.network.heal()
        await asyncio.gather(*(broker.start() for broker in (first, second)))
        await producer.begin()
        logs = [cluster.brokers[index].server.services.replicas.partitions[(TOPIC, index)].log for index in (0, 1)]
        assert [len(one.aborted_transactions(0, 10)) for one in logs] == [1, 1]

    with_brokers(
        4,
        scenario,
        transaction_state_log_num_partitions="1",
        transaction_state_log_replication_factor="3",
        replica_lag_time_max_ms="600000",
    )


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


def test_a_marker_that_comes_late_ends_no_later_transaction() -> None:
    """A coordinator gives up a connection on which nothing is answered, and sends its marker by another; what the
    network still held of the first came in the midst of the next transaction, whose first record was aborted and the
    rest committed."""

    async def scenario(client: Client) -> None:
        cluster = client.cluster
        requests = RepeatedRequests(cluster, History(cluster.clock), random.Random(1))
        producer = Producer(client, "id")
        await producer.begin()
        coordinator = await client.coordinator("id", TRANSACTIONS)
        leader = cluster.brokers[1 - coordinator.broker_id]
        await client.create([[leader.broker_id]])

        async def end(*, commit: bool) -> None:
            async def is_complete() -> bool:
                return await producer.state() == ("CompleteCommit" if commit else "CompleteAbort")

            await producer.end(commit=commit)
            await until(60_000, client, is_complete)

        await producer.add(0)
        await end(commit=True)
        given_up = requests.way(WriteTxnMarkersRequest.API_KEY, coordinator.host, leader.host)
        assert given_up is not None
        given_up.stall()
        await producer.add(0)
        await end(commit=False)
        await producer.add(0)
        await producer.send(0)
        assert given_up.travelling, "the first copy of the marker that aborts"
        given_up.go_on()

        async def has_arrived() -> bool:
            return not given_up.travelling

        await until(1_000, client, has_arrived)
        await producer.send(0)
        await end(commit=True)
        assert await client.committed_values(0) == (5, 5, [2, 3])  # behind the markers of two that were empty

    with_brokers(2, scenario, request_timeout_ms="1000")
