"""Asking the coordinator whether a partition is part of a transaction: two requests of a producer at once."""

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.log.log import Log
from odradek.broker.log.verifications import VerificationGuard
from odradek.broker.transactions.transaction_state import ProducerIdentity
from odradek.broker.transactions.transaction_verification import (
    RETRIED,
    TransactionVerification,
    Unverified,
    begin_verification,
    begin_verifications,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.record_batch import HEADER_BYTES
from odradek.protocol.topic_names import TRANSACTION_STATE, PartitionKey
from odradek.testing.log_environments import make_batch, make_environment, open_test_log

PARTITION = ("topic", 0)
PRODUCER = ProducerIdentity(7, 3)
SELF, OTHER = 1, 3
NONE, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE


class Coordinator:
    """Another broker; it answers when the test says what."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[ErrorCode]] = []
        self.asked: list[tuple[int, AddPartitionsToTxnRequest, int]] = []

    async def to_broker(self, broker_id: int, request: AddPartitionsToTxnRequest, version: int, *_: object) -> Any:
        self.asked.append((broker_id, request, version))
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=await answer)
        topic = AddPartitionsToTxnTopicResult(name="topic", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(topic_results=[topic])])


def asking(
    client: object, leader: int = OTHER, verify: object = None, known: Collection[PartitionKey] = (PARTITION,)
) -> TransactionVerification:
    """Of broker SELF; `leader` leads the partition of `__transaction_state`."""
    leaders = {(TRANSACTION_STATE, 0): SimpleNamespace(leader=leader)} if leader >= 0 else {}
    partitions = leaders | {one: SimpleNamespace(leader=SELF) for one in known}
    return TransactionVerification(
        SELF,
        cast(Any, SimpleNamespace(partition=lambda *where: partitions.get(where))),
        cast(Any, lambda client_id: client),
        cast(Any, SimpleNamespace(partition_for=lambda transactional_id: 0, verify=verify)),
        1000,
    )


def unverified(log: Log, producer: ProducerIdentity = PRODUCER, partition: PartitionKey = PARTITION) -> Unverified:
    guard = log.begin_verification(producer.id, producer.epoch, 0)
    assert isinstance(guard, VerificationGuard)
    return Unverified(partition, producer, log, guard)


def ask(verification: TransactionVerification, log: Log) -> asyncio.Task[Any]:
    return asyncio.ensure_future(verification.verify("tx", [unverified(log)]))


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


def test_another_coordinator_is_asked_about_the_producer_and_its_partitions() -> None:
    async def scenario() -> None:
        coordinator, log = Coordinator(), open_test_log(make_environment(), clean=True)
        verdicts = ask(asking(coordinator), log)
        await asyncio.sleep(0)
        coordinator.answers[0].set_result(NONE)
        assert isinstance((await verdicts)[PARTITION], VerificationGuard)
        [(broker_id, request, version)] = coordinator.asked
        [one] = request.transactions
        assert (broker_id, version) == (OTHER, 5)
        assert (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only) == ("tx", *PRODUCER, True)
        assert [(topic.name, topic.partitions) for topic in one.topics] == [("topic", [0])]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answered", "verdict", "stands"),
    [
        (ABORTABLE, ABORTABLE, False),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING, False),
        *((error, error, True) for error in RETRIED),
    ],
)
@pytest.mark.parametrize("leader", [SELF, OTHER])
def test_a_guard_is_dropped_when_the_coordinator_has_refused_for_good(
    answered: ErrorCode, verdict: ErrorCode, stands: bool, leader: int
) -> None:
    async def scenario() -> None:
        coordinator, log = Coordinator(), open_test_log(make_environment(), clean=True)
        asked = unverified(log)

        def verify(*about: object) -> ErrorCode:
            assert about == ("tx", PRODUCER, PARTITION, ABORTABLE)
            return answered

        verdicts = asyncio.ensure_future(asking(coordinator, leader, verify).verify("tx", [asked]))
        await asyncio.sleep(0)
        for answer in coordinator.answers:
            answer.set_result(answered)
        assert await verdicts == {PARTITION: verdict}
        assert log.producers.verifications.stands(PRODUCER.id, asked.guard) is stands

    asyncio.run(scenario())


def test_a_coordinator_that_answers_something_else_or_cannot_be_found_is_asked_again() -> None:
    async def scenario() -> None:
        log = open_test_log(make_environment(), clean=True)

        def client(error: ErrorCode) -> object:
            async def answer(*_: object) -> AddPartitionsToTxnResponse:
                return AddPartitionsToTxnResponse(error_code=error)

            return SimpleNamespace(to_broker=answer)

        for error, verdict in ((NONE, ErrorCode.NETWORK_EXCEPTION), (ABORTABLE, ABORTABLE)):
            assert await ask(asking(client(error)), log) == {PARTITION: verdict}
        assert await ask(asking(None, leader=-1), log) == {PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answered", "verdict"), [(NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (ABORTABLE, ABORTABLE)]
)
def test_this_broker_as_coordinator_knows_of_no_partition_that_its_metadata_lack(
    answered: ErrorCode, verdict: ErrorCode
) -> None:
    async def scenario() -> None:
        log = open_test_log(make_environment(), clean=True)
        verification = asking(None, SELF, lambda *about: answered, known=())
        assert await ask(verification, log) == {PARTITION: verdict}

    asyncio.run(scenario())


def test_a_marker_that_was_written_meanwhile_makes_the_answer_worthless() -> None:
    async def scenario() -> None:
        coordinator, log = Coordinator(), open_test_log(make_environment(), clean=True)
        verdicts = ask(asking(coordinator), log)
        await asyncio.sleep(0)
        log.producers.verifications.forget(PRODUCER.id)
        coordinator.answers[0].set_result(NONE)
        assert await verdicts == {PARTITION: ErrorCode.INVALID_TXN_STATE}

    asyncio.run(scenario())


def test_each_producer_is_asked_about_with_its_own_partitions() -> None:
    async def scenario() -> None:
        log = open_test_log(make_environment(), clean=True)
        later = ProducerIdentity(7, 4)
        asked = [unverified(log, later, ("topic", 1)), unverified(log)]

        def verify(
            transactional_id: str, producer: ProducerIdentity, at: PartitionKey, not_in_it: ErrorCode
        ) -> ErrorCode:
            return NONE if (producer, at) in ((later, ("topic", 1)), (PRODUCER, PARTITION)) else not_in_it

        verdicts = await asking(None, SELF, verify, known=[PARTITION, ("topic", 1)]).verify("tx", asked)
        assert verdicts == {("topic", 1): asked[0].guard, PARTITION: asked[1].guard}

    asyncio.run(scenario())


# what is to be verified


def produce(*records: bytes | None) -> ProduceRequest:
    """Of partitions 0, 1, …"""
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(transactional_id="tx", topic_data=[TopicProduceData(name="topic", partition_data=data)])


def transactional(producer: ProducerIdentity = PRODUCER, sequence: int = 0) -> bytes:
    return bytes(
        make_batch(producer_id=producer.id, producer_epoch=producer.epoch, sequence=sequence, transactional=True)
    )


def leader_of(log: Log, *indexes: int) -> Any:
    def led(topic: str, index: int) -> object:
        if index not in indexes:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        return SimpleNamespace(log=log)

    return SimpleNamespace(led=led)


def test_only_batches_of_transactions_that_may_begin_here_are_verified() -> None:
    log = open_test_log(make_environment(), clean=True)
    plain = bytes(make_batch(producer_id=7, producer_epoch=3))
    batch = transactional(sequence=5)
    request = produce(batch, plain, None, batch[: HEADER_BYTES - 1], batch[:HEADER_BYTES], batch)
    asked = begin_verifications(leader_of(log, 0, 1, 2, 3, 4), request)
    assert [(one.partition, one.producer) for one in asked] == [(("topic", 0), PRODUCER), (("topic", 4), PRODUCER)]
    assert asked[0].guard.lowest_sequence == 5
    log.append_as_leader(bytearray(transactional()), 0, guard=asked[0].guard)
    assert begin_verification(leader_of(log, 0), PARTITION, PRODUCER) is None, "the transaction is open there"
    assert begin_verifications(leader_of(log, 0), produce(batch)) == []


@pytest.mark.parametrize("other", [ProducerIdentity(8, 3), ProducerIdentity(7, 4)])
def test_the_batches_of_a_request_are_of_one_producer(other: ProducerIdentity) -> None:
    log = open_test_log(make_environment(), clean=True)
    with pytest.raises(KafkaError) as refused:
        begin_verifications(leader_of(log, 0, 1), produce(transactional(), transactional(other)))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
