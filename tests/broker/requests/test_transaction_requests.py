"""The APIs of transactions, asked of a whole broker: who is told what, in which version."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.outcomes import RequestContext
from odradek.broker.requests import list_transactions
from odradek.broker.transactions.transaction_state import ProducerIdentity, TxnState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.broker.requests.producer_stage import ID, SETTINGS, Producer, errors_of, until_it_coordinates, with_producer
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker

NONE, FENCED, OLD_FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN_PARTITION, NOT_ATTEMPTED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# InitProducerId


def test_a_producer_that_begins_anew_gets_the_next_epoch() -> None:
    async def scenario(producer: Producer) -> None:
        first = await producer.init()
        assert (first.error_code, first.producer_id >= 0, first.producer_epoch) == (NONE, True, 0)
        again = await producer.init(version=0)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, first.producer_id, 1)
        named = await producer.init(producer_id=first.producer_id, producer_epoch=1)
        assert (named.error_code, named.producer_id, named.producer_epoch) == (NONE, first.producer_id, 2)
        other = await producer.init(transactional_id="other")
        assert other.producer_id == first.producer_id + 1, "no id was used up meanwhile"

    with_producer(scenario)


@pytest.mark.parametrize(("version", "error"), [(3, OLD_FENCED), (4, FENCED), (5, FENCED)])
def test_a_producer_that_names_an_epoch_of_long_ago_is_fenced(version: int, error: ErrorCode) -> None:
    """Below version 4 it hears the error that was there before PRODUCER_FENCED (KIP-588)."""

    async def scenario(producer: Producer) -> None:
        first = await producer.init()
        for _ in range(2):
            await producer.init()
        refused = await producer.init(version, producer_id=first.producer_id, producer_epoch=0)
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (error, -1, -1)

    with_producer(scenario)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 60_000, ErrorCode.INVALID_REQUEST),
        ("", 0, ErrorCode.INVALID_REQUEST),
        (ID, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_000, NONE),
        (ID, 1, NONE),
    ],
)
def test_an_empty_id_and_timeouts_beyond_transaction_max_timeout_ms(
    transactional_id: str, timeout_ms: int, error: ErrorCode
) -> None:
    async def scenario(producer: Producer) -> None:
        answer = await producer.init(transactional_id=transactional_id, timeout_ms=timeout_ms)
        assert (answer.error_code, answer.producer_epoch) == (error, -1 if error else 0)

    with_producer(scenario)


def test_a_broker_that_does_not_coordinate_an_id_uses_up_no_producer_id_for_it() -> None:
    async def scenario(client: Client) -> None:
        producer = Producer(client)
        assert (await producer.init()).error_code == ErrorCode.NOT_COORDINATOR
        without = await client.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert (without.error_code, without.producer_id) == (NONE, 0)
        assert await producer.add_offsets(3, 0) is ErrorCode.NOT_COORDINATOR
        assert await producer.end() is ErrorCode.NOT_COORDINATOR

    with_broker(scenario)


def test_a_timeout_that_nobody_may_have_is_the_first_thing_that_is_told() -> None:
    """Whoever asks again, elsewhere or later, is told in the end; and no producer id is used up for it."""

    async def scenario(client: Client) -> None:
        producer = Producer(client)
        assert (await producer.init(timeout_ms=900_001)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        await until_it_coordinates(client)
        assert (await producer.init(timeout_ms=900_001)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (await producer.init()).producer_id == 0

    with_broker(scenario, 1, **SETTINGS)


@pytest.mark.parametrize("transactional_id", [None, ID])
def test_no_producer_begins_without_a_producer_id_from_the_controller(transactional_id: str | None) -> None:
    async def scenario(producer: Producer) -> None:
        async def refuse() -> int:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the controller is away")

        producer.client.cluster.brokers[0].server.services.producer_ids.next = refuse
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = await producer.client.ask(request, 4)
        told = (answer.error_code, answer.producer_id, answer.producer_epoch)
        assert told == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)

    with_producer(scenario)


# AddPartitionsToTxn


def test_all_partitions_are_added_or_none() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        asked = [(TOPIC, 0), (TOPIC, 9), ("unknown", 0), (CONSUMER_OFFSETS, 0), (TRANSACTION_STATE, 0)]
        errors = [NOT_ATTEMPTED, UNKNOWN_PARTITION, UNKNOWN_PARTITION, DENIED, DENIED]
        told = [(*partition, error) for partition, error in zip(asked, errors, strict=True)]
        assert await producer.add(*asked) == told
        assert (await producer.described()).topics == []
        assert await producer.add((TOPIC, 0), (TOPIC, 1)) == [(TOPIC, 0, NONE), (TOPIC, 1, NONE)]
        [topic] = (await producer.described()).topics
        assert (topic.topic, topic.partitions) == (TOPIC, [0, 1])

    with_producer(scenario)


@pytest.mark.parametrize(("version", "error"), [(0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED), (3, FENCED)])
def test_a_fenced_producer_adds_and_ends_nothing(version: int, error: ErrorCode) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        await producer.init()
        assert await producer.add((TOPIC, 0), version=version, epoch=0) == [(TOPIC, 0, error)]
        assert await producer.add_offsets(version, 0) is error
        assert (await producer.described()).transaction_state == "Empty"
        assert await producer.add((TOPIC, 0), version=version) == [(TOPIC, 0, NONE)]
        assert await producer.end(version, 0) is error
        assert (await producer.described()).transaction_state == "Ongoing"

    with_producer(scenario)


def test_a_producer_that_the_coordinator_does_not_know_adds_nothing() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        for transactional_id, error in (
            ("other", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            ("", ErrorCode.INVALID_REQUEST),
        ):
            assert await producer.add((TOPIC, 0), transactional_id=transactional_id) == [(TOPIC, 0, error)]
            assert await producer.add_offsets(3, 0, transactional_id) is error
        producer.identity = (producer.identity[0] + 1, 0)
        assert await producer.add((TOPIC, 0)) == [(TOPIC, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]

    with_producer(scenario)


@pytest.mark.parametrize(
    ("version", "not_in_it"), [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_brokers_verify_many_transactions_at_once(version: int, not_in_it: ErrorCode) -> None:
    """Nothing is added (KIP-890)."""

    async def scenario(producer: Producer) -> None:
        await producer.init()
        await producer.add((TOPIC, 0))
        request = AddPartitionsToTxnRequest(
            transactions=[
                producer.asked((TOPIC, 0), (TOPIC, 1), verify_only=True),
                producer.asked((TOPIC, 0), verify_only=True, transactional_id="other"),
                producer.asked((TOPIC, 0), verify_only=True, producer_epoch=7),
            ]
        )
        results = (await producer.client.ask(request, version)).results_by_transaction
        assert [(one.transactional_id, errors_of(one.topic_results)) for one in results] == [
            (ID, [(TOPIC, 0, NONE), (TOPIC, 1, not_in_it)]),
            ("other", [(TOPIC, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]),
            (ID, [(TOPIC, 0, FENCED)]),
        ]
        assert [topic.partitions for topic in (await producer.described()).topics] == [[0]]

    with_producer(scenario)


def test_a_partition_of_a_transaction_that_was_deleted_is_unknown_to_whoever_verifies_it() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        await producer.add((TOPIC, 0))
        services = producer.client.cluster.brokers[0].server.services
        await producer.client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 3)
        while services.metadata.partition(TOPIC, 0) is not None:
            await asyncio.sleep(0.05)
        asked = [producer.asked((TOPIC, 0), (TOPIC, 1), verify_only=True)]
        [result] = (await producer.client.ask(AddPartitionsToTxnRequest(transactions=asked), 5)).results_by_transaction
        assert errors_of(result.topic_results) == [
            (TOPIC, 0, UNKNOWN_PARTITION),
            (TOPIC, 1, ErrorCode.TRANSACTION_ABORTABLE),
        ]

    with_producer(scenario)


def test_brokers_may_add_partitions_of_groups() -> None:
    """Clients may not: with AddOffsetsToTxn the coordinator does it for them."""

    async def scenario(producer: Producer) -> None:
        await producer.init()
        asked = [producer.asked((CONSUMER_OFFSETS, 0), verify_only=False)]
        [result] = (await producer.client.ask(AddPartitionsToTxnRequest(transactions=asked), 4)).results_by_transaction
        assert (result.transactional_id, errors_of(result.topic_results)) == (ID, [(CONSUMER_OFFSETS, 0, NONE)])
        assert [topic.topic for topic in (await producer.described()).topics] == [CONSUMER_OFFSETS]

    with_producer(scenario)


# AddOffsetsToTxn


def test_the_groups_partition_is_part_of_the_transaction() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        assert await producer.add_offsets(0, 0) is NONE
        [topic] = (await producer.described()).topics
        assert (topic.topic, topic.partitions) == (CONSUMER_OFFSETS, [0])

    with_producer(scenario)


def test_the_topic_of_groups_is_created_for_a_transaction() -> None:
    """Nobody else may have asked for the group's coordinator yet."""

    async def scenario(client: Client) -> None:
        producer, services = Producer(client), client.cluster.brokers[0].server.services
        while (await producer.init()).error_code:
            await client.ask(FindCoordinatorRequest(key=ID, key_type=1), 3)
            await asyncio.sleep(0.05)
        assert await producer.add_offsets(3, 0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while (error := await producer.add_offsets(3, 0)) is not NONE:
            assert error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.05)
        assert services.metadata.partition_count(CONSUMER_OFFSETS) == 1

    with_broker(scenario, 1, **SETTINGS)


