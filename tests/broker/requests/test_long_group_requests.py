"""Requests of groups for very many partitions are served in slices, like those in test_long_requests.py."""

import asyncio
from types import ModuleType
from typing import Any

import pytest

from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.groups.group_records import offset_records
from odradek.broker.requests import offset_commit, offset_delete, txn_offset_commit
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.askers import ABSENT, PARTITIONS, Asker, with_topic

pytestmark = pytest.mark.usefixtures("slow_machine")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than two offsets are taken at once."""
    for few in (offset_commit, offset_delete, txn_offset_commit):
        monkeypatch.setattr(few, "AT_ONCE", 2)


def test_commits_of_a_group() -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="m")
        for index in range(ABSENT + 1)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]

    async def scenario(asker: Asker) -> None:
        await asker.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        await asyncio.sleep(5.0)
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
        answers = (await asker.ask_beside(request, 7)).topics[0].partitions
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * PARTITIONS + [unknown]
        groups = asker.cluster.brokers[0].server.services.groups
        _, offsets = groups.fetch_offsets("g", None, require_stable=False)
        assert {index: offset.offset for (_, index), offset in offsets.items()} == {n: n for n in range(PARTITIONS)}

    with_topic(scenario)


@pytest.mark.parametrize("version", [7, 9])
def test_offsets_of_a_group(version: int) -> None:
    committed = [OffsetCommitRequestPartition(partition_index=one, committed_offset=one) for one in range(PARTITIONS)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=committed)]
    fetched = [OffsetFetchRequestGroup(group_id="g", topics=None)]

    async def scenario(asker: Asker) -> None:
        await asker.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        await asyncio.sleep(5.0)
        commit = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
        await asker.ask(commit, 7)
        answer = await asker.ask_beside(OffsetFetchRequest(group_id="g", topics=None, groups=fetched), version)
        (topic,) = answer.topics if version < 8 else answer.groups[0].topics
        assert {one.partition_index: one.committed_offset for one in topic.partitions} == {
            index: index for index in range(PARTITIONS)
        }

    with_topic(scenario)


def committed_offsets(asker: Asker) -> dict[int, int]:
    """Offsets of the group g, by partition."""
    _, offsets = asker.cluster.brokers[0].server.services.groups.fetch_offsets("g", None, require_stable=False)
    return {index: one.offset for (_, index), one in offsets.items()}


async def coordinators(asker: Asker) -> None:
    """Have both coordinators begin."""
    for kind, key in enumerate(("g", "x")):
        await asker.ask(FindCoordinatorRequest(key=key, key_type=kind), 3)
    await asyncio.sleep(5.0)


async def begin_transaction(asker: Asker) -> TxnOffsetCommitRequest:
    """Make a transaction in which the group may commit, and the request that does."""
    made = await asker.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    assert made.error_code == ErrorCode.NONE
    fields = {"transactional_id": "x", "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    assert not (await asker.ask(AddOffsetsToTxnRequest(group_id="g", **fields), 3)).error_code
    offsets = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(ABSENT + 1)
    ]
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=offsets)]
    return TxnOffsetCommitRequest(group_id="g", topics=topics, generation_id=-1, member_id="", **fields)


async def end_transaction(asker: Asker, begun: TxnOffsetCommitRequest, *, committed: bool) -> Any:
    request = EndTxnRequest(
        transactional_id="x", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, committed=committed
    )
    return await asker.ask_other(request, 3)


def test_commits_of_a_group_in_a_transaction() -> None:
    async def scenario(asker: Asker) -> None:
        await coordinators(asker)
        request = await begin_transaction(asker)
        for _ in range(2):  # the second time the log knows that its partition is part of the transaction
            answers = (await asker.ask_beside(request, 3)).topics[0].partitions
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * PARTITIONS + [unknown]
        assert not committed_offsets(asker)
        assert not (await end_transaction(asker, request, committed=True)).error_code
        await asyncio.sleep(1.0)
        assert committed_offsets(asker) == {index: index for index in range(PARTITIONS)}

    with_topic(scenario)


def test_commits_whose_transaction_ends_while_their_records_are_made_are_refused() -> None:
    """They would begin a transaction that nobody ends: no offset of those partitions could be read any more."""

    async def scenario(asker: Asker) -> None:
        await coordinators(asker)
        groups = asker.cluster.brokers[0].server.services.groups
        request = await begin_transaction(asker)
        first = (await asker.ask(request, 3)).topics[0].partitions[0]
        assert first.error_code == ErrorCode.NONE, "from now on the partition is known to be in the transaction"
        assert not (await end_transaction(asker, request, committed=False)).error_code
        late = asyncio.ensure_future(asker.ask(request, 3))
        while request.producer_id in groups._groups["g"].offsets.open_producers:
            await asyncio.sleep(0.0001)
        assert not late.done()
        answers = (await late).topics[0].partitions
        assert ErrorCode.NONE not in {answer.error_code for answer in answers}
        assert request.producer_id not in groups._groups["g"].offsets.open_producers

    with_topic(scenario)


@pytest.mark.parametrize("module", [offset_commit, txn_offset_commit])
def test_commits_whose_topic_is_deleted_while_their_records_are_made_are_refused(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group heard of the deletion before: who read a topic that was made anew went on from an offset of the old."""
    offsets = [OffsetCommitRequestPartition(partition_index=index, committed_offset=9) for index in range(PARTITIONS)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=offsets)]

    async def scenario(asker: Asker) -> None:
        services = asker.cluster.brokers[0].server.services

        def until_deleted(group_id: str, committed: dict[PartitionKey, CommittedOffset]) -> Any:
            records = yield from offset_records(group_id, committed)
            while services.metadata.partition_count("t"):
                yield
            return records

        monkeypatch.setattr(module, "offset_records", until_deleted)
        await coordinators(asker)
        if module is txn_offset_commit:
            late = asyncio.ensure_future(asker.ask(await begin_transaction(asker), 3))
        else:
            request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
            late = asyncio.ensure_future(asker.ask(request, 7))
        await asker.ask_other(DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000), 3)
        answers = (await late).topics[0].partitions
        assert {answer.error_code for answer in answers} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert services.groups._groups["g"].offsets.is_empty()

    with_topic(scenario)


