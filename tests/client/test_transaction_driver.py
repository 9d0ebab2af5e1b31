"""Transactions on virtual time: a scripted broker with the rules of the real coordinator, and trouble on demand."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.broker.transactions.transaction import NO_PRODUCER_EPOCH, ONGOING, Snapshot
from odradek.broker.transactions.transaction import Producer as ProducerIdentity
from odradek.broker.transactions.transaction import Transaction as CoordinatedTransaction
from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.errors import AbortRequired, ClientError, ClientTimeout, TransactionAborted
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.partitioners import RoundRobinPartitioner
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.record_batch import read_header
from odradek.protocol.records import decode_records
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "member")
OFFSETS = {TopicPartition("s", 0): OffsetAndMetadata(5)}
OFFSETS_PARTITION = ("__consumer_offsets", 7)
SECOND = 1_000.0


class Model:
    """What brokers keep: the transaction as the real coordinator's rules have it, and what each partition shows."""

    def __init__(self) -> None:
        nobody = Snapshot(ProducerIdentity(40, NO_PRODUCER_EPOCH), 60_000)
        self.transaction = CoordinatedTransaction("id", nobody)
        self.open: dict[int, list[bytes | None]] = {0: [], 1: []}
        self.committed: dict[int, list[bytes | None]] = {0: [], 1: []}
        self.next_sequence: dict[tuple[int, int, int], int] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.open_offsets: dict[TopicPartition, int] = {}

    def change(self, decided: Snapshot | ErrorCode) -> ErrorCode:
        if not isinstance(decided, Snapshot):
            return decided
        self.transaction.complete(decided)
        return ErrorCode.NONE

    def initialize(self, request: InitProducerIdRequest) -> ErrorCode:
        expected = None
        if request.producer_id >= 0:
            expected = ProducerIdentity(request.producer_id, request.producer_epoch)
        if self.transaction.state.status is ONGOING:
            self.change(self.transaction.fence_and_abort(0))
            self.mark(commit=False)
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return self.change(self.transaction.initialize(request.transaction_timeout_ms, expected, 41, 0))

    def end(self, producer: ProducerIdentity, *, commit: bool) -> ErrorCode:
        decided = self.transaction.end(producer, commit=commit, now_ms=0)
        if isinstance(decided, Snapshot):
            self.change(decided)
            self.mark(commit=commit)
        return decided if isinstance(decided, ErrorCode) else ErrorCode.NONE

    def mark(self, *, commit: bool) -> None:
        self.change(self.transaction.markers_written(0))
        for number, values in self.open.items():
            if commit:
                self.committed[number] += values
            values.clear()
        if commit:
            self.offsets |= self.open_offsets
        self.open_offsets.clear()

    def append(self, number: int, records: Any) -> ErrorCode:
        header = read_header(records)
        assert header.is_transactional, "a batch without the bit"
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        refused = self.transaction.verify(producer, ("t", number), ErrorCode.INVALID_TXN_STATE)
        if refused is not ErrorCode.NONE:
            return ErrorCode.INVALID_PRODUCER_EPOCH if refused is ErrorCode.PRODUCER_FENCED else refused
        place = (number, *producer)
        expected = self.next_sequence.get(place, 0)
        if header.base_sequence + header.record_count == expected:
            return ErrorCode.NONE  # it has it already
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.next_sequence[place] = header.base_sequence + header.record_count
        self.open[number] += decode_records(records).values
        return ErrorCode.NONE


