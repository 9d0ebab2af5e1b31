"""TxnOffsetCommit, asked of a whole broker: what counts when, and who is told what, in which version."""

import asyncio
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.requests.producer_stage import GROUP, Producer, with_producer
from tests.broker.requests.whole_broker import TOPIC

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def commit(
    producer: Producer, *asked: tuple[str, int, int], version: int = 3, metadata: str | None = None, **changes: Any
) -> list[tuple[str, int, int]]:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    committed_leader_epoch=4,
                )
            ],
        )
        for topic, index, offset in asked
    ]
    request = TxnOffsetCommitRequest(group_id=GROUP, topics=topics, **(producer.fields | changes))
    answer = await producer.client.ask(request, version)
    return [(topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions]


async def fetched(producer: Producer, *, require_stable: bool = True) -> tuple[int, int, str, int]:
    """What the group has for the first partition: offset, leader epoch, metadata, error."""
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=require_stable)
    [one] = (await producer.client.ask(request, 7)).topics[0].partitions
    return one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code


async def begin(producer: Producer) -> None:
    await producer.init()
    assert await producer.add_offsets(3, producer.identity[1]) is NONE


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", [None, "m"])
def test_offsets_count_when_the_transaction_is_committed(version: int, metadata: str | None) -> None:
    async def scenario(producer: Producer) -> None:
        await begin(producer)
        asked = [(TOPIC, 1, 7), ("unknown", 0, 6), (TOPIC, 0, 5), (TOPIC, 9, 4)]
        told = [(TOPIC, 1, NONE), ("unknown", 0, UNKNOWN), (TOPIC, 0, NONE), (TOPIC, 9, UNKNOWN)]
        assert await commit(producer, *asked, version=version, metadata=metadata) == told
        assert await fetched(producer) == (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await fetched(producer, require_stable=False) == (-1, -1, "", NONE)
        assert await producer.end() is NONE
        while (answer := await fetched(producer))[3] != NONE:
            assert answer[3] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            await asyncio.sleep(0.05)
        assert answer == (5, 4 if version >= 2 else -1, metadata or "", NONE)

    with_producer(scenario)


@pytest.mark.parametrize(
    ("version", "error"),
    [(0, ErrorCode.INVALID_TXN_STATE), (3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_of_a_group_that_is_not_part_of_the_transaction_are_refused(version: int, error: ErrorCode) -> None:
    """From version 4 on the producer may abort and go on (KIP-890)."""

    async def scenario(producer: Producer) -> None:
        await producer.init()
        told = [(TOPIC, 0, error), ("unknown", 0, UNKNOWN)]
        assert await commit(producer, (TOPIC, 0, 5), ("unknown", 0, 1), version=version) == told
        assert await fetched(producer) == (-1, -1, "", NONE)

    with_producer(scenario)


def test_nobody_is_asked_whether_it_is_part_of_the_transaction_where_verification_is_off() -> None:
    async def scenario(producer: Producer) -> None:
        await producer.init()
        assert await commit(producer, (TOPIC, 0, 5)) == [(TOPIC, 0, NONE)]

    with_producer(scenario, transaction_partition_verification_enable="false")


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_producer_asks_again_while_the_coordinator_of_its_transaction_cannot_be_asked(
    version: int, error: ErrorCode
) -> None:
    async def scenario(producer: Producer) -> None:
        await begin(producer)
        producer.client.cluster.brokers[0].server.services.transactions.stop()
        assert await commit(producer, (TOPIC, 0, 5), version=version) == [(TOPIC, 0, error)]

    with_producer(scenario)


@pytest.mark.parametrize("version", [0, 4])
def test_a_fenced_producer_commits_nothing(version: int) -> None:
    async def scenario(producer: Producer) -> None:
        await begin(producer)
        told = [(TOPIC, 0, ErrorCode.INVALID_PRODUCER_EPOCH)]
        assert await commit(producer, (TOPIC, 0, 5), version=version, producer_epoch=7) == told
        told = [(TOPIC, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]
        assert await commit(producer, (TOPIC, 0, 5), version=version, producer_id=7_000) == told

    with_producer(scenario)


def test_offsets_of_partitions_that_do_not_exist_make_no_group() -> None:
    async def scenario(producer: Producer) -> None:
        await begin(producer)
        assert await commit(producer, ("unknown", 0, 5), (TOPIC, 9, 1)) == [
            ("unknown", 0, UNKNOWN),
            (TOPIC, 9, UNKNOWN),
        ]
        assert producer.client.cluster.brokers[0].server.services.groups.list_groups([], [])[1] == []

    with_producer(scenario)


def test_only_a_marker_in_the_groups_partition_ends_the_transaction_of_its_offsets() -> None:
    """One in the partition of that number of another topic does not."""

    async def scenario(producer: Producer) -> None:
        await begin(producer)
        await producer.add((TOPIC, 0))
        await commit(producer, (TOPIC, 0, 5))

        async def end(topic: str) -> int:
            where = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
            producer_id, epoch = producer.identity
            marker = WritableTxnMarker(
                producer_id=producer_id, producer_epoch=epoch, transaction_result=True, topics=where
            )
            [answer] = (await producer.client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)).markers
            assert answer.producer_id == producer_id
            return int(answer.topics[0].partitions[0].error_code)

        assert await end(TOPIC) == NONE
        assert (await fetched(producer))[3] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await end("__consumer_offsets") == NONE
        assert await fetched(producer) == (5, 4, "", NONE)

    with_producer(scenario)