def test_offsets_that_are_deleted() -> None:
    offsets = [OffsetCommitRequestPartition(partition_index=index, committed_offset=9) for index in range(PARTITIONS)]
    asked = [OffsetDeleteRequestPartition(partition_index=index) for index in range(1, ABSENT + 1)]

    async def scenario(asker: Asker) -> None:
        await coordinators(asker)
        topics = [OffsetCommitRequestTopic(name="t", partitions=offsets)]
        await asker.ask(
            OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics), 7
        )
        request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=asked)])
        end_before = end_of_the_groups_log(asker)
        answers = (await asker.ask_beside(request, 0)).topics[0].partitions
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * (PARTITIONS - 1) + [unknown]
        assert committed_offsets(asker) == {0: 9}
        assert end_of_the_groups_log(asker) == end_before + PARTITIONS - 1, "a tombstone for each"
        again = await asker.ask(OffsetDeleteRequest(group_id="nobody", topics=request.topics), 0)
        assert again.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_topic(scenario)


def end_of_the_groups_log(asker: Asker) -> int:
    services = asker.cluster.brokers[0].server.services
    at = services.replicas.partitions["__consumer_offsets", services.groups.partition_for("g")]
    return at.log.log_end_offset


def test_descriptions_of_groups() -> None:
    async def scenario(asker: Asker) -> None:
        await coordinators(asker)
        names = [f"g{number}" for number in range(PARTITIONS)]
        groups = (await asker.ask_beside(DescribeGroupsRequest(groups=names), 5)).groups
        assert [(one.group_id, one.error_code, one.group_state) for one in groups] == [
            (name, ErrorCode.NONE, "Dead") for name in names
        ]

    with_topic(scenario)
