"""Fetch, ListOffsets and DeleteRecords on two brokers: what a follower answers, and how soon it follows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records import decode_records
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.log_environments import make_batch
from odradek.testing.usual_requests import create_topic_request, produce_request
from odradek.testing.virtual_clock import VirtualClock, run_virtual

TOPIC = "t"
LEADER, FOLLOWER = 0, 1
CONSUMER, DEBUGGING = -1, -2


class Client:
    """Of two brokers, of which 0 leads the only partition, with three records in both."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        network = cluster.network.host("client")
        self._peers = [Peer(network, cluster.clock, broker.host, cluster.port, "test") for broker in cluster.brokers]

    async def ask(self, request: Message, version: int, broker: int = LEADER) -> Any:
        return await self._peers[broker].request(request, version, 60_000)

    async def begin(self) -> None:
        answer = await self.ask(create_topic_request(TOPIC, [LEADER, FOLLOWER]), 7)
        assert answer.topics[0].error_code == 0, answer
        await self.produce(3)
        while self.replica(FOLLOWER).high_watermark < 3:
            await asyncio.sleep(0.05)

    async def produce(self, count: int) -> None:
        answer = await self.ask(produce_request(TOPIC, bytes(make_batch([b"x"] * count)), timeout_ms=30_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def replica(self, broker: int) -> Any:
        return self.cluster.brokers[broker].server.services.replicas.partitions[TOPIC, 0]

    async def fetch(
        self, broker: int, offset: int, version: int, replica_id: int, max_wait_ms: int = 0, **fields: Any
    ) -> Any:
        leader_epoch = fields.pop("leader_epoch", -1)
        asked = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch
        )
        request = FetchRequest(
            replica_id=replica_id, replica_state=ReplicaState(replica_id=replica_id), max_wait_ms=max_wait_ms,
            min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])], **fields,
        )  # fmt: skip
        answer = (await self.ask(request, version, broker)).responses[0].partitions[0]
        assert isinstance(answer, PartitionData)
        return answer

    async def list_offset(self, broker: int, timestamp: int, replica_id: int, version: int = 7) -> Any:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1)
        request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
        return (await self.ask(request, version, broker)).topics[0].partitions[0]

    async def delete_records(self, offset: int) -> Any:
        asked = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        answer = await self.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=30_000), 2)
        return answer.topics[0].partitions[0]


def with_client(scenario: Callable[[Client], Awaitable[None]], settings: dict[str, str] | None = None) -> None:
    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, brokers=2, overrides=settings) as cluster:
            client = Client(cluster)
            await client.begin()
            await scenario(client)

    run_virtual(main)


