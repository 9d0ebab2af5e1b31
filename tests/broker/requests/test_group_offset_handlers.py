"""The APIs of groups' offsets from request to response, in all versions, over a whole coordinator."""

from typing import Any

import pytest

from odradek.broker.groups.group import CommitRequest, InTransaction
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.requests import (
    offset_commit,
    offset_delete,
    offset_fetch,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.zk_schema.store import ConnectionLost
from tests.broker.requests.groups_stage import (
    PARTITIONS,
    commit_topics,
    pass_time,
    with_broker,
)


@pytest.mark.parametrize("version", range(1, 10))
def test_commit_and_fetch(version):
    async def test(broker):
        topics = commit_topics(("t", 0, 5), ("t", 9, 5), ("unknown", 0, 5))
        committed = await broker.ask(offset_commit, version, group_id="g", topics=topics)
        assert [(t.name, t.partitions[0].partition_index, t.partitions[0].error_code) for t in committed.topics] == [
            ("t", 0, 0),
            ("t", 9, 3),
            ("unknown", 0, 3),
        ]
        if version >= 8:
            asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[1, 0])]
            request: dict[str, Any] = {"groups": [OffsetFetchRequestGroup(group_id="g", topics=asked)]}
        else:
            request = {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[1, 0])]}
        fetched = await broker.ask(offset_fetch, version, **request)
        partitions = (fetched.groups[0] if version >= 8 else fetched).topics[0].partitions
        assert [(p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in partitions] == [
            (1, -1, "", 0),
            (0, 5, "m", 0),
        ]
        if version >= 6:
            assert [p.committed_leader_epoch for p in partitions] == [-1, 4]

    with_broker(test)


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9])
def test_fetch_of_everything(version):
    async def test(broker):
        await broker.ask(offset_commit, 2, group_id="g", topics=commit_topics(("t", 0, 5), ("t", 1, 6)))
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "nothing")]
        request = {"groups": groups} if version >= 8 else {"group_id": "g", "topics": None}
        fetched = await broker.ask(offset_fetch, version, **request)
        topics = (fetched.groups[0] if version >= 8 else fetched).topics
        assert [(t.name, [p.committed_offset for p in t.partitions]) for t in topics] == [("t", [5, 6])]
        if version >= 8:
            assert (fetched.groups[1].group_id, fetched.groups[1].topics) == ("nothing", [])

    with_broker(test)


@pytest.mark.parametrize("version", range(1, 10))
def test_fetch_where_the_coordinator_is_not(version):
    async def test(broker):
        for partition in range(PARTITIONS):
            broker.groups.on_resigned(partition)
        if version >= 8:
            asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            request: dict[str, Any] = {"groups": [OffsetFetchRequestGroup(group_id="g", topics=asked)]}
        else:
            request = {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]}
        fetched = await broker.ask(offset_fetch, version, **request)
        if version >= 8:
            error = fetched.groups[0].error_code
        else:
            error = fetched.error_code if version >= 2 else fetched.topics[0].partitions[0].error_code
        assert error == ErrorCode.NOT_COORDINATOR

    with_broker(test)


@pytest.mark.parametrize("version", [7, 8])
def test_whoever_requires_stable_offsets_gets_none_while_a_transaction_is_open(version):
    """Otherwise a consumer would read again what the transaction has read (KIP-447)."""

    async def test(broker):
        await broker.ask(offset_commit, 2, group_id="g", topics=commit_topics(("t", 0, 5)))
        offsets = {("t", 0): CommittedOffset(6, 0)}
        broker.groups.commit("g", CommitRequest("", None, -1, offsets, InTransaction(1, 0)), lambda errors: None)

        async def fetch(**more):
            if version >= 8:
                asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
                more["groups"] = [OffsetFetchRequestGroup(group_id="g", topics=asked)]
            else:
                more |= {"group_id": "g", "topics": [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]}
            fetched = await broker.ask(offset_fetch, version, **more)
            [partition] = (fetched.groups[0] if version >= 8 else fetched).topics[0].partitions
            return partition.committed_offset, partition.error_code

        assert await fetch(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await fetch() == (5, ErrorCode.NONE)

    with_broker(test)


def test_retention_and_timestamps_of_old_versions():
    async def test(broker):
        await broker.ask(offset_commit, 1, group_id="a", topics=commit_topics(("t", 0, 5), timestamp=1000))
        await broker.ask(offset_commit, 3, group_id="b", topics=commit_topics(("t", 0, 5)), retention_time_ms=1000)
        await broker.ask(offset_commit, 5, group_id="c", topics=commit_topics(("t", 0, 5)), retention_time_ms=1000)
        await broker.ask(offset_commit, 4, group_id="d", topics=commit_topics(("t", 0, 5)), retention_time_ms=900_000)

        def names():
            return {one.group_id for one in broker.groups.list_groups([], [])[1]}

        assert names() == {"a", "b", "c", "d"}
        await pass_time(broker.clock, 600_001)
        assert names() == {"c", "d"}
        await pass_time(broker.clock, 600_000)
        assert names() == {"c"}

    with_broker(test)


def test_version_0_keeps_offsets_in_zookeeper():
    async def test(broker):
        for offset in (5, 7):
            topics = commit_topics(("t", 0, offset), ("unknown", 0, 5))
            committed = await broker.ask(offset_commit, 0, group_id="old", topics=topics)
            assert [t.partitions[0].error_code for t in committed.topics] == [0, 3]
        assert (await broker.zookeeper.get("/consumers/old/offsets/t/0"))[0] == b"7"
        for metadata, error in ((None, 0), ("x" * 4096, 0), ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
            topics = commit_topics(("t", 0, 7), metadata=metadata)
            answer = await broker.ask(offset_commit, 0, group_id="old", topics=topics)
            assert answer.topics[0].partitions[0].error_code == error
        for nameless in ("a/b", "a\x07", "a\x9f", "\ue000", "\uffff"):
            refused = await broker.ask(offset_commit, 0, group_id=nameless, topics=commit_topics(("t", 0, 1)))
            assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 9])]
        fetched = await broker.ask(offset_fetch, 0, group_id="old", topics=asked)
        assert [(p.committed_offset, p.metadata, p.error_code) for p in fetched.topics[0].partitions] == [
            (7, "", 0),
            (-1, "", 3),
            (-1, "", 3),
        ]
        assert broker.groups.list_groups([], [])[1] == []

    with_broker(test)


