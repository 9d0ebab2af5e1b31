"""What the requests for data and control answer, asked of a whole broker over its (virtual) network."""

import asyncio
from typing import Any

import pytest

from odradek.broker.cluster.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.message_set import down_convert, up_convert
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest
from odradek.protocol.records import Columns, encode_batch
from tests.broker.requests.whole_broker import T0, TOPIC, Client, values, with_broker


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_is_fetched(version: int, acks: int) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        answer = await client.produce(b"a", b"b", version=version, acks=acks)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        answer = await client.produce(b"c", version=version, acks=acks)
        assert answer.base_offset == 2
        assert values(await client.fetch(0)) == [b"a", b"b", b"c"]
        assert values(await client.fetch(2)) == [b"c"]

    with_broker(scenario)


@pytest.mark.parametrize("version", range(3))
def test_message_sets_of_old_producers_and_consumers(version: int) -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        columns = Columns([0, 1], [T0, T0], [b"k", None], [b"a", b"b"])
        answer = await client.produce_raw(down_convert(columns, 0 if version < 2 else 1), version, 1)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert values(await client.fetch(0)) == [b"a", b"b"]
        for fetch_version in range(4):
            (data,) = (await client.fetch(0, fetch_version)).responses[0].partitions
            old = up_convert(data.records)
            assert (old.offsets, old.keys, old.values) == ([0, 1], [b"k", None], [b"a", b"b"])
        (data,) = (await client.fetch(0, 0, limit=20)).responses[0].partitions
        assert 0 < len(data.records) <= 20, "an old consumer sees a cut message when its limit is too small"

    with_broker(scenario)


def test_produce_refuses() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        good = bytes(encode_batch(0, [T0], [None], [b"a"]))

        async def error(records: bytes | None, *, version: int = 9, acks: int = -1, topic: str = TOPIC) -> ErrorCode:
            return ErrorCode((await client.produce_raw(records, version, acks, topic)).error_code)

        flipped = good[:-1] + bytes([good[-1] ^ 1])
        assert await error(flipped) is ErrorCode.CORRUPT_MESSAGE
        assert await error(good, acks=2) is ErrorCode.INVALID_REQUIRED_ACKS
        assert await error(good, topic="nowhere") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await error(good + good) is ErrorCode.INVALID_RECORD
        assert await error(b"") is ErrorCode.INVALID_RECORD
        for nothing in (None, b""):
            assert await error(nothing, version=1) is ErrorCode.INVALID_RECORD
        control = bytes(encode_batch(0, [T0], [b"\0\0\0\0"], [b"\0\0\0\0\0\0"], control=True))
        assert await error(control) is ErrorCode.INVALID_RECORD
        transactional = bytes(encode_batch(0, [T0], [None], [b"a"], producer_id=1, base_sequence=0, transactional=True))
        assert await error(transactional) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        zstd = bytes(encode_batch(0, [T0], [None], [b"a"], codec=4))
        assert await error(zstd, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        large = bytes(encode_batch(0, [T0], [None], [bytes(1_100_000)]))
        assert await error(large) is ErrorCode.MESSAGE_TOO_LARGE
        assert (await client.offsets(-1)).offset == 0, "nothing of it was written"

    with_broker(scenario)


@pytest.mark.parametrize("version", [7, 8, 11])
def test_produce_names_each_bad_record(version: int) -> None:
    async def scenario(client: Client) -> None:
        compacted = CreatableTopicConfig(name="cleanup.policy", value="compact")
        made = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=[compacted])
        await client.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        good = encode_batch(0, [T0], [b"k"], [b"v"])
        assert (await client.produce_raw(good, version)).error_code == 0
        answer = await client.produce_raw(encode_batch(0, [T0] * 3, [None, b"k", None], [b"v"] * 3), version)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert (answer.base_offset, answer.log_start_offset) == (-1, 0)
        message = f"Compacted topic cannot accept message without key in topic partition {TOPIC}-0."
        named = [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors]
        assert named == ([(0, message), (2, message)] if version >= 8 else [])
        if version >= 8:
            assert answer.error_message is not None
            assert answer.error_message.startswith("One or more records have been rejected due to 2 record errors")

    with_broker(scenario)


def test_idempotent_producer() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        given = await client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        other = await client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        assert given.error_code == 0 and given.producer_epoch == 0 and other.producer_id != given.producer_id
        mine = {"producer_id": given.producer_id, "producer_epoch": 0}
        assert (await client.produce(b"a", b"b", base_sequence=0, **mine)).base_offset == 0
        assert (await client.produce(b"c", base_sequence=2, **mine)).base_offset == 2
        again = await client.produce(b"a", b"b", base_sequence=0, **mine)
        assert (again.error_code, again.base_offset) == (0, 0), "a repeated batch is answered as the first time"
        gap = await client.produce(b"e", base_sequence=4, **mine)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert values(await client.fetch(0)) == [b"a", b"b", b"c"]
        described = await client.ask(
            DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0, 7])]), 0
        )
        known, unknown = described.topics[0].partitions
        assert [(p.producer_id, p.last_sequence) for p in known.active_producers] == [(given.producer_id, 2)]
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(scenario)


