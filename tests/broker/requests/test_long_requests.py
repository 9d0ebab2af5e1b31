"""Requests for very many partitions are served in slices of time: whoever asks for little is answered in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.time_slices import TimeSlice

PARTITIONS = 8
ABSENT = PARTITIONS
T0 = 1_700_000_000_000
Scenario = Callable[["Asker"], Awaitable[None]]


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is over after a step, and others have a millisecond then."""

    async def pause(turn: TimeSlice) -> bool:
        await asyncio.sleep(0.001)
        return True

    monkeypatch.setattr(TimeSlice, "is_over", True)
    monkeypatch.setattr(TimeSlice, "pause_if_over", pause)


class Asker:
    """Asks the only broker by two connections."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self._peer, self._other = (
            Peer(cluster.network.host(name), cluster.clock, "broker-0", cluster.port, name) for name in ("one", "other")
        )

    async def ask(self, request: Message, version: int) -> Any:
        return await self._peer.request(request, version, 60_000)

    async def ask_beside(self, request: Message, version: int) -> Any:
        """Ask, and have another client be answered meanwhile."""
        await self._other.request(MetadataRequest(topics=[]), 7, 60_000)
        first = asyncio.ensure_future(self.ask(request, version))
        second = asyncio.ensure_future(self._other.request(MetadataRequest(topics=[]), 7, 60_000))
        await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        assert second.done() and not first.done(), "the short one came later and is answered before"
        return await first


def with_topic(scenario: Scenario) -> None:
    """Run it with a topic that has a record in each partition."""

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"log.retention.ms": "-1"}) as cluster:
            asker = Asker(cluster)
            made = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
            await asker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
            data = [
                PartitionProduceData(index=index, records=encode_batch(0, [T0 + index], [None], [b"v"]))
                for index in range(PARTITIONS)
            ]
            topics = [TopicProduceData(name="t", partition_data=data)]
            await asker.ask(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=topics), 9)
            await scenario(asker)

    run_virtual(main)


def test_offsets_by_time() -> None:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=T0 + 1) for index in range(ABSENT + 1)]

    async def scenario(asker: Asker) -> None:
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
        answers = (await asker.ask_beside(request, 7)).topics[0].partitions
        assert [answer.partition_index for answer in answers] == [*range(ABSENT + 1)]
        assert [answer.offset for answer in answers] == [-1] + [0] * (PARTITIONS - 1) + [-1]
        assert answers[ABSENT].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_topic(scenario)


def test_markers_of_transactions() -> None:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[*range(ABSENT + 1)])]
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
    )

    async def scenario(asker: Asker) -> None:
        response = await asker.ask_beside(WriteTxnMarkersRequest(markers=[marker]), 1)
        answers = response.markers[0].topics[0].partitions
        assert [answer.partition_index for answer in answers] == [*range(ABSENT + 1)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * PARTITIONS + [unknown]
        partitions = asker.cluster.brokers[0].server.services.replicas.partitions
        assert {partitions["t", index].high_watermark for index in range(PARTITIONS)} == {2}

    with_topic(scenario)
