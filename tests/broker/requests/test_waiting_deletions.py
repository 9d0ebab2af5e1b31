"""A DeleteRecords that waits for the replicas of several partitions, and one that is refused."""

from types import SimpleNamespace
from typing import cast

import pytest

from odradek.broker.replication.partition import Partition
from odradek.broker.requests.delete_records import Awaited, DelayedDeletion
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.requests.whole_broker import TOPIC, Client, with_broker


def awaited(start: int) -> tuple[SimpleNamespace, Awaited]:
    """Make a partition whose replicas begin at `start`, and the wait until they begin at 5."""
    partition = SimpleNamespace(
        is_leader=True, low_watermark=lambda: start, check_leadership=lambda: ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    return partition, (DeleteRecordsPartitionResult(), cast(Partition, partition), 5)


def answers(*waits: Awaited) -> list[tuple[int, int]]:
    return [(answer.error_code, answer.low_watermark) for answer, _, _ in waits]


def test_a_partition_that_all_replicas_have_followed_is_not_refused_afterwards() -> None:
    """Its leader may move while other partitions are waited for: the records are deleted all the same."""
    done: list[bool] = []
    followed, first = awaited(5)
    lagging, second = awaited(4)
    deletion = DelayedDeletion([first, second], lambda: done.append(True))
    assert not deletion.try_complete()
    followed.is_leader = False
    assert not deletion.try_complete()
    lagging.low_watermark = lambda: 5
    assert deletion.try_complete()
    assert answers(first, second) == [(ErrorCode.NONE, 5), (ErrorCode.NONE, 5)]
    assert done == [True]


def test_a_partition_whose_leader_has_moved_has_no_low_watermark() -> None:
    lagging, wait = awaited(4)
    deletion = DelayedDeletion([wait], lambda: None)
    assert not deletion.try_complete()
    lagging.is_leader = False
    assert deletion.try_complete()
    assert answers(wait) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_at_the_deadline_the_partitions_that_are_still_waited_for_have_timed_out() -> None:
    _, first = awaited(5)
    _, second = awaited(4)
    deletion = DelayedDeletion([first, second], lambda: None)
    assert not deletion.try_complete()
    deletion.expire()
    assert answers(first, second) == [(ErrorCode.NONE, 5), (ErrorCode.REQUEST_TIMED_OUT, 4)]


@pytest.mark.parametrize(
    ("policy", "code"), [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", ErrorCode.NONE)]
)
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted_by_offset(policy: str, code: ErrorCode) -> None:
    async def scenario(client: Client) -> None:
        await client.create(cleanup_policy=policy)
        asked = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
        response = await client.ask(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000), 2)
        assert response.topics[0].partitions[0].error_code == code

    with_broker(scenario)
