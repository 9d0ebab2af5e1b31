"""DeleteRecords and OffsetForLeaderEpoch: what is said of each partition that is asked for, and when."""

import asyncio
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.requests.test_reads_at_followers import FOLLOWER, LEADER, TOPIC, Client, with_client

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_LEADER, OUT_OF_RANGE = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE


async def delete(
    client: Client, *asked: tuple[str, int, int], broker: int = LEADER, timeout_ms: int = 10_000
) -> list[tuple[str, int, int, int]]:
    """What is said of each partition: error and low watermark."""
    topics = [
        DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
        for topic, index, offset in asked
    ]
    answer = await client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2, broker)
    return [
        (topic.name, one.partition_index, one.error_code, one.low_watermark)
        for topic in answer.topics
        for one in topic.partitions
    ]


def test_each_partition_is_told_why_its_records_are_not_deleted() -> None:
    async def scenario(client: Client) -> None:
        policies = {"compacted": "compact", "both": "compact,delete"}
        made = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=2,
                configs=[CreatableTopicConfig(name="cleanup.policy", value=policy)],
            )
            for name, policy in policies.items()
        ]
        await client.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 7)
        leaders = {
            name: broker
            for broker, one in enumerate(client.cluster.brokers)
            for name in policies
            if one.server.services.replicas.partitions[name, 0].is_leader
        }
        for name, told in (("compacted", (ErrorCode.POLICY_VIOLATION, -1)), ("both", (NONE, 0))):
            assert await delete(client, (name, 0, 0), broker=leaders[name]) == [(name, 0, *told)]
        asked = [(TOPIC, 0, 2), (TOPIC, 9, 0), ("unknown", 0, 0), ("__consumer_offsets", 0, 0)]
        told_of = [(NONE, 2), (UNKNOWN, -1), (UNKNOWN, -1), (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
        assert await delete(client, *asked) == [(*one[:2], *told) for one, told in zip(asked, told_of, strict=True)]
        assert await delete(client, (TOPIC, 0, 2), broker=FOLLOWER) == [(TOPIC, 0, NOT_LEADER, -1)]

    with_client(scenario)


@pytest.mark.parametrize(
    ("offset", "error", "start"),
    [(0, NONE, 0), (1, NONE, 1), (3, NONE, 3), (-1, NONE, 3), (4, OUT_OF_RANGE, 0), (-2, OUT_OF_RANGE, 0)],
)
def test_records_are_deleted_up_to_the_high_watermark(offset: int, error: ErrorCode, start: int) -> None:
    async def scenario(client: Client) -> None:
        assert await delete(client, (TOPIC, 0, offset)) == [(TOPIC, 0, error, -1 if error else start)]
        assert [client.replica(broker).log.log_start_offset for broker in (LEADER, FOLLOWER)] == [start, start]

    with_client(scenario)


def test_the_start_never_goes_back() -> None:
    async def scenario(client: Client) -> None:
        await delete(client, (TOPIC, 0, 2))
        assert await delete(client, (TOPIC, 0, 1)) == [(TOPIC, 0, NONE, 2)]

    with_client(scenario)


@pytest.mark.parametrize("back", [True, False])
def test_a_deletion_waits_for_a_replica_that_lives(back: bool) -> None:
    """At the latest until the timeout, though its records are gone on the leader then."""

    async def scenario(client: Client) -> None:
        client.cluster.network.cut("broker-0", "broker-1")
        answer = asyncio.ensure_future(delete(client, (TOPIC, 0, 2), (TOPIC, 9, 0), timeout_ms=3000))
        await asyncio.sleep(2)
        assert not answer.done() and client.replica(LEADER).log.log_start_offset == 2
        if back:
            client.cluster.network.heal("broker-0", "broker-1")
        told = (NONE, 2) if back else (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert await answer == [(TOPIC, 0, *told), (TOPIC, 9, UNKNOWN, -1)]

    with_client(scenario)


def test_whoever_waits_for_a_deletion_hears_that_its_leader_leads_no_more() -> None:
    async def scenario(client: Client) -> None:
        client.cluster.network.cut("broker-0", "broker-1")
        answer = asyncio.ensure_future(delete(client, (TOPIC, 0, 2), timeout_ms=30_000))
        await asyncio.sleep(1)
        client.cluster.brokers[LEADER].server.services.replicas.stop_leading_all()
        assert await asyncio.wait_for(answer, 5) == [(TOPIC, 0, NOT_LEADER, -1)]

    with_client(scenario)


@pytest.mark.parametrize(
    ("topic", "index", "broker", "current_epoch", "told"),
    [
        (TOPIC, 0, LEADER, -1, (NONE, 0, 3)),
        (TOPIC, 0, LEADER, 0, (NONE, 0, 3)),
        (TOPIC, 0, LEADER, 1, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (TOPIC, 0, FOLLOWER, -1, (NOT_LEADER, -1, -1)),
        (TOPIC, 9, LEADER, -1, (UNKNOWN, -1, -1)),
        ("unknown", 0, LEADER, -1, (UNKNOWN, -1, -1)),
    ],
)
def test_where_an_epoch_ended_is_told_by_its_leader(
    topic: str, index: int, broker: int, current_epoch: int, told: tuple[int, int, int]
) -> None:
    async def scenario(client: Client) -> None:
        asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=current_epoch, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        answer: Any = await client.ask(OffsetForLeaderEpochRequest(topics=topics), 4, broker)
        [(name, [one])] = [(found.topic, found.partitions) for found in answer.topics]
        assert (name, one.partition) == (topic, index)
        assert (one.error_code, one.leader_epoch, one.end_offset) == told

    with_client(scenario)