def test_producers_are_described_by_followers_and_partitions_elsewhere_are_not_unknown() -> None:
    async def scenario(leader: Client) -> None:
        request = CreateTopicsRequest(topics=[replicated_on(TOPIC, 0, 1), replicated_on("u", 0)], timeout_ms=10_000)
        assert [topic.error_code for topic in (await leader.ask(request, 5)).topics] == [0, 0]
        given = await leader.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
        mine = {"producer_id": given.producer_id, "producer_epoch": 0}
        assert (await Client(leader.cluster, 0).produce(b"a", base_sequence=0, acks=-1, **mine)).error_code == 0
        asked = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=[0]) for name in (TOPIC, "u", "v")]
        )
        follower = Client(leader.cluster, 1)
        held, elsewhere, unknown = [topic.partitions[0] for topic in (await follower.ask(asked, 0)).topics]
        assert [one.producer_id for one in held.active_producers] == [given.producer_id]
        assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert held.error_message is None
        assert (elsewhere.error_message, unknown.error_message) == (
            "Broker 1 does not have a replica of u-0.",
            "Broker 1 knows no partition v-0.",
        )

    def replicated_on(name: str, *brokers: int) -> CreatableTopic:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment])

    with_broker(scenario, brokers=2)


def test_records_of_internal_topics_are_not_deleted() -> None:
    async def scenario(client: Client) -> None:
        asked = DeleteRecordsTopic(
            name="__consumer_offsets", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)]
        )
        response = await client.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000), 2)
        assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(scenario)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_written_by_coordinators_alone(topic: str) -> None:
    async def scenario(client: Client) -> None:
        await client.create(topic)
        batch = encode_batch(0, [T0], [b"\0\1garbage"], [b"x"])
        refused = await client.produce_raw(batch, topic=topic)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        network = client.cluster.network.host("client")
        client.peer = Peer(network, client.cluster.clock, client.peer.host, client.cluster.port, "__admin_client")
        taken = await client.produce_raw(batch, topic=topic)
        assert (taken.error_code, taken.base_offset) == (0, 0)

    with_broker(scenario)


def test_internal_topics_are_part_of_no_transaction_of_a_client() -> None:
    """Source: KafkaApis.handleAddPartitionsToTxnRequest of Kafka 3.9."""

    async def scenario(client: Client) -> None:
        await client.create("__consumer_offsets")
        await client.create()
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("__consumer_offsets", TOPIC, "none")]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
        answered = (await client.ask(request, 3)).results_by_topic_v3_and_below
        assert [topic.results_by_partition[0].partition_error_code for topic in answered] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    with_broker(scenario)


def test_producer_ids_that_cannot_be() -> None:
    async def scenario(client: Client) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
        assert (await client.ask(request, 4)).error_code == ErrorCode.NOT_COORDINATOR
        request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
        assert (await client.ask(request, 4)).error_code == ErrorCode.INVALID_REQUEST
        assert (
            await client.ask(InitProducerIdRequest(transactional_id=None, producer_id=5), 4)
        ).error_code == ErrorCode.INVALID_REQUEST

    with_broker(scenario)


def test_a_fetch_waits_for_records() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        clock = client.cluster.clock
        began = clock.monotonic_ms()
        assert values(await client.fetch(0, max_wait_ms=400)) == []
        assert 400 <= clock.monotonic_ms() - began < 600
        other = Client(client.cluster, int(client.peer.host.rpartition("-")[2]))
        waiting = asyncio.ensure_future(client.fetch(0, max_wait_ms=30_000))
        await asyncio.sleep(1)
        began = clock.monotonic_ms()
        await other.produce(b"a")
        assert values(await waiting) == [b"a"]
        assert clock.monotonic_ms() - began < 100

    with_broker(scenario)


def test_fetch_errors_are_answered_at_once() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        began = client.cluster.clock.monotonic_ms()
        (data,) = (await client.fetch(7, max_wait_ms=30_000)).responses[0].partitions
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.records == b""
        unknown = await client.fetch(0, 13, max_wait_ms=30_000, topic_id=b"?" * 16)
        assert unknown.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        stranger = await client.fetch(1, max_wait_ms=30_000, replica_id=9)
        assert stranger.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it asks again"
        assert client.cluster.clock.monotonic_ms() - began < 1_000

    with_broker(scenario)


