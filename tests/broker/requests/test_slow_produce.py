"""Produce requests that take long are served in slices: others are served in between, and nothing changes its order."""

import asyncio
import json
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.requests.produce import AT_ONCE
from odradek.protocol.compression import GZIP, NONE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.message_set import down_convert
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.records import Columns, encode_batch
from odradek.protocol.steps import STEP_RECORDS
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

pytestmark = pytest.mark.usefixtures("slow_machine")

MANY = 5 * STEP_RECORDS
SETTLED_S = 5.0
REQUEST_LOG = "kafka.request.logger"
TRANSACTION = 1
T0 = 1_700_000_000_000
Scenario = Callable[[EmbeddedCluster], Awaitable[None]]


def with_topic(scenario: Scenario, partitions: int = 1, **configs: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        settings = {"log.retention.ms": "-1"} | {
            f"transaction.state.log.{name}": "1" for name in ("num.partitions", "replication.factor", "min.isr")
        }
        async with EmbeddedCluster(clock, 1, settings) as cluster:
            config = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
            made = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1, configs=config)
            await client(cluster).request(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7, 60_000)
            await scenario(cluster)

    run_virtual(main)


def client(cluster: EmbeddedCluster) -> Peer:
    return Peer(cluster.network.host("client"), cluster.clock, "broker-0", cluster.port, "test")


def produce(records: bytes | bytearray, acks: int = 1, **request: Any) -> ProduceRequest:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[data], **request)


def messages(count: int, codec: int = NONE) -> bytes:
    return down_convert(Columns(list(range(count)), [T0] * count, [None] * count, [b"v"] * count), 1, codec)


def batch(count: int, key: bytes | None = b"k", **header: Any) -> bytearray:
    return encode_batch(0, [T0] * count, [key] * count, [b"v"] * count, **header)


async def answered(peer: Peer, request: ProduceRequest, version: int) -> PartitionProduceResponse:
    response: Any = await peer.request(request, version, 60_000)
    (answer,) = response.responses[0].partition_responses
    assert isinstance(answer, PartitionProduceResponse)
    return answer


async def offsets(cluster: EmbeddedCluster, slow: ProduceRequest, quick: ProduceRequest, version: int) -> list[int]:
    """Base offsets of a slow request, of a quick one behind it, and of one that another client sends meanwhile."""
    one, other = client(cluster), client(cluster)
    for peer in (one, other):
        assert (await answered(peer, produce(batch(1)), 9)).error_code == 0
    first = asyncio.ensure_future(answered(one, slow, version))
    second = asyncio.ensure_future(answered(one, quick, version))
    third = asyncio.ensure_future(answered(other, produce(batch(1)), 9))
    answers = await asyncio.gather(first, second, third)
    assert not any(answer.error_code for answer in answers)
    return [answer.base_offset for answer in answers]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_messages_of_an_old_producer(codec: int, acks: int) -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        slow, quick = produce(messages(MANY, codec), acks), produce(messages(1), acks)
        assert await offsets(cluster, slow, quick, 2) == [3, MANY + 3, 2]

    with_topic(scenario)


@pytest.mark.parametrize("rules", [{"cleanup_policy": "compact"}, {"compression_type": "gzip"}])
def test_records_that_the_topic_has_rules_for(rules: dict[str, Any]) -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        slow, quick = produce(batch(MANY), -1), produce(batch(1), -1)
        assert await offsets(cluster, slow, quick, 9) == [3, MANY + 3, 2]

    with_topic(scenario, **rules)


def test_a_batch_is_refused_whole() -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        refused = await answered(client(cluster), produce(batch(MANY, None)), 9)
        assert refused.error_code == ErrorCode.INVALID_RECORD and len(refused.record_errors) == MANY
        refused = await answered(client(cluster), produce(messages(MANY)), 2)
        assert refused.error_code == ErrorCode.INVALID_RECORD, "converted, and then looked at"
        assert (await answered(client(cluster), produce(batch(1)), 9)).base_offset == 0

    with_topic(scenario, cleanup_policy="compact")


def test_without_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    """acks=0: the next request waits all the same, and after a refusal the connection closes. The request log says when
    each was done."""
    caplog.set_level(logging.DEBUG, logger=REQUEST_LOG)

    async def scenario(cluster: EmbeddedCluster) -> None:
        endpoint = await cluster.network.host("client").connect("broker-0", cluster.port)
        received, arrived, buffer = bytearray(), asyncio.Event(), memoryview(bytearray(1 << 12))

        def take() -> None:
            received.extend(buffer[: endpoint.receive_into(buffer)])
            arrived.set()

        def send(request: ProduceRequest, correlation: int) -> None:
            frame = b"".join(encode_request(RequestHeader(request.API_KEY, 2, correlation, "test"), request))
            endpoint.send(struct.pack(">i", len(frame)) + frame)

        endpoint.on_readable(take)
        send(produce(messages(MANY), 0), 1)
        send(produce(messages(1), 1), 2)
        await arrived.wait()
        size, correlation = struct.unpack_from(">ii", received)
        (offset,) = struct.unpack_from(">q", received, len(received) - 20)  # before the time and the throttle time
        assert (size + 4, correlation, offset) == (len(received), 2, MANY)
        received.clear()
        arrived.clear()
        send(produce(messages(MANY)[:-1], 0), 3)
        await arrived.wait()
        assert not received, "closed"
        lines = [record.getMessage() for record in caplog.records if record.name == REQUEST_LOG]
        told = [json.loads(line.partition(":")[2]) for line in lines if "Produce" in line]
        assert [(one["correlationId"], one["responseBytes"] > 0) for one in told] == [(1, False), (2, True), (3, False)]

    with_topic(scenario)


def test_a_transaction() -> None:
    """What takes long comes before the coordinator is asked, whose word holds for the moment."""

    async def scenario(cluster: EmbeddedCluster) -> None:
        peer, name = client(cluster), "tx"
        begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        await peer.request(FindCoordinatorRequest(key=name, key_type=TRANSACTION), 3, 60_000)  # makes its topic
        await asyncio.sleep(SETTLED_S)
        producer: Any = await peer.request(begin, 4, 60_000)
        assert not producer.error_code
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
        await peer.request(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=ids["producer_id"],
                v3_and_below_producer_epoch=ids["producer_epoch"],
                v3_and_below_topics=topics,
            ),
            3,
            60_000,
        )
        for key, error, offset in ((None, ErrorCode.INVALID_RECORD, -1), (b"k", ErrorCode.NONE, 0)):
            records = batch(MANY, key, base_sequence=0, transactional=True, **ids)
            answer = await answered(peer, produce(records, -1, transactional_id=name), 9)
            assert (answer.error_code, answer.base_offset) == (error, offset)

    with_topic(scenario, cleanup_policy="compact")


def test_very_many_partitions() -> None:
    """Each answer stands at its place, an error among them."""
    count = AT_ONCE + 20

    async def scenario(cluster: EmbeddedCluster) -> None:
        data = [PartitionProduceData(index=index, records=batch(1)) for index in range(count + 1)]
        request = ProduceRequest(
            acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
        )
        response: Any = await client(cluster).request(request, 9, 60_000)
        answers = response.responses[0].partition_responses
        assert [answer.index for answer in answers] == list(range(count + 1))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * count + [unknown]

    with_topic(scenario, partitions=count)
