"""A consumer's engine and the scripted brokers that it asks."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.config import load
from odradek.client.consumer.buffer import RecordBuffer
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.records import encode_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_network import VirtualNetwork

T0 = TopicPartition("t", 0)


class Bench:
    """One engine reading a log of `values`, of which the first `start` are gone."""

    def __init__(self, clock: VirtualClock, scripted_broker: Any, **settings: object) -> None:
        self.clock = clock
        self.network = VirtualNetwork(clock)
        self.broker = scripted_broker(self.network)
        self.values: list[bytes] = [b"%d" % number for number in range(10)]
        self.start = 0
        self.errors: list[ErrorCode] = []
        self.commit_error = ErrorCode.NONE
        self.broker.handlers |= {
            FetchRequest: self.fetch,
            ListOffsetsRequest: self.list_offsets,
            FindCoordinatorRequest: self.find_coordinator,
            OffsetCommitRequest: self.commit,
        }
        config = load(ConsumerSettings, None, {"bootstrap_servers": "broker:9092", "client_id": "c", **settings})
        self.cluster = Cluster(self.network.host("client"), clock, random.Random(0), config)
        self.engine = ConsumerEngine(self.cluster, config)
        self.buffer = RecordBuffer(self.engine.shared, config, None, None)
        self.running = asyncio.ensure_future(self.engine.run())

    def fetch(self, request: FetchRequest) -> FetchResponse:
        asked = request.topics[0].partitions[0].fetch_offset
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error == ErrorCode.NONE and not self.start <= asked <= len(self.values):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        rest = self.values[asked : asked + 3] if error == ErrorCode.NONE else []
        records = bytes(encode_batch(asked, [0] * len(rest), [None] * len(rest), rest)) if rest else b""
        data = PartitionData(partition_index=0, error_code=error, records=records, aborted_transactions=None)
        topic = request.topics[0]
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        return FetchResponse(responses=[answer])

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        wanted = request.topics[0].partitions[0].timestamp
        offset = self.start if wanted == -2 else len(self.values)
        one = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=0, host="broker", port=9092)])

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        one = OffsetCommitResponsePartition(partition_index=0, error_code=self.commit_error)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[one])])

    def assign(self) -> None:
        self.engine.shared.positions.assign([T0])
        self.cluster.needs.want("t", self.clock.monotonic_ms())
        self.engine.wake()

    async def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count and self.engine.shared.failure is None:
            await asyncio.sleep(0.01)
            found += [record.value for records in self.buffer.take(100).values() for record in records]
            self.engine.wake()
        return found

    async def close(self) -> None:
        self.engine.stop()
        await self.running
        self.cluster.close()


def run(scripted_broker: Any, work: Callable[[Bench], Coroutine[Any, Any, None]], **settings: object) -> Bench:
    async def main(clock: VirtualClock) -> Bench:
        bench = Bench(clock, scripted_broker, **settings)
        await work(bench)
        await bench.close()
        return bench

    return run_virtual(main)
