"""Transactions without their coordinator: what WriteTxnMarkers does, and what readers of committed data are given."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.groups.group_records import offset_key, offset_value
from odradek.broker.log.batches import Origin
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records import encode_batch
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"
PRODUCER = 9
COMMITTED, UNCOMMITTED = 1, 0
LATEST = -1


class Leader:
    """The one broker of a cluster with one partition, asked over its network; transactional data is put in its log."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.services = cluster.brokers[0].server.services
        network = cluster.network.host("client")
        self._peer = Peer(network, cluster.clock, "broker-0", cluster.port, "test")

    async def ask(self, request: Message, version: int) -> Any:
        return await self._peer.request(request, version, 60_000)

    async def create(self, replicas: int = 1) -> None:
        where = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(range(replicas)))]
        made = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=where)
        assert (await self.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)).topics[0].error_code == 0

    def write(self, sequence: int, *, producer: int = PRODUCER, epoch: int = 0, transactional: bool = True) -> None:
        batch = make_batch(producer_id=producer, producer_epoch=epoch, sequence=sequence, transactional=transactional)
        self.services.replicas.append(self.services.replicas.led(TOPIC, 0), batch, -1)

    async def end(self, *, commit: bool, epoch: int = 0, coordinator: int = 0, **where: Any) -> ErrorCode:
        topic = WritableTxnMarkerTopic(name=where.get("topic", TOPIC), partition_indexes=[where.get("partition", 0)])
        marker = WritableTxnMarker(
            producer_id=where.get("producer", PRODUCER),
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[topic],
            coordinator_epoch=coordinator,
        )
        response = await self.ask(WriteTxnMarkersRequest(markers=[marker]), where.get("version", 1))
        return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)

    async def fetch(self, offset: int = 0, isolation: int = COMMITTED) -> PartitionData:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[asked])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=topics)
        (answer,) = (await self.ask(request, 12)).responses[0].partitions
        assert isinstance(answer, PartitionData) and answer.error_code == 0, answer
        return answer

    async def latest(self, isolation: int) -> int:
        topic = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
        response = await self.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic]), 7)
        return int(response.topics[0].partitions[0].offset)

    async def open_since(self) -> dict[int, int]:
        """Producer id → where its open transaction begins."""
        request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])
        (answer,) = (await self.ask(request, 0)).topics[0].partitions
        return {one.producer_id: one.current_txn_start_offset for one in answer.active_producers}


def with_leader(
    scenario: Callable[[Leader], Awaitable[None]], settings: dict[str, str] | None = None, brokers: int = 1
) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers, settings or {}) as cluster:
            leader = Leader(cluster)
            await leader.create(brokers)
            await scenario(leader)

    run_virtual(main)


def test_committed_readers_stop_at_open_transactions_and_are_told_which_were_aborted() -> None:
    async def scenario(leader: Leader) -> None:
        leader.write(0, producer=5, transactional=False)
        leader.write(0)
        leader.write(0, producer=10)
        assert await leader.open_since() == {5: -1, PRODUCER: 1, 10: 2}
        open_ = await leader.fetch()
        assert (open_.high_watermark, open_.last_stable_offset, open_.aborted_transactions) == (3, 1, [])
        assert len(open_.records) == len(make_batch(producer_id=5))
        assert not (await leader.fetch(1)).records
        assert [await leader.latest(level) for level in (UNCOMMITTED, COMMITTED)] == [3, 1]
        assert await leader.end(commit=False) is ErrorCode.NONE
        assert await leader.latest(COMMITTED) == 2
        assert await leader.end(commit=True, producer=10, version=0) is ErrorCode.NONE
        ended = await leader.fetch()
        assert (ended.high_watermark, ended.last_stable_offset) == (5, 5)
        assert [(one.producer_id, one.first_offset) for one in ended.aborted_transactions or []] == [(PRODUCER, 1)]
        assert (await leader.fetch(4)).aborted_transactions == []
        assert (await leader.fetch(isolation=UNCOMMITTED)).aborted_transactions is None
        assert await leader.open_since() == {5: -1, PRODUCER: -1, 10: -1}

    with_leader(scenario)


@pytest.mark.parametrize("level", [2, 127, -1])
def test_a_level_of_isolation_that_nobody_knows_shows_no_open_transaction(level: int) -> None:
    """Kafka ends such a request by an error of its own; records that may be aborted are given out by neither."""

    async def scenario(leader: Leader) -> None:
        leader.write(0, producer=5, transactional=False)
        leader.write(0)
        assert len((await leader.fetch(isolation=level)).records) == len(make_batch(producer_id=5))
        assert await leader.latest(level) == 1

    with_leader(scenario)


def test_any_negative_epoch_of_a_fetch_is_none() -> None:
    """As FetchRequest.optionalEpoch has it."""

    async def scenario(leader: Leader) -> None:
        leader.write(0, transactional=False)
        asked = FetchPartition(partition=0, fetch_offset=0, last_fetched_epoch=-2, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])
        (answer,) = (await leader.ask(request, 12)).responses[0].partitions
        assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)

    with_leader(scenario)


