"""A whole broker, asked over its (virtual) network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from odradek.broker.cluster.peer import Peer
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
)
from odradek.protocol.records import decode_records, encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.usual_requests import produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

M = TypeVar("M", bound=Message)
TOPIC = "t"


T0 = 1_700_000_000_000


class Client:
    """Asks one broker; waits for what brokers do by themselves in virtual time."""

    def __init__(self, cluster: EmbeddedCluster, broker: int = 0) -> None:
        self.cluster = cluster
        network = cluster.network.host("client")
        self.peer = Peer(network, cluster.clock, f"broker-{broker}", cluster.port, "test")

    async def ask(self, request: Message, version: int) -> Any:
        return await self.peer.request(request, version, 60_000)

    async def create(self, topic: str = TOPIC, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
        settings = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas, configs=settings)
        response = await self.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == 0, response

    async def produce(self, *values: bytes, version: int = 9, acks: int = -1, **batch: Any) -> PartitionProduceResponse:
        records = encode_batch(0, [T0 + n for n in range(len(values))], [None] * len(values), list(values), **batch)
        return await self.produce_raw(records, version, acks)

    async def produce_raw(
        self, records: bytes | bytearray | None, version: int = 9, acks: int = -1, topic: str = TOPIC
    ) -> PartitionProduceResponse:
        response = await self.ask(produce_request(topic, records, acks=acks), version)
        (answer,) = response.responses[0].partition_responses
        assert isinstance(answer, PartitionProduceResponse)
        return answer

    async def produce_to(self, index: int) -> None:
        """Write one record to a partition."""
        request = produce_request(TOPIC, encode_batch(0, [T0], [None], [b"a"]))
        request.topic_data[0].partition_data[0].index = index
        [answer] = (await self.ask(request, 9)).responses[0].partition_responses
        assert answer.error_code == 0

    async def fetch(self, offset: int, version: int = 12, **request: Any) -> FetchResponse:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=request.pop("limit", 1 << 20))
        topic = FetchTopic(topic=TOPIC, topic_id=request.pop("topic_id", bytes(16)), partitions=[asked])
        request = {"max_wait_ms": 100, "min_bytes": 1, "topics": [topic], **request}
        response = await self.ask(FetchRequest(**request), version)
        assert isinstance(response, FetchResponse)
        return response

    async def offsets(self, timestamp: int, version: int = 7, **asked: Any) -> ListOffsetsPartitionResponse:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **asked)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
        answer = (await self.ask(request, version)).topics[0].partitions[0]
        assert isinstance(answer, ListOffsetsPartitionResponse)
        return answer


Scenario = Callable[[Client], Awaitable[None]]


def with_broker(scenario: Scenario, brokers: int = 1, **overrides: str) -> None:
    """Run it against a fresh cluster; settings with `_` for `.`."""

    async def main(clock: VirtualClock) -> None:
        settings = {name.replace("_", "."): value for name, value in overrides.items()}
        async with EmbeddedCluster(clock, brokers, settings) as cluster:
            controllers = [broker for broker in cluster.brokers if await is_controller(broker)]
            await scenario(Client(cluster, controllers[0].broker_id))

    async def is_controller(broker: Any) -> bool:
        services = broker.server.services
        while not services.metadata.brokers or services.metadata.controller_id < 0:
            await asyncio.sleep(0.05)
        return bool(services.metadata.controller_id == broker.broker_id)

    run_virtual(main)


def values(response: FetchResponse) -> list[bytes | None]:
    (answer,) = response.responses[0].partitions
    assert answer.error_code == 0, answer
    found, at = [], 0
    while at < len(answer.records):
        columns = decode_records(answer.records, at)
        found += columns.values
        at += 12 + int.from_bytes(answer.records[at + 8 : at + 12], "big")
    return found
