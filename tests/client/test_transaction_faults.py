"""Transactions while answers get lost, coordinators move, and successors take over; on virtual time."""

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.aio import Producer
from odradek.broker.transactions.transaction_state import ProducerIdentity, TransactionMetadata, TxnState
from odradek.client.errors import AbortRequired, ClientTimeout
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import (
    ProduceRequest,
)
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH
from odradek.testing import run as run_on_cluster
from odradek.testing.transaction_bench import GROUP, OFFSETS, SECOND, T0, T1, Bench, run

COORDINATED = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)
WAITED_OUT = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]


@pytest.mark.parametrize("kind", [InitProducerIdRequest, *COORDINATED])
def test_lost_answers_change_nothing(scripted_broker: Any, kind: type) -> None:
    async def work(bench: Bench) -> None:
        bench.lost[kind] = 2
        bench.driver.begin()
        bench.send(b"a")
        await bench.driver.send_offsets(OFFSETS, GROUP, 60 * SECOND)
        await bench.driver.commit(60 * SECOND)
        bench.lost[kind] = 1
        bench.driver.begin()
        bench.send(b"b")
        await bench.driver.abort(60 * SECOND)
        await bench.one(b"c")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"a", b"c"]
    assert bench.model.offsets == {TopicPartition("s", 0): 5}


@pytest.mark.parametrize("error", WAITED_OUT)
@pytest.mark.parametrize("kind", COORDINATED)
def test_what_is_waited_out(scripted_broker: Any, kind: type, error: ErrorCode) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[kind] = [error] * 4
        bench.driver.begin()
        bench.send(b"x")
        await bench.driver.send_offsets(OFFSETS, GROUP, 60 * SECOND)
        await bench.driver.commit(60 * SECOND)
        assert bench.refused[kind] == []

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"x"] and bench.model.offsets
    assert bench.heard == [None]


def test_the_coordinator_moves_in_a_transaction(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.driver.begin()
        bench.send(b"x")
        await bench.until_told(1)
        bench.coordinator = 1
        await bench.driver.commit(60 * SECOND)
        await bench.one(b"y")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"x", b"y"]
    assert [len(broker.requests(EndTxnRequest)) for broker in bench.brokers] == [1, 2]


def test_a_coordinator_that_dies_is_looked_for_again(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.coordinator = 1
        bench.driver.begin()
        bench.send(b"x")
        await bench.until_told(1)
        bench.brokers[1].listener.close()
        bench.network.reset("other")
        bench.coordinator = 0
        await bench.driver.commit(60 * SECOND)

    assert run(scripted_broker, work).model.committed[0] == [b"x"]


def test_an_answer_to_the_new_epoch_that_is_lost_is_asked_for_again(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"bad")
        await bench.until_told(1)
        bench.lost[InitProducerIdRequest] = 2
        await bench.driver.abort(60 * SECOND)
        await bench.one(b"good")

    bench = run(scripted_broker, work)
    assert bench.epoch == 1 and bench.model.committed[0] == [b"good"]


@pytest.mark.parametrize("kind", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest])
@pytest.mark.parametrize("said", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_says_so_for_ever(scripted_broker: Any, kind: type, said: ErrorCode) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[kind] = [said]
        bench.driver.begin()
        bench.send(b"x")
        raised: list[KafkaError] = []
        calls: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: bench.driver.send_offsets(OFFSETS, GROUP, SECOND),
            lambda: bench.driver.commit(SECOND),
            lambda: bench.driver.abort(SECOND),
            lambda: bench.driver.initialise(SECOND),
        ]
        for call in calls:
            try:
                await call()
            except KafkaError as error:
                raised.append(error)
        assert {error.code for error in raised} == {ErrorCode.PRODUCER_FENCED}
        assert len(raised) == (3 if kind is EndTxnRequest else 4)
        with pytest.raises(KafkaError, match="close this producer"):
            bench.driver.begin()
        with pytest.raises(KafkaError, match="close this producer"):
            bench.send(b"y")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == []


def test_a_leader_that_knows_a_higher_epoch_fails_the_batch_and_the_coordinator_the_producer(
    scripted_broker: Any,
) -> None:
    """KIP-588: the first is no more than a failed batch."""

    async def work(bench: Bench) -> None:
        bench.driver.begin()
        bench.send(b"x")
        await bench.until_told(1)
        successor = InitProducerIdRequest(transaction_timeout_ms=60_000)
        assert bench.model.initialize(successor) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert bench.model.initialize(successor) is ErrorCode.NONE
        bench.send(b"late")
        await bench.until_told(2)
        with pytest.raises(AbortRequired, match="INVALID_PRODUCER_EPOCH"):
            await bench.driver.commit(SECOND)
        with pytest.raises(KafkaError) as fenced:
            await bench.driver.abort(SECOND)
        assert fenced.value.code == ErrorCode.PRODUCER_FENCED

    run(scripted_broker, work)


