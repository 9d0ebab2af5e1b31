"""Asking the coordinator whether a partition is part of a transaction: two requests of a producer at once."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.log.log import Log
from odradek.broker.log.verifications import VerificationGuard
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.broker.transactions.transaction_verification import RETRIED, TransactionVerification, Unverified
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.testing.log_environments import make_environment, open_test_log

PARTITION = ("topic", 0)
PRODUCER = ProducerIdentity(7, 0)


class Coordinator:
    """Another broker; it answers when the test says what."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[ErrorCode]] = []

    async def to_broker(self, broker_id: int, request: AddPartitionsToTxnRequest, *_: object) -> Any:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=await answer)
        topic = AddPartitionsToTxnTopicResult(name="topic", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(topic_results=[topic])])


def asking(coordinator: Coordinator) -> TransactionVerification:
    return TransactionVerification(
        1,
        cast(Any, SimpleNamespace(partition=lambda topic, index: SimpleNamespace(leader=3))),
        cast(Any, lambda client_id: coordinator),
        cast(Any, SimpleNamespace(partition_for=lambda transactional_id: 0)),
        1000,
    )


def ask(verification: TransactionVerification, log: Log) -> asyncio.Task[Any]:
    guard = log.begin_verification(PRODUCER.id, PRODUCER.epoch, 0)
    assert isinstance(guard, VerificationGuard)
    return asyncio.ensure_future(verification.verify("tx", [Unverified(PARTITION, PRODUCER, log, guard)]))


@pytest.mark.parametrize("failure", [OSError("no answer in time"), ErrorCode.CONCURRENT_TRANSACTIONS])
def test_a_question_that_failed_spoils_no_other_answer(failure: OSError | ErrorCode) -> None:
    """A producer that has waited too long asks again on another connection, while its first request still waits."""

    async def scenario() -> None:
        coordinator, log = Coordinator(), open_test_log(make_environment(), clean=True)
        verification = asking(coordinator)
        first, second = ask(verification, log), ask(verification, log)
        await asyncio.sleep(0)
        if isinstance(failure, OSError):
            coordinator.answers[0].set_exception(failure)
        else:
            coordinator.answers[0].set_result(failure)
        assert (await first)[PARTITION] in RETRIED
        coordinator.answers[1].set_result(ErrorCode.NONE)
        assert isinstance((await second)[PARTITION], VerificationGuard)

    asyncio.run(scenario())


def test_a_log_that_makes_way_for_its_copy_meanwhile_has_the_producer_ask_again() -> None:
    """With INVALID_TXN_STATE it aborted a transaction that is open, since its partition had moved to another log
    directory just then."""

    async def scenario() -> None:
        coordinator, log = Coordinator(), open_test_log(make_environment(), clean=True)
        verdicts = ask(asking(coordinator), log)
        await asyncio.sleep(0)
        log.abandon()
        coordinator.answers[0].set_result(ErrorCode.NONE)
        assert (await verdicts)[PARTITION] in RETRIED

    asyncio.run(scenario())