class Bench:
    """One engine; the brokers 0 and 1, which coordinate by turns if a test says so."""

    def __init__(self, clock: VirtualClock, scripted_broker: Any, **settings: object) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.model = Model()
        self.brokers = [scripted_broker(self.network, name, {"t": 2}) for name in ("broker", "other")]
        self.coordinator = 0
        self.refused: dict[type, list[ErrorCode]] = {}
        """Answered instead of anything being done."""
        self.lost: dict[type, int] = {}
        """So many requests are carried out and not answered."""
        self.silent: set[type] = set()
        """Neither carried out nor answered."""
        for node_id, broker in enumerate(self.brokers):
            broker.handlers |= {
                MetadataRequest: lambda _: self.metadata(),
                FindCoordinatorRequest: self.find,
                InitProducerIdRequest: lambda request, at=node_id: self.answer(at, request, self.initialize),
                AddPartitionsToTxnRequest: lambda request, at=node_id: self.answer(at, request, self.add_partitions),
                AddOffsetsToTxnRequest: lambda request, at=node_id: self.answer(at, request, self.add_offsets),
                TxnOffsetCommitRequest: lambda request, at=node_id: self.answer(at, request, self.commit_offsets),
                EndTxnRequest: lambda request, at=node_id: self.answer(at, request, self.end),
                ProduceRequest: lambda request: self.answer(self.coordinator, request, self.produce),
            }
        given = {
            "bootstrap_servers": "broker:9092",
            "transactional_id": "id",
            "request_timeout_ms": 1_000,
            "delivery_timeout_ms": 10_000,
        }
        config = load(ProducerConfig, None, {**given, **settings})
        cluster = Cluster(self.network.host("client"), clock, random.Random(0), config)
        self.engine = ProducerEngine(cluster, config, RoundRobinPartitioner())
        assert self.engine.transactions is not None
        self.driver: TransactionDriver = self.engine.transactions
        self.heard: list[object] = []
        self.running = asyncio.ensure_future(self.engine.run())

    # brokers

    def metadata(self) -> MetadataResponse:
        answer: MetadataResponse = self.brokers[0].metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=1, host="other", port=9092))
        return answer

    def find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        host = self.brokers[self.coordinator].name
        [key] = request.coordinator_keys
        one = Coordinator(key=key, node_id=self.coordinator, host=host, port=9092)
        return FindCoordinatorResponse(coordinators=[one])

    def answer(self, node_id: int, request: Any, serve: Callable[[Any, ErrorCode | None], Any]) -> Any:
        kind = type(request)
        if kind in self.silent:
            return None
        refusals = self.refused.get(kind)
        error = refusals.pop(0) if refusals else None
        answer = serve(request, error if node_id == self.coordinator else ErrorCode.NOT_COORDINATOR)
        if self.lost.get(kind):
            self.lost[kind] -= 1
            return None
        return answer

    def initialize(self, request: InitProducerIdRequest, error: ErrorCode | None) -> InitProducerIdResponse:
        error = self.model.initialize(request) if error is None else error
        producer = self.model.transaction.state.producer
        return InitProducerIdResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch)

    def add_partitions(self, request: AddPartitionsToTxnRequest, error: ErrorCode | None) -> AddPartitionsToTxnResponse:
        producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        places = [(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions]
        if error is None:
            error = self.model.change(self.model.transaction.add(producer, places, 0))
        results = [
            AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
            for _, number in places
        ]
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def add_offsets(self, request: AddOffsetsToTxnRequest, error: ErrorCode | None) -> AddOffsetsToTxnResponse:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        if error is None:
            error = self.model.change(self.model.transaction.add(producer, [OFFSETS_PARTITION], 0))
        return AddOffsetsToTxnResponse(error_code=error)

    def commit_offsets(self, request: TxnOffsetCommitRequest, error: ErrorCode | None) -> TxnOffsetCommitResponse:
        assert (request.group_id, request.generation_id, request.member_id) == GROUP[:3]
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        if error is None:
            error = self.model.transaction.verify(producer, OFFSETS_PARTITION, ErrorCode.INVALID_TXN_STATE)
        [topic] = request.topics
        [one] = topic.partitions
        if error is ErrorCode.NONE:
            self.model.open_offsets[TopicPartition(topic.name, one.partition_index)] = one.committed_offset
        result = TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=topic.name, partitions=[result])])

    def end(self, request: EndTxnRequest, error: ErrorCode | None) -> EndTxnResponse:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        return EndTxnResponse(error_code=self.model.end(producer, commit=request.committed) if error is None else error)

    def produce(self, request: ProduceRequest, error: ErrorCode | None) -> ProduceResponse:
        assert request.transactional_id == "id"
        results = [
            PartitionProduceResponse(
                index=one.index, error_code=self.model.append(one.index, one.records) if error is None else error
            )
            for one in request.topic_data[0].partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=results)])

    # the application

    def send(self, value: bytes, place: TopicPartition = T0) -> None:
        with self.engine.lock:
            appended = self.engine.accumulator.append(place, 5, None, value, (), self.clock.monotonic_ms())
            assert appended is not None
            appended.batch.callbacks.append((appended.index, lambda _, error: self.heard.append(error)))
        self.engine.wake()

    async def until_told(self, count: int) -> None:
        while len(self.heard) < count:
            await asyncio.sleep(0.01)

    def count(self, kind: type) -> int:
        return sum(len(broker.requests(kind)) for broker in self.brokers)

    @property
    def epoch(self) -> int:
        return self.model.transaction.state.producer.epoch

    async def one(self, value: bytes) -> None:
        self.driver.begin()
        self.send(value)
        await self.driver.commit(60 * SECOND)