def test_an_offset_in_zookeeper_that_nobody_can_read_or_whose_partition_is_gone():
    async def test(broker):
        for topic, index, data in (("t", 0, b"x"), ("t", 9, b"5"), ("gone", 0, b"5")):
            await broker.zookeeper.create(f"/consumers/old/offsets/{topic}/{index}", data, parents=True)
        asked = [
            OffsetFetchRequestTopic(name="t", partition_indexes=[0, 9]),
            OffsetFetchRequestTopic(name="gone", partition_indexes=[0]),
        ]
        fetched = await broker.ask(offset_fetch, 0, group_id="old", topics=asked)
        assert [(p.committed_offset, p.error_code) for topic in fetched.topics for p in topic.partitions] == [
            (-1, ErrorCode.UNKNOWN_SERVER_ERROR),
            (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        nameless = await broker.ask(offset_fetch, 0, group_id="old/x", topics=asked[:1])
        assert {p.error_code for p in nameless.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    with_broker(test)


def test_version_0_while_zookeeper_is_away():
    async def test(broker):
        async def lost(*_, **__):
            raise ConnectionLost("away")

        broker.zookeeper.get = broker.zookeeper.set = lost
        committed = await broker.ask(offset_commit, 0, group_id="old", topics=commit_topics(("t", 0, 5)))
        assert committed.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        [told] = (await broker.ask(offset_fetch, 0, group_id="old", topics=asked)).topics[0].partitions
        assert (told.committed_offset, told.error_code) == (-1, ErrorCode.UNKNOWN_SERVER_ERROR)

    with_broker(test)


def test_two_first_commits_of_version_0_at_once():
    """Both find no offset yet, and one of them is the second to create it: the last one counts."""

    async def test(broker):
        create = broker.zookeeper.create

        async def second(path, data, **how):
            broker.zookeeper.create = create
            assert (await commit(6)).topics[0].partitions[0].error_code == ErrorCode.NONE
            await create(path, data, **how)

        async def commit(offset):
            return await broker.ask(offset_commit, 0, group_id="old", topics=commit_topics(("t", 0, offset)))

        broker.zookeeper.create = second
        assert (await commit(5)).topics[0].partitions[0].error_code == ErrorCode.NONE
        assert (await broker.zookeeper.get("/consumers/old/offsets/t/0"))[0] == b"5"

    with_broker(test)


@pytest.mark.parametrize("version", [0, 9])
def test_commits_for_partitions_that_do_not_exist_make_no_group(version):
    async def test(broker):
        topics = commit_topics(("t", 9, 5), ("unknown", 0, 5))
        committed = await broker.ask(offset_commit, version, group_id="g", topics=topics)
        assert [(t.name, [p.error_code for p in t.partitions]) for t in committed.topics] == [
            ("t", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("unknown", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
        assert broker.groups.list_groups([], [])[1] == []

    with_broker(test)


@pytest.mark.parametrize("version", [1, 8])
def test_metadata_may_be_null(version):
    async def test(broker):
        await broker.ask(offset_commit, version, group_id="g", topics=commit_topics(("t", 0, 5), metadata=None))
        assert broker.groups.fetch_offsets("g", None, require_stable=False)[1]["t", 0].metadata == ""

    with_broker(test)


def test_delete_offsets():
    async def test(broker):
        await broker.ask(offset_commit, 2, group_id="g", topics=commit_topics(("t", 0, 5), ("t", 1, 6)))
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (1, 9)]
        topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
        deleted = await broker.ask(offset_delete, 0, group_id="g", topics=topics)
        assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in deleted.topics] == [
            ("t", [(1, 0), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
        ]
        deleted = await broker.ask(offset_delete, 0, group_id="unknown", topics=topics)
        assert (deleted.error_code, deleted.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert broker.groups.fetch_offsets("g", None, require_stable=False)[1].keys() == {("t", 0)}

    with_broker(test)
