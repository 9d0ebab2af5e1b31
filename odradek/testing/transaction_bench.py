"""A transactional producer on virtual time, over scripted brokers that keep the rules of the real coordinator.

For tests that want trouble on demand: answers that get lost, requests that are refused or never heard.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from odradek.broker.transactions.transaction_state import ONGOING, ProducerIdentity, TransactionMetadata, TxnState
from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.errors import ClientClosed
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.partitioners import RoundRobinPartitioner
from odradek.client.producer.transaction_driver import TransactionDriver
from odradek.client.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode
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
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, read_header
from odradek.protocol.records import decode_records
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "member")
OFFSETS = {TopicPartition("s", 0): OffsetAndMetadata(5)}
OFFSETS_PARTITION = ("__consumer_offsets", 7)
SECOND = 1_000.0


class Model:
    """Model of what brokers keep: a transaction by the real coordinator's rules, and what each partition shows."""

    def __init__(self) -> None:
        nobody = TxnState(ProducerIdentity(40, NO_PRODUCER_EPOCH), 60_000)
        self.transaction = TransactionMetadata("id", nobody)
        self.open: dict[int, list[bytes | None]] = {0: [], 1: []}
        self.committed: dict[int, list[bytes | None]] = {0: [], 1: []}
        self.next_sequence: dict[tuple[int, int, int], int] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.open_offsets: dict[TopicPartition, int] = {}

    def change(self, decided: TxnState | ErrorCode) -> ErrorCode:
        """Write a decision to the log at once; return the error of a refusal."""
        if not isinstance(decided, TxnState):
            return decided
        self.transaction.complete(decided)
        return ErrorCode.NONE

    def initialize(self, request: InitProducerIdRequest) -> ErrorCode:
        """Carry out InitProducerId: what is open is aborted first."""
        expected = None
        if request.producer_id >= 0:
            expected = ProducerIdentity(request.producer_id, request.producer_epoch)
        if self.transaction.state.status is ONGOING:
            self.change(self.transaction.fence_and_abort(0))
            self.mark(commit=False)
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return self.change(self.transaction.initialize(request.transaction_timeout_ms, expected, 41, 0))

    def end(self, producer: ProducerIdentity, *, commit: bool) -> ErrorCode:
        """Carry out EndTxn, with its markers."""
        decided = self.transaction.end(producer, commit=commit, now_ms=0)
        if isinstance(decided, TxnState):
            self.change(decided)
            self.mark(commit=commit)
        return decided if isinstance(decided, ErrorCode) else ErrorCode.NONE

    def mark(self, *, commit: bool) -> None:
        """Show, or forget, what partitions hold of the transaction."""
        self.change(self.transaction.markers_written(0))
        for number, values in self.open.items():
            if commit:
                self.committed[number] += values
            values.clear()
        if commit:
            self.offsets |= self.open_offsets
        self.open_offsets.clear()

    def append(self, number: int, records: Any) -> ErrorCode:
        """Append one batch, checked as the leader of partition `number` does; return the error, or NONE."""
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
    """An engine; the brokers 0 and 1, which coordinate by turns if a test says so."""

    def __init__(self, clock: VirtualClock, scripted_broker: Any, highest: dict[int, int], **settings: object) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.model = Model()
        self.brokers = [scripted_broker(self.network, name, {"t": 2}) for name in ("broker", "other")]
        self.coordinator = 0
        self.refused: dict[type, list[ErrorCode]] = {}
        """Errors, by kind of request, that are answered instead of anything being done."""
        self.lost: dict[type, int] = {}
        """Number of requests, by kind, that are still to be carried out and not answered."""
        self.silent: set[type] = set()
        """Kinds of requests that are neither carried out nor answered."""
        self.mischief: Callable[[type], bool] | None = None
        """Callback before each request, which may order trouble; True leaves the request unheard."""
        for node_id, broker in enumerate(self.brokers):
            broker.highest |= highest
            broker.handlers |= {MetadataRequest: lambda _: self.metadata(), FindCoordinatorRequest: self.find}
            broker.handlers |= {kind: partial(self.answer, node_id) for kind in SERVED}
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
        """What callbacks were told: None, or an error."""
        self.sent: list[tuple[TopicPartition, bytes]] = []
        self.running = asyncio.ensure_future(self.engine.run())

    # brokers

    def metadata(self) -> MetadataResponse:
        """Node 0 leads everything; either may coordinate."""
        answer: MetadataResponse = self.brokers[0].metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=1, host="other", port=9092))
        return answer

    def find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Answer FindCoordinator with whoever coordinates now."""
        host = self.brokers[self.coordinator].name
        [key] = request.coordinator_keys
        one = Coordinator(key=key, node_id=self.coordinator, host=host, port=9092)
        return FindCoordinatorResponse(coordinators=[one])

    def answer(self, node_id: int, request: Any) -> Any:
        """Return what broker `node_id` says, or None, as the test has ordered."""
        kind = type(request)
        if kind in self.silent or (self.mischief is not None and self.mischief(kind)):
            return None
        refusals = self.refused.get(kind)
        error = refusals.pop(0) if refusals else None
        if node_id != self.coordinator and kind is not ProduceRequest:
            error = ErrorCode.NOT_COORDINATOR
        answer = SERVED[kind](self, request, error)
        if self.lost.get(kind):
            self.lost[kind] -= 1
            return None
        return answer

    def initialize(self, request: InitProducerIdRequest, error: ErrorCode | None) -> InitProducerIdResponse:
        """Answer InitProducerId."""
        error = self.model.initialize(request) if error is None else error
        producer = self.model.transaction.state.producer
        return InitProducerIdResponse(error_code=error, producer_id=producer.id, producer_epoch=producer.epoch)

    def add_partitions(self, request: AddPartitionsToTxnRequest, error: ErrorCode | None) -> AddPartitionsToTxnResponse:
        """Answer AddPartitionsToTxn."""
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
        """Answer AddOffsetsToTxn."""
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        if error is None:
            error = self.model.change(self.model.transaction.add(producer, [OFFSETS_PARTITION], 0))
        return AddOffsetsToTxnResponse(error_code=error)

    def commit_offsets(self, request: TxnOffsetCommitRequest, error: ErrorCode | None) -> TxnOffsetCommitResponse:
        """Answer TxnOffsetCommit, to the group that GROUP names."""
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
        """Answer EndTxn."""
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        return EndTxnResponse(error_code=self.model.end(producer, commit=request.committed) if error is None else error)

    def produce(self, request: ProduceRequest, error: ErrorCode | None) -> ProduceResponse:
        """Answer Produce, of topic t."""
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
        """Queue a record, as KafkaProducer.send does."""
        with self.engine.lock:
            told = lambda _, error: self.heard.append(error)  # noqa: E731
            assert self.engine.accumulator.append(place, 5, None, value, (), self.clock.monotonic_ms, told) is not None
        self.sent.append((place, value))
        self.engine.wake()

    async def until_told(self, count: int) -> None:
        """Wait until so many records are delivered or failed."""
        while len(self.heard) < count:
            await asyncio.sleep(0.01)

    def count(self, kind: type) -> int:
        """Count the requests of that kind that either broker has seen."""
        return sum(len(broker.requests(kind)) for broker in self.brokers)

    @property
    def epoch(self) -> int:
        """The producer's, as the coordinator knows it."""
        return self.model.transaction.state.producer.epoch

    async def one(self, value: bytes) -> None:
        """A whole transaction."""
        self.driver.begin()
        self.send(value)
        await self.driver.commit(60 * SECOND)


SERVED: dict[type, Callable[[Bench, Any, ErrorCode | None], Any]] = {
    InitProducerIdRequest: Bench.initialize,
    AddPartitionsToTxnRequest: Bench.add_partitions,
    AddOffsetsToTxnRequest: Bench.add_offsets,
    TxnOffsetCommitRequest: Bench.commit_offsets,
    EndTxnRequest: Bench.end,
    ProduceRequest: Bench.produce,
}
"""What each request is carried out by; with an error it is refused instead."""


def run(
    scripted_broker: Any,
    work: Callable[[Bench], Coroutine[Any, Any, None]],
    highest: dict[int, int] | None = None,
    **settings: object,
) -> Bench:
    """Initialise a producer, do the work, close. The bench as it is then.

    `highest`: API key → the highest version that brokers serve, where it is not the newest.
    """

    async def main(clock: VirtualClock) -> Bench:
        bench = Bench(clock, scripted_broker, highest or {}, **settings)
        await bench.engine.waits.await_topic("t", 0, 1_000)
        await bench.driver.initialise(60 * SECOND)
        await work(bench)
        bench.engine.stop(ClientClosed("stopped"))
        await bench.running
        bench.engine.cluster.close()
        return bench

    return run_virtual(main)