def run(scripted_broker: Any, work: Callable[[Bench], Coroutine[Any, Any, None]], **settings: object) -> Bench:
    """Initialised; in the end another transaction must go through unless the producer is fenced."""

    async def main(clock: VirtualClock) -> Bench:
        bench = Bench(clock, scripted_broker, **settings)
        await bench.engine.await_topic("t", 0, 1_000)
        await bench.driver.initialise(60 * SECOND)
        await work(bench)
        bench.engine.stop(RuntimeError("stopped"))
        await bench.running
        bench.engine.cluster.close()
        return bench

    return run_virtual(main)


COORDINATED = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)


def test_commits_and_aborts_follow_each_other(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        for number in range(4):
            bench.driver.begin()
            bench.send(b"%d" % number, T0)
            bench.send(b"%d" % number, T1)
            await bench.until_told(2 * number + 2)
            await (bench.driver.abort if number % 2 else bench.driver.commit)(SECOND)

    bench = run(scripted_broker, work)
    assert bench.model.committed == {0: [b"0", b"2"], 1: [b"0", b"2"]}
    assert bench.heard == [None] * 8
    assert bench.epoch == 0, "nothing was lost: no other epoch is needed"


def test_an_empty_transaction_is_none_of_the_coordinators_business(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.driver.begin()
        await bench.driver.commit(SECOND)
        bench.driver.begin()
        await bench.driver.abort(SECOND)

    bench = run(scripted_broker, work)
    assert bench.count(EndTxnRequest) == bench.count(AddPartitionsToTxnRequest) == 0


def test_a_lingering_batch_is_flushed_by_the_commit(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        await bench.one(b"x")
        assert bench.clock.monotonic_ms() < 1_000

    bench = run(scripted_broker, work, linger_ms=5_000)
    assert bench.model.committed[0] == [b"x"]


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


WAITED_OUT = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]


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


def test_batches_wait_until_their_partition_is_named(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 5
        bench.driver.begin()
        bench.send(b"x")
        await asyncio.sleep(0.03)
        assert bench.count(AddPartitionsToTxnRequest) and not bench.count(ProduceRequest)
        await bench.until_told(1)
        bench.send(b"y")
        await bench.until_told(2)
        assert bench.count(AddPartitionsToTxnRequest) == 6, "once it is named, it is"

    run(scripted_broker, work)


def test_a_failed_record_fails_the_transaction_and_the_next_one_has_a_new_epoch(scripted_broker: Any) -> None:
    """KIP-360: the broker did not take a sequence; under the next epoch they begin at 0."""

    async def work(bench: Bench) -> None:
        await bench.one(b"before")
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"bad")
        await bench.until_told(2)
        with pytest.raises(AbortRequired, match=r"call abort_transaction\(\): INVALID_RECORD: t-0") as failed:
            bench.send(b"refused")
        assert isinstance(failed.value.reason, KafkaError)
        with pytest.raises(AbortRequired):
            await bench.driver.commit(SECOND)
        with pytest.raises(AbortRequired):
            await bench.driver.send_offsets(OFFSETS, GROUP, SECOND)
        with pytest.raises(AbortRequired):
            bench.driver.begin()
        await bench.driver.abort(SECOND)
        await bench.one(b"after")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"before", b"after"]
    assert bench.epoch == 1
    bump = bench.brokers[0].requests(InitProducerIdRequest)[-1]
    assert (bump.producer_id, bump.producer_epoch) == (40, 0)


def test_a_gap_that_a_retry_closes_is_no_failure(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        await bench.one(b"before")
        bench.refused[ProduceRequest] = [ErrorCode.NOT_ENOUGH_REPLICAS]
        bench.driver.begin()
        bench.send(b"first")
        bench.send(b"second")  # out of order, until the first is there
        await bench.driver.commit(60 * SECOND)

    bench = run(scripted_broker, work, batch_size=1)
    assert bench.model.committed[0] == [b"before", b"first", b"second"]
    assert bench.count(ProduceRequest) > 3 and bench.epoch == 0


@pytest.mark.parametrize("error", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_gap_that_nothing_closes_is_left_to_the_abort(scripted_broker: Any, error: ErrorCode) -> None:
    """Without transactions the producer would raise its epoch by itself."""

    async def work(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [error]
        bench.driver.begin()
        bench.send(b"bad")
        with pytest.raises(AbortRequired, match=error.name):
            await bench.driver.commit(60 * SECOND)
        assert bench.count(ProduceRequest) == 1
        await bench.driver.abort(60 * SECOND)
        await bench.one(b"good")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"good"] and bench.epoch == 1


def test_a_record_that_fails_while_the_commit_flushes_fails_the_commit(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"bad")
        with pytest.raises(AbortRequired):
            await bench.driver.commit(SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"good")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"good"]
    assert [request.committed for request in bench.brokers[0].requests(EndTxnRequest)] == [False, True]


def test_an_abort_fails_what_is_queued_and_waits_for_what_is_on_the_wire(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.driver.begin()
        bench.send(b"named")
        await bench.until_told(1)
        bench.silent.add(ProduceRequest)
        bench.send(b"on the wire")
        await asyncio.sleep(0.05)
        bench.send(b"queued", T1)
        bench.refused[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
        began_ms = bench.clock.monotonic_ms()
        await bench.driver.abort(60 * SECOND)
        assert bench.clock.monotonic_ms() - began_ms > 900, "the request's time must be over first"
        bench.silent.clear()
        assert [type(error) for error in bench.heard[1:]] == [TransactionAborted, KafkaError]
        await bench.one(b"next")

    bench = run(scripted_broker, work)
    assert bench.model.committed == {0: [b"next"], 1: []}
    assert bench.epoch == 1, "nobody knows whether the broker has the sequence"


def test_an_abort_before_the_coordinator_has_heard_anything(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(AddPartitionsToTxnRequest)
        bench.driver.begin()
        bench.send(b"never")
        await asyncio.sleep(0.1)
        await bench.driver.abort(60 * SECOND)
        bench.silent.clear()
        await bench.one(b"next")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"next"]
    assert [type(error) for error in bench.heard] == [TransactionAborted, type(None)]


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


def test_records_that_nobody_takes_fail_the_transaction_in_time(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(ProduceRequest)
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(AbortRequired, match=r"delivery\.timeout\.ms=10000"):
            await bench.driver.commit(60 * SECOND)
        await bench.driver.abort(60 * SECOND)
        bench.silent.clear()
        await bench.one(b"y")

    assert run(scripted_broker, work).model.committed[0] == [b"y"]


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
        nobody = Snapshot(ProducerIdentity(50, NO_PRODUCER_EPOCH), 60_000)
        bench.model.transaction = CoordinatedTransaction("id", nobody)
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(AbortRequired, match="INVALID_PRODUCER_ID_MAPPING"):
            await bench.driver.commit(SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"y")

    bench = run(scripted_broker, work)
    assert bench.model.transaction.state.producer == (50, 0)
    assert bench.model.committed[0] == [b"y"]


def test_a_commit_that_takes_too_long_goes_on_and_is_called_again(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(EndTxnRequest)
        bench.driver.begin()
        bench.send(b"x")
        for _ in range(2):
            with pytest.raises(ClientTimeout, match=r"commit_transaction\(\): not done within 2 s; .* call it again"):
                await bench.driver.commit(2 * SECOND)
        with pytest.raises(ClientError, match=r"no send\(\) now: commit_transaction\(\) is under way"):
            bench.send(b"y")
        with pytest.raises(ClientError, match=r"commit_transaction\(\) was not waited for"):
            await bench.driver.abort(SECOND)
        bench.silent.clear()
        await asyncio.sleep(10)
        assert bench.model.committed[0] == [b"x"]
        with pytest.raises(ClientError, match=r"commit_transaction\(\) was not waited for"):
            bench.driver.begin()
        await bench.driver.commit(SECOND)
        await bench.one(b"y")

    assert run(scripted_broker, work).model.committed[0] == [b"x", b"y"]


def test_a_commit_waits_for_offsets_that_nobody_waits_for(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[TxnOffsetCommitRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 6
        bench.driver.begin()
        with pytest.raises(ClientTimeout, match="send_offsets_to_transaction"):
            await bench.driver.send_offsets(OFFSETS, GROUP, 0.1 * SECOND)
        assert bench.refused[TxnOffsetCommitRequest]
        await bench.driver.commit(60 * SECOND)

    assert run(scripted_broker, work).model.offsets == {TopicPartition("s", 0): 5}


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_offsets_of_a_member_that_is_none_any_more(scripted_broker: Any, error: ErrorCode) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[TxnOffsetCommitRequest] = [error]
        bench.driver.begin()
        with pytest.raises(AbortRequired, match=f"group g: offsets not committed.*{error.name}"):
            await bench.driver.send_offsets(OFFSETS, GROUP, SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"x")

    bench = run(scripted_broker, work)
    assert not bench.model.offsets and bench.epoch == 0


def test_close_waits_for_a_commit_and_aborts_what_is_open(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.lost[EndTxnRequest] = 1
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(ClientTimeout):
            await bench.driver.commit(0.1 * SECOND)
        await bench.driver.close(60 * SECOND)
        await bench.driver.commit(SECOND)
        bench.driver.begin()
        bench.send(b"y")
        await bench.until_told(2)
        await bench.driver.close(60 * SECOND)

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"x"] and bench.model.open[0] == []
    assert [request.committed for request in bench.brokers[0].requests(EndTxnRequest)] == [True, True, False]