@pytest.mark.parametrize(
    ("version", "replica_id", "served"),
    [(10, CONSUMER, False), (11, CONSUMER, True), (12, CONSUMER, True), (4, DEBUGGING, True), (12, DEBUGGING, True)],
)
def test_a_follower_serves_consumers_that_may_read_there(version: int, replica_id: int, served: bool) -> None:
    """It refused them all, so that Kafka's ReplicaVerificationTool reported a lag that there was not."""

    async def scenario(client: Client) -> None:
        answer = await client.fetch(FOLLOWER, 0, version, replica_id)
        assert answer.error_code == (0 if served else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert bool(answer.records) is served

    with_client(scenario)


@pytest.mark.parametrize(
    ("settings", "too_old", "code"),
    [
        ({"log.message.downconversion.enable": "false"}, 3, ErrorCode.UNSUPPORTED_VERSION),
        ({"compression.type": "zstd"}, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_consumer_that_is_too_old_for_the_topic_hears_that_from_a_follower(
    settings: dict[str, str], too_old: int, code: ErrorCode
) -> None:
    """Whatever else is wrong, as in KafkaApis.maybeConvertFetchedData: it was sent to look for the leader."""

    async def scenario(client: Client) -> None:
        for broker in (LEADER, FOLLOWER):
            assert (await client.fetch(broker, 0, too_old, CONSUMER)).error_code == code
            fenced = await client.fetch(broker, 0, 9, CONSUMER, leader_epoch=7)
            assert fenced.error_code == (code if too_old == 9 else ErrorCode.UNKNOWN_LEADER_EPOCH)
        refused = await client.fetch(FOLLOWER, 0, too_old + 1, CONSUMER)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        client.replica(FOLLOWER).offline = True
        failed = (await client.fetch(FOLLOWER, 0, too_old, CONSUMER)).error_code
        assert failed == (ErrorCode.KAFKA_STORAGE_ERROR if too_old == 9 else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with_client(scenario, settings)


def test_a_consumer_that_waits_at_a_follower_hears_of_its_high_watermark() -> None:
    async def scenario(client: Client) -> None:
        began_ms = client.cluster.clock.monotonic_ms()
        waiting = asyncio.create_task(client.fetch(FOLLOWER, 3, 12, CONSUMER, max_wait_ms=20_000))
        await asyncio.sleep(1.0)
        await client.produce(1)
        answer = await waiting
        assert not answer.error_code and answer.records and answer.high_watermark == 4
        assert client.cluster.clock.monotonic_ms() - began_ms < 3_000

    with_client(scenario)


def test_a_consumer_that_is_ahead_of_a_follower_is_sent_to_the_leader() -> None:
    """Out of range would make it jump to where auto.offset.reset says."""

    async def scenario(client: Client) -> None:
        assert (await client.fetch(FOLLOWER, 9, 12, CONSUMER)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await client.fetch(FOLLOWER, 9, 12, DEBUGGING)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await client.fetch(LEADER, 9, 12, CONSUMER)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_client(scenario)


SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector", "broker.rack": "r{}"}


@pytest.mark.parametrize(
    ("rack", "version", "settings", "preferred"),
    [
        ("r1", 11, SELECTOR, FOLLOWER),
        ("r0", 11, SELECTOR, -1),
        ("r9", 11, SELECTOR, -1),
        ("", 11, SELECTOR, -1),
        ("r1", 10, SELECTOR, -1),
        ("r1", 11, {}, -1),
    ],
)
def test_a_consumer_is_sent_to_the_replica_in_its_rack(
    rack: str, version: int, settings: dict[str, str], preferred: int
) -> None:
    """At once, and without records."""

    async def scenario(client: Client) -> None:
        began_ms = client.cluster.clock.monotonic_ms()
        answer = await client.fetch(LEADER, 3, version, CONSUMER, 5000, rack_id=rack)
        assert (answer.error_code, answer.preferred_read_replica, answer.high_watermark) == (0, preferred, 3)
        assert (client.cluster.clock.monotonic_ms() - began_ms < 1000) is (preferred >= 0)
        answer = await client.fetch(LEADER, 0, version, CONSUMER, 5000, rack_id=rack)
        assert (answer.preferred_read_replica, bool(answer.records)) == (preferred, preferred < 0)

    with_client(scenario, settings)


def test_the_first_fetch_of_a_followers_session_is_answered_at_once() -> None:
    """While it waited it would look at thousands of partitions whenever one changes."""

    async def scenario(client: Client) -> None:
        client.cluster.brokers[FOLLOWER].suspend()
        clock = client.cluster.clock
        took = []
        for epoch in (0, -1):
            began_ms = clock.monotonic_ms()
            answer = await client.fetch(LEADER, 3, 12, FOLLOWER, 2000, session_epoch=epoch)
            assert (answer.error_code, answer.high_watermark) == (0, 3)
            took.append(clock.monotonic_ms() - began_ms)
        assert took[0] < 1000 and took[1] >= 2000

    with_client(scenario)


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize(
    ("leader_epoch", "error"), [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_broker_without_a_replica_is_refused_as_a_follower_at_once(
    offset: int, leader_epoch: int, error: ErrorCode
) -> None:
    """It asks again: it may have a replica of which the leader has not heard yet."""

    async def scenario(client: Client) -> None:
        began_ms = client.cluster.clock.monotonic_ms()
        answer = await client.fetch(LEADER, offset, 12, 7, 5000, leader_epoch=leader_epoch)
        assert (answer.error_code, bytes(answer.records)) == (error, b"")
        assert client.cluster.clock.monotonic_ms() - began_ms < 1000

    with_client(scenario)


@pytest.mark.parametrize("replica_id", [CONSUMER, DEBUGGING])
def test_what_is_not_replicated_yet_is_read_by_no_consumer(replica_id: int) -> None:
    """One with replica id -2 was given what the next leader may never have had."""

    async def scenario(client: Client) -> None:
        client.cluster.brokers[FOLLOWER].suspend()
        await client.ask(produce_request(TOPIC, bytes(make_batch([b"x"])), acks=1), 9)
        answer = await client.fetch(LEADER, 0, 12, replica_id)
        assert (answer.error_code, answer.high_watermark) == (0, 3)
        assert decode_records(answer.records, 0).values == [b"x"] * 3
        assert not (await client.fetch(LEADER, 3, 12, replica_id)).records

    with_client(scenario)


@pytest.mark.parametrize("timestamp", [-1, 2**62])
def test_version_0_tells_the_high_watermark_in_place_of_a_later_end(timestamp: int) -> None:
    """Asked by time, as 0.8's getOffsetsBefore is, it told no offset at all while some record was not replicated."""

    async def scenario(client: Client) -> None:
        client.cluster.brokers[FOLLOWER].suspend()
        await client.ask(produce_request(TOPIC, bytes(make_batch([b"x"])), acks=1), 9)
        assert (await client.list_offset(LEADER, timestamp, CONSUMER, 0)).old_style_offsets == [3]
        assert (await client.list_offset(LEADER, timestamp, DEBUGGING, 0)).old_style_offsets == [4]

    with_client(scenario)


def test_a_debugging_consumer_may_ask_a_follower_for_offsets() -> None:
    async def scenario(client: Client) -> None:
        for timestamp, offset in ((-2, 0), (-1, 3)):
            answer = await client.list_offset(FOLLOWER, timestamp, DEBUGGING)
            assert (answer.error_code, answer.offset) == (0, offset)
            answer = await client.list_offset(FOLLOWER, timestamp, CONSUMER)
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_client(scenario)


def test_deleting_records_takes_a_round_trip_or_two() -> None:
    """Followers that had nothing to fetch heard of the new start within a second, and the leader of theirs within
    another one."""

    async def scenario(client: Client) -> None:
        await asyncio.sleep(5.0)
        began_ms = client.cluster.clock.monotonic_ms()
        answer = await client.delete_records(2)
        assert (answer.error_code, answer.low_watermark) == (0, 2)
        assert client.cluster.clock.monotonic_ms() - began_ms < 200
        assert client.replica(FOLLOWER).log.log_start_offset == 2

    with_client(scenario)


def test_the_largest_timestamp_counts_after_its_record_has_been_deleted() -> None:
    async def scenario(client: Client) -> None:
        before = await client.list_offset(LEADER, -3, CONSUMER)
        assert before.offset >= 0
        await client.delete_records(3)
        after = await client.list_offset(LEADER, -3, CONSUMER)
        assert (after.error_code, after.timestamp, after.offset) == (0, before.timestamp, before.offset)

    with_client(scenario)