# EndTxn


def test_a_transaction_may_be_ended_again_the_same_way() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        assert await producer.end() is ErrorCode.INVALID_TXN_STATE
        for committed, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
            await producer.add((TOPIC, 0))
            assert await producer.end(committed=committed) is NONE
            while (await producer.described()).transaction_state != state:
                await asyncio.sleep(0.05)
            assert await producer.end(committed=committed) is NONE
            assert await producer.end(committed=not committed) is ErrorCode.INVALID_TXN_STATE

    with_producer(scenario)


# DescribeTransactions, ListTransactions


def test_a_transaction_is_described_and_listed() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.client.ask(InitProducerIdRequest(transactional_id=None), 4)
        await producer.init()
        await producer.init(timeout_ms=5000)
        client, (producer_id, epoch) = producer.client, producer.identity
        assert producer_id == epoch == 1
        assert (await producer.described()).transaction_start_time_ms == -1
        began_ms = client.cluster.clock.now_ms()
        await producer.add((TOPIC, 0), (CONSUMER_OFFSETS, 0))
        await producer.add((TOPIC, 0), (TOPIC, 1))
        state = await producer.described()
        assert (state.error_code, state.transactional_id, state.transaction_state) == (NONE, ID, "Ongoing")
        assert (state.producer_id, state.producer_epoch, state.transaction_timeout_ms) == (producer_id, epoch, 5000)
        assert 0 <= state.transaction_start_time_ms - began_ms < 1000
        request = DescribeTransactionsRequest(transactional_ids=["other", ""])
        states = (await client.ask(request, 0)).transaction_states
        assert [(one.transactional_id, one.error_code) for one in states] == [
            ("other", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_REQUEST),
        ]

        async def listed(version: int = 1, **filters: Any) -> list[tuple[str, int, str]]:
            answer = await client.ask(ListTransactionsRequest(**filters), version)
            assert answer.error_code == NONE
            return [(one.transactional_id, one.producer_id, one.transaction_state) for one in answer.transaction_states]

        it = [(ID, producer_id, "Ongoing")]
        assert await listed(0) == await listed() == it
        assert await listed(state_filters=["Empty", "Ongoing"]) == await listed(producer_id_filters=[producer_id]) == it
        assert await listed(state_filters=["Empty"]) == await listed(producer_id_filters=[producer_id + 1]) == []
        assert await listed(state_filters=["no such state"]) == []
        await asyncio.sleep(1 - (client.cluster.clock.now_ms() - state.transaction_start_time_ms) / 1000)
        assert (await listed(duration_filter=900), await listed(duration_filter=60_000)) == (it, [])

    with_producer(scenario)


@pytest.mark.parametrize(
    ("filter_ms", "listed"), [(-1, ["new", "just now", "before"]), (0, ["before"]), (499, ["before"]), (500, [])]
)
def test_transactions_are_listed_that_began_longer_ago(filter_ms: int, listed: list[str]) -> None:
    states = [
        (name, TxnState(ProducerIdentity(number, 0), 60_000, started_ms=began_ms))
        for number, (name, began_ms) in enumerate([("new", -1), ("just now", 1000), ("before", 500)])
    ]
    broker: Any = SimpleNamespace(
        transactions=SimpleNamespace(list_transactions=lambda: (NONE, states)),
        clock=SimpleNamespace(now_ms=lambda: 1000),
    )
    request = ListTransactionsRequest(duration_filter=filter_ms)
    reply: Any = list_transactions.handle(broker, request, RequestContext(1, "", "", ""))
    assert [one.transactional_id for one in reply.response.transaction_states] == listed