@pytest.mark.parametrize("epoch", [-2, -(2**31)])
def test_every_leader_epoch_below_0_is_none_in_a_fetch(epoch: int) -> None:
    """In ListOffsets and OffsetForLeaderEpoch only -1 is, as in Kafka."""

    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        partition = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
        fetched = await client.fetch(0, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
        assert values(fetched) == [b"a"]
        assert (await client.offsets(-1, current_leader_epoch=epoch)).error_code == ErrorCode.FENCED_LEADER_EPOCH

    with_broker(scenario)


def test_a_fetch_session_tells_only_news() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a")
        first = await client.fetch(0, session_id=0, session_epoch=0)
        assert first.session_id > 0 and values(first) == [b"a"]
        step: dict[str, Any] = {"session_id": first.session_id, "topics": [], "max_wait_ms": 10}
        again = await client.ask(FetchRequest(min_bytes=1, session_epoch=1, **step), 12)
        assert values(again) == [b"a"], "a session keeps asking from where it was"
        out_of_step = await client.ask(FetchRequest(min_bytes=1, session_epoch=7, **step), 12)
        assert out_of_step.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    with_broker(scenario)


def test_list_offsets() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a", b"b", b"c")
        await client.produce(b"d")
        assert (await client.offsets(-2)).offset == 0
        assert (await client.offsets(-1)).offset == 4
        assert (await client.offsets(T0 + 1)).offset == 1
        assert (await client.offsets(-3)).offset == 2, "the record with the largest timestamp"
        assert (await client.offsets(T0 + 99)).offset == -1
        assert (await client.offsets(-3, version=6)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await client.offsets(-3, version=0)).error_code == ErrorCode.UNSUPPORTED_VERSION
        wrong_epoch = await client.offsets(-3, version=6, current_leader_epoch=9)
        assert wrong_epoch.error_code == ErrorCode.UNSUPPORTED_VERSION, "the partition is not looked at"
        assert (await client.offsets(-1, version=0, max_num_offsets=5)).old_style_offsets == [4, 0]
        assert (await client.offsets(-1, version=0, max_num_offsets=0)).old_style_offsets == []
        assert (await client.offsets(-1, current_leader_epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    with_broker(scenario)


def test_offset_for_leader_epoch() -> None:
    async def scenario(client: Client) -> None:
        await client.create()
        await client.produce(b"a", b"b")
        for epoch, expected in ((0, (0, 2)), (5, (-1, -1))):
            asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])])
            answer = (await client.ask(request, 3)).topics[0].partitions[0]
            assert (answer.leader_epoch, answer.end_offset) == expected

    with_broker(scenario)


def test_delete_records_moves_the_start_of_all_replicas() -> None:
    async def main(client: Client) -> None:
        await client.create(replicas=2)
        led = next(b for b in client.cluster.brokers if b.server.services.replicas.partitions[(TOPIC, 0)].is_leader)
        leader = Client(client.cluster, led.broker_id)
        await leader.produce(b"a", b"b", b"c")

        async def delete(offset: int) -> tuple[int, int]:
            asked = DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
            response = await leader.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000), 2)
            (answer,) = response.topics[0].partitions
            return int(answer.error_code), int(answer.low_watermark)

        assert await delete(2) == (0, 2)
        logs = [broker.server.services.logs.get(TOPIC, 0) for broker in client.cluster.brokers]
        assert [log and log.log_start_offset for log in logs] == [2, 2]
        assert await delete(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-1) == (0, 3)

    with_broker(main, brokers=2)


@pytest.mark.parametrize(
    ("request_class", "version"), [(LeaderAndIsrRequest, 7), (UpdateMetadataRequest, 8), (StopReplicaRequest, 4)]
)
def test_old_epochs_change_nothing(request_class: type[Message], version: int) -> None:
    """A deposed controller, and a request meant for an earlier registration of this broker."""

    async def scenario(client: Client) -> None:
        await client.create()
        services: Any = client.cluster.brokers[0].server.services
        epoch, brokers = services.controller_requests.controller_epoch, dict(services.metadata.brokers)
        now = services.identity.broker_epoch
        old: Any = request_class(controller_epoch=epoch - 1, broker_epoch=now)  # type: ignore[call-arg]
        assert (await client.ask(old, version)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        stale: Any = request_class(controller_epoch=epoch, broker_epoch=now - 1)  # type: ignore[call-arg]
        assert (await client.ask(stale, version)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert services.metadata.brokers == brokers
        assert services.replicas.partitions[(TOPIC, 0)].is_leader

    with_broker(scenario)


def test_too_few_replicas_in_sync() -> None:
    async def scenario(client: Client) -> None:
        made = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=2)
        await client.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7)
        brokers = client.cluster.brokers
        led = next(b for b in brokers if b.server.services.replicas.partitions[(TOPIC, 0)].is_leader)
        leader = Client(client.cluster, led.broker_id)
        follower = next(b for b in brokers if b is not led)
        assert (await leader.produce(b"a")).error_code == 0
        await follower.stop()
        refused = await leader.produce(b"b")
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await leader.produce(b"c", acks=1)).error_code == 0, "acks=1 asks for nobody else"
        await follower.start()
        await asyncio.sleep(5)
        assert (await leader.produce(b"d")).error_code == 0
        assert values(await leader.fetch(0)) == [b"a", b"c", b"d"]

    with_broker(scenario, brokers=2, min_insync_replicas="2")
