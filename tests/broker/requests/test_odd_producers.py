"""Producers whose id or epoch is below 0, and questions about transactions that say something twice: as Kafka 3.9.1
answers them."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.network.outcomes import Reply, RequestContext
from odradek.broker.requests import list_transactions
from odradek.broker.transactions.transaction_state import ProducerIdentity, TxnState
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker

NONE, SMALLEST = -1, -(2**15)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (NONE, NONE, ErrorCode.NONE),
        (-2, NONE, ErrorCode.INVALID_REQUEST),
        (NONE, -2, ErrorCode.INVALID_REQUEST),
        (NONE, SMALLEST, ErrorCode.INVALID_REQUEST),
        (5, NONE, ErrorCode.INVALID_REQUEST),
        (-2, -2, ErrorCode.NONE),
        (-2, 0, ErrorCode.NONE),
    ],
)
def test_only_minus_1_is_no_producer_id_and_no_epoch(producer_id: int, epoch: int, error: ErrorCode) -> None:
    """Without a transactional id the former ones are replaced, whatever they were."""

    async def scenario(client: Client) -> None:
        request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
        answer = await client.ask(request, 4)
        assert answer.error_code == error
        assert (answer.producer_id >= 0, answer.producer_epoch) == ((False, -1) if error else (True, 0))

    with_broker(scenario)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(NONE, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING), (0, NONE, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_offsets_of_a_transaction_that_has_no_producer(producer_id: int, epoch: int, error: ErrorCode) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        partitions = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=3) for index in (0, 9)]
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        (topic,) = (await client.ask(request, 3)).topics
        assert [one.error_code for one in topic.partitions] == [error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    with_broker(scenario)


def test_each_unknown_state_of_transactions_is_named_once() -> None:
    async def scenario(client: Client) -> None:
        answer = await client.ask(ListTransactionsRequest(state_filters=["b", "a", "Ongoing", "b"]), 0)
        assert answer.unknown_state_filters == ["b", "a"]

    with_broker(scenario)


def test_an_error_is_all_that_list_transactions_says() -> None:
    broker: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ms=lambda: 0),
        transactions=SimpleNamespace(list_transactions=lambda: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])),
    )
    request = ListTransactionsRequest(state_filters=["b"])
    reply = list_transactions.handle(broker, request, RequestContext(0, "", "", ""))
    assert reply == Reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


def test_a_million_producer_ids_are_not_looked_through_for_each_transaction() -> None:
    """They were: a thousand transactions held the broker's loop for half a minute, and anybody may ask."""
    compared = []

    class ProducerId(int):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return int(self) == other

        __hash__ = int.__hash__

    states = [(f"t{n}", TxnState(ProducerIdentity(n, 0), 60_000)) for n in range(100)]
    broker: Any = SimpleNamespace(
        transactions=SimpleNamespace(list_transactions=lambda: (ErrorCode.NONE, states)),
        clock=SimpleNamespace(now_ms=lambda: 0),
    )
    request = ListTransactionsRequest(producer_id_filters=[ProducerId(n) for n in range(99, 1000)])
    reply = list_transactions.handle(broker, request, RequestContext(0, "", "", ""))
    assert isinstance(reply, Reply)
    assert [one.transactional_id for one in reply.response.transaction_states] == ["t99"]  # type: ignore[attr-defined]
    assert len(compared) <= len(states)