def test_a_producer_id_that_was_forgotten_is_replaced_by_the_abort(scripted_broker: Any) -> None:
    """transactional.id.expiration.ms (KIP-360): there is nothing to end."""

    async def work(bench: Bench) -> None:
        nobody = TxnState(ProducerIdentity(50, NO_PRODUCER_EPOCH), 60_000)
        bench.model.transaction = TransactionMetadata("id", nobody)
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(AbortRequired, match="INVALID_PRODUCER_ID_MAPPING"):
            await bench.driver.commit(SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"y")

    bench = run(scripted_broker, work)
    assert bench.model.transaction.state.producer == (50, 0)
    assert bench.model.committed[0] == [b"y"]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_committed_is_there_once_and_nothing_else_in_any_trouble(scripted_broker: Any, seed: int) -> None:
    chance = random.Random(seed)
    expected: dict[TopicPartition, list[bytes]] = {T0: [], T1: []}
    last: dict[TopicPartition, int] = {}
    counted = {"committed": 0, "aborted": 0}

    def mischief(bench: Bench, kind: type) -> bool:
        roll = chance.random()
        if roll < 0.05:
            bench.lost[kind] = 1
        elif roll < 0.2:
            errors = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD] if kind is ProduceRequest else WAITED_OUT
            bench.refused[kind] = [chance.choice(errors)]
        elif roll < 0.25:
            bench.coordinator = chance.randrange(2)
        return roll > 0.95

    async def attempt(bench: Bench, number: int) -> bool:
        bench.driver.begin()
        for at in range(chance.randrange(6)):
            bench.send(b"%d-%d" % (number, at), (T0, T1)[at % 2])
            await asyncio.sleep(chance.choice([0, 0.01]))
        await bench.driver.send_offsets({T0: OffsetAndMetadata(number)}, GROUP, 600 * SECOND)
        if chance.random() < 0.3:
            return False
        await bench.driver.commit(600 * SECOND)
        return True

    async def work(bench: Bench) -> None:
        bench.mischief = lambda kind: mischief(bench, kind)
        for number in range(30):
            sent = len(bench.sent)
            try:
                committed = await attempt(bench, number)
            except AbortRequired:
                committed = False
            if not committed:
                await bench.driver.abort(600 * SECOND)
            counted["committed" if committed else "aborted"] += 1
            for place, value in bench.sent[sent:] if committed else ():
                expected[place].append(value)
            if committed:
                last[T0] = number
        bench.mischief = None

    bench = run(scripted_broker, work)
    assert bench.model.committed == {0: expected[T0], 1: expected[T1]}
    assert bench.model.offsets == last
    assert min(counted.values()) > 3, counted


def test_an_old_coordinator_is_not_asked_for_what_it_would_misunderstand(scripted_broker: Any) -> None:
    """Before KIP-360 a producer that has failed cannot tell whether it has a successor, which it would fence."""

    async def work(bench: Bench) -> None:
        bench.driver.begin()
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            await bench.driver.send_offsets(OFFSETS, GROUP, SECOND)
        assert bench.count(TxnOffsetCommitRequest) == 0

    run(scripted_broker, work, highest={28: 2})

    async def fail(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(AbortRequired):
            await bench.driver.commit(SECOND)
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            await bench.driver.abort(SECOND)

    bench = run(scripted_broker, fail, highest={22: 2})
    assert bench.count(InitProducerIdRequest) == 1


def test_an_error_that_each_call_raises_keeps_nothing_of_those_before() -> None:
    """Its traceback grew with each send of a producer that was fenced, and held the records of all."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="id") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("t", b"x")
            await producer.flush()
            await cluster.fence("id")
            with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
                await producer.commit_transaction()
            lengths = set()
            for _ in range(5):
                with pytest.raises(KafkaError, match="PRODUCER_FENCED") as raised:
                    await producer.send("t", b"x")
                lengths.add(len(list(traceback.walk_tb(raised.value.__traceback__))))
            assert len(lengths) == 1

    run_on_cluster(main, brokers=1, topics={"t": 1}, seed=7)


@pytest.mark.parametrize(
    ("api", "said"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE: transactional.id id: its coordinator is not available"),
        ("InitProducerId", "COORDINATOR_NOT_AVAILABLE: InitProducerId"),
    ],
)
def test_who_waits_for_a_coordinator_in_vain_is_told_what_it_says(api: str, said: str) -> None:
    """As where there are fewer brokers than __transaction_state is to have replicas: the call took too long, that was
    all."""

    async def main(cluster: Any) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="id") as producer:
            refused = await cluster.respond(api, "COORDINATOR_NOT_AVAILABLE", times=None)
            with pytest.raises(ClientTimeout, match=f"not done within 5 s; .*; last: {said}"):
                await producer.init_transactions(5)
            await cluster.clear(refused)
            await producer.init_transactions()

    run_on_cluster(main, brokers=1, seed=7)