def test_markers_of_the_past_are_refused() -> None:
    async def scenario(leader: Leader) -> None:
        leader.write(0, epoch=3)
        assert await leader.end(commit=False, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await leader.end(commit=False, epoch=4, coordinator=7) is ErrorCode.NONE  # the coordinator fences
        assert await leader.end(commit=True, epoch=4, coordinator=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await leader.end(commit=False, epoch=4, coordinator=7) is ErrorCode.NONE  # again, harmless
        assert await leader.latest(COMMITTED) == 3
        assert await leader.end(commit=True, topic="nobody") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await leader.end(commit=True, producer=-1) is ErrorCode.UNKNOWN_SERVER_ERROR
        leader.services.replicas.stop_leading_all()
        assert await leader.end(commit=True, epoch=4, coordinator=7) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_leader(scenario)


def test_markers_of_many_producers_are_answered_one_by_one() -> None:
    async def scenario(leader: Leader) -> None:
        for producer in (PRODUCER, 10):
            leader.write(0, producer=producer)
        markers = [
            WritableTxnMarker(
                producer_id=producer,
                producer_epoch=epoch,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in ("nobody", TOPIC)],
            )
            for producer, epoch in ((10, 0), (PRODUCER, -1))
        ]
        answers = (await leader.ask(WriteTxnMarkersRequest(markers=markers), 1)).markers
        assert [
            (one.producer_id, [(topic.name, topic.partitions[0].error_code) for topic in one.topics]) for one in answers
        ] == [
            (10, [("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (TOPIC, ErrorCode.NONE)]),
            (PRODUCER, [(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in ("nobody", TOPIC)]),
        ]
        assert await leader.open_since() == {PRODUCER: 0, 10: -1}

    with_leader(scenario)


def test_markers_on_a_connection_that_their_sender_has_given_up_are_refused_once() -> None:
    async def scenario(leader: Leader) -> None:
        leader.write(0)
        await leader.open_since()  # the former connection
        later = Leader(leader.cluster)
        assert await later.end(commit=False, topic="nobody") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await leader.end(commit=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await leader.open_since() == {PRODUCER: 0}
        assert await leader.end(commit=False) is ErrorCode.NONE

    with_leader(scenario)


@pytest.mark.parametrize("away", [False, True])
def test_a_marker_is_answered_when_all_replicas_in_sync_have_it(away: bool) -> None:
    """At the latest after request.timeout.ms, though it is in the leader's log then."""

    async def scenario(leader: Leader) -> None:
        cluster = leader.cluster
        partition = leader.services.replicas.led(TOPIC, 0)
        while partition.high_watermark < partition.log.log_end_offset or len(partition.committed_isr) < 2:
            await asyncio.sleep(0.1)
        cluster.network.cut("broker-0", "broker-1")
        answer = asyncio.ensure_future(leader.end(commit=True))
        await asyncio.sleep(9)
        assert not answer.done() and partition.log.log_end_offset == 1
        if not away:
            cluster.network.heal("broker-0", "broker-1")
        assert await answer is (ErrorCode.REQUEST_TIMED_OUT if away else ErrorCode.NONE)

    settings = {"request.timeout.ms": "10000", "replica.lag.time.max.ms": "60000"}
    with_leader(scenario, settings, brokers=2)


def test_a_marker_needs_as_many_replicas_in_sync_as_acks_all() -> None:
    async def scenario(leader: Leader) -> None:
        leader.cluster.brokers[1].kill()
        while len(leader.services.replicas.led(TOPIC, 0).committed_isr) > 1:
            await asyncio.sleep(0.1)
        assert await leader.end(commit=True) is ErrorCode.NOT_ENOUGH_REPLICAS

    with_leader(scenario, {"min.insync.replicas": "2"}, brokers=2)


def test_producers_are_described_as_the_log_has_them() -> None:
    async def scenario(leader: Leader) -> None:
        leader.write(0, epoch=3)
        await leader.end(commit=True, epoch=3, coordinator=6)
        leader.write(0, epoch=4)
        await leader.end(commit=False, producer=10, epoch=2, coordinator=8)
        request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[7, 0])])
        [topic] = (await leader.ask(request, 0)).topics
        assert (topic.name, [one.partition_index for one in topic.partitions]) == (TOPIC, [7, 0])
        producers = leader.services.replicas.led(TOPIC, 0).log.producers.producers
        assert [
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in topic.partitions[1].active_producers
        ] == [(PRODUCER, 4, 0, 6, 2), (10, 2, -1, 8, -1)]
        times = [one.last_timestamp for one in topic.partitions[1].active_producers]
        assert times == [one.last_timestamp_ms for one in producers.values()] and min(times) > 0

    with_leader(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_in_the_offsets_topic_makes_its_offsets_visible(commit: bool) -> None:
    async def scenario(leader: Leader) -> None:
        groups = leader.services.groups
        made = CreatableTopic(name="__consumer_offsets", num_partitions=1, replication_factor=1)
        await leader.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        value = offset_value(CommittedOffset(42, 1))
        batch = encode_batch(
            0, [1], [offset_key("g", (TOPIC, 0))], [value], producer_id=PRODUCER, producer_epoch=0, transactional=True
        )
        replicas = leader.services.replicas
        partition = replicas.led("__consumer_offsets", 0)
        replicas.append(partition, batch, -1, Origin.COORDINATOR)
        groups.on_resigned(0)
        assert await leader.end(commit=commit, topic="__consumer_offsets") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        groups.on_elected(0, partition.leader_epoch)
        while not groups.serves_partition(0):
            await leader.ask(ListOffsetsRequest(replica_id=-1), 7)
        assert groups.fetch_offsets("g", [(TOPIC, 0)], require_stable=True)[1][(TOPIC, 0)].error != ErrorCode.NONE
        assert await leader.end(commit=commit, topic="__consumer_offsets") is ErrorCode.NONE
        fetched = groups.fetch_offsets("g", [(TOPIC, 0)], require_stable=True)[1][(TOPIC, 0)]
        assert fetched.offset == (42 if commit else -1)

    with_leader(scenario, {"offsets.topic.num.partitions": "1"})
