"""The producer's engine against a scripted broker, on virtual time."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.errors import BrokerUnreachable, BufferExhausted, ClientClosed, ClientTimeout
from odradek.client.producer.config import ProducerConfig
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.partitioners import RoundRobinPartitioner
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.record_batch import read_header
from odradek.protocol.records import decode_records
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)


class Bench:
    """One engine, one broker; `heard` are the callbacks in order."""

    def __init__(self, clock: VirtualClock, scripted_broker: Any, **settings: object) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.broker = scripted_broker(self.network)
        self.log: list[bytes | None] = []
        self.errors: list[ErrorCode] = []
        self.broker.handlers[InitProducerIdRequest] = lambda request: InitProducerIdResponse(
            producer_id=7, producer_epoch=0
        )
        self.broker.handlers[ProduceRequest] = self.produce
        config = load(ProducerConfig, None, {"bootstrap_servers": "broker:9092", "client_id": "p", **settings})
        cluster = Cluster(self.network.host("client"), clock, random.Random(0), config)
        self.engine = ProducerEngine(cluster, config, RoundRobinPartitioner())
        self.heard: list[object] = []
        self.running = asyncio.ensure_future(self.engine.run())

    def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        base = len(self.log)
        if error == ErrorCode.NONE:
            self.log += decode_records(records).values
        if request.acks == 0:
            return None
        one = PartitionProduceResponse(index=0, error_code=error, base_offset=base, error_message="said why")
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])

    def send(self, value: bytes) -> None:
        with self.engine.lock:
            told = lambda metadata, error: self.heard.append(error or metadata.offset)  # noqa: E731
            assert self.engine.accumulator.append(T0, 5, None, value, (), self.clock.monotonic_ms, told) is not None
        self.engine.wake()

    async def until_told(self, count: int) -> None:
        while len(self.heard) < count:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        self.engine.stop(ClientClosed("stopped"))
        await self.running
        self.engine.cluster.close()


def run(scripted_broker: Any, work: Callable[[Bench], Coroutine[Any, Any, None]], **settings: object) -> Bench:
    async def main(clock: VirtualClock) -> Bench:
        bench = Bench(clock, scripted_broker, **settings)
        await bench.engine.waits.await_topic("t", 0, 1_000)
        await work(bench)
        await bench.close()
        return bench

    return run_virtual(main)


def test_records_arrive_in_order_with_sequences_and_callbacks_are_told_in_order(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        for number in range(20):
            bench.send(b"%d" % number)
            if number % 3 == 0:
                await asyncio.sleep(0.005)
        await bench.until_told(20)

    bench = run(scripted_broker, work, batch_size=200)
    assert bench.log == [b"%d" % number for number in range(20)]
    assert bench.heard == list(range(20))
    headers = [
        read_header(request.topic_data[0].partition_data[0].records)
        for request in bench.broker.requests(ProduceRequest)
    ]
    assert {one.producer_id for one in headers} == {7}
    following = 0
    for one in headers:
        assert one.base_sequence == following
        following += one.record_count


def test_lingering_puts_records_together(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        for number in range(5):
            bench.send(b"%d" % number)
            await asyncio.sleep(0.005)
        await bench.until_told(5)

    bench = run(scripted_broker, work, linger_ms=50)
    assert len(bench.broker.requests(ProduceRequest)) == 1


def test_acks_0_is_told_without_an_answer(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.send(b"x")
        await bench.until_told(1)
        await asyncio.sleep(0.05)

    bench = run(scripted_broker, work, acks="0")
    assert bench.heard == [-1] and bench.log == [b"x"]


def test_a_moved_leader_means_new_metadata_and_another_attempt(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        before = len(bench.broker.requests(MetadataRequest))
        bench.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        bench.send(b"x")
        await bench.until_told(1)
        assert len(bench.broker.requests(MetadataRequest)) > before

    assert run(scripted_broker, work).heard == [0]


def test_a_refusal_is_told_with_partition_and_reason(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.errors = [ErrorCode.INVALID_RECORD]
        bench.send(b"x")
        await bench.until_told(1)

    (error,) = run(scripted_broker, work).heard
    assert isinstance(error, KafkaError) and str(error) == "INVALID_RECORD: t-0: said why"


def test_a_dead_broker_is_waited_for_until_the_delivery_timeout_and_no_attempt_is_lost(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.send(b"first")
        await bench.until_told(1)
        bench.broker.listener.close()
        bench.network.reset("broker")
        bench.send(b"lost")
        await bench.until_told(2)
        assert 2_000 <= bench.clock.monotonic_ms() < 2_300

    error = run(scripted_broker, work, delivery_timeout_ms=2_000, request_timeout_ms=1_000).heard[1]
    assert isinstance(error, ClientTimeout)
    assert "t-0: 1 record(s) not acknowledged within delivery.timeout.ms=2000" in str(error)


@pytest.mark.parametrize(
    ("topic", "partition", "said"),
    [
        ("nope", None, "topic nope: the cluster does not have it, after waiting max.block.ms=500"),
        ("t", 3, r"partition 3 of topic t: the topic has only 1 partitions \(0-0\), after waiting max.block.ms=500"),
    ],
)
def test_an_unknown_topic_or_partition_is_waited_for_and_named(
    scripted_broker: Any, topic: str, partition: int | None, said: str
) -> None:
    async def work(bench: Bench) -> None:
        began_ms = bench.clock.monotonic_ms()
        with pytest.raises(ClientTimeout, match=said):
            await bench.engine.waits.await_topic(topic, partition, 500)
        assert 500 <= bench.clock.monotonic_ms() - began_ms < 600

    run(scripted_broker, work)


def test_a_topic_that_is_not_sent_to_any_more_is_forgotten(scripted_broker: Any) -> None:
    """It was asked for as long as the producer lived, and so made anew whenever somebody had deleted it."""

    async def work(bench: Bench) -> None:
        bench.send(b"a")
        await asyncio.sleep(1)
        assert bench.engine.cluster.needs.topics == ["t"]
        await asyncio.sleep(700)
        assert bench.engine.cluster.needs.topics == []
        bench.send(b"b")
        await asyncio.sleep(1)
        assert bench.log == [b"a", b"b"]

    run(scripted_broker, work)


def test_a_node_that_takes_no_second_connection_is_not_connected_to_without_end(scripted_broker: Any) -> None:
    """Its machine had died without a word, so the first connection looked open: it was asked for again and again."""

    async def work(bench: Bench) -> None:
        cluster, connections = bench.engine.cluster, []
        bench.send(b"0")
        await bench.until_told(1)
        (node_id,) = cluster.view.nodes
        bench.network.end_programs("broker", silently=True)
        with pytest.raises(BrokerUnreachable):
            await cluster.connection(node_id, "another")
        assert cluster.connected(node_id)
        connect = cluster.connection
        cluster.connection = lambda *where: connections.append(where) or connect(*where)  # type: ignore
        bench.engine.wake()
        for _ in range(20):  # turns of the loop, in which no time passes
            await asyncio.sleep(0)
        assert not connections

    run(scripted_broker, work)


def test_a_send_waits_for_memory_until_its_time_is_over_whenever_it_begins(scripted_broker: Any) -> None:
    """In one of eight waits the timer came before the clock said so, and no other one was set: it waited for ever."""

    async def main(clock: VirtualClock) -> None:
        bench = Bench(clock, scripted_broker)
        for _ in range(100):
            began_s = asyncio.get_running_loop().time()
            with pytest.raises(BufferExhausted):
                await asyncio.wait_for(bench.engine.waits.until_queued(lambda _: None, T0, 100, 100.0), 10)
            assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.1)
        await bench.close()

    run_virtual(main)
