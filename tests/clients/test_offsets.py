"""ListOffsets, OffsetForLeaderEpoch, OffsetCommit and OffsetFetch in the versions that no client here sends."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.testing import Cluster
from odradek.testing.foreign.interface import Client, Record
from odradek.testing.foreign.raw import RawConnection, place_of
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
COUNT = 10


@pytest.fixture
def written(
    new_topic: Callable[..., str], confluent: Client, make_records: Callable[..., list[Record]]
) -> tuple[str, list[Record]]:
    """A topic of ten records, a second apart."""
    topic, records = new_topic(), make_records(COUNT)
    confluent.produce(topic, "none", records)
    return topic, records


@pytest.fixture
def leader(written: tuple[str, list[Record]], cluster: Cluster) -> Iterator[RawConnection]:
    with RawConnection(place_of(cluster.bootstrap, written[0]).leader) as connection:
        yield connection


def _list(connection: RawConnection, topic: str, version: int, timestamp: int, **more: Any) -> Any:
    partition = ListOffsetsPartition(timestamp=timestamp, **more)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    return connection.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 10))
def test_list_offsets(version: int, written: tuple[str, list[Record]], leader: RawConnection) -> None:
    topic, records = written
    assert _list(leader, topic, version, EARLIEST).offset == 0
    latest = _list(leader, topic, version, LATEST)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, COUNT, -1)
    assert latest.leader_epoch == (0 if version >= 4 else -1)
    between = _list(leader, topic, version, records[4].timestamp_ms - 1)
    assert (between.offset, between.timestamp) == (4, records[4].timestamp_ms)
    later = _list(leader, topic, version, records[-1].timestamp_ms + 1)
    assert (later.error_code, later.offset, later.timestamp) == (0, -1, -1)
    if version >= 7:
        newest = _list(leader, topic, version, MAX_TIMESTAMP)
        assert (newest.offset, newest.timestamp) == (COUNT - 1, records[-1].timestamp_ms)
    if version >= 4:
        fenced = _list(leader, topic, version, LATEST, current_leader_epoch=9)
        assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_list_offsets_version_0(written: tuple[str, list[Record]], leader: RawConnection) -> None:
    """An array, the largest first."""
    assert _list(leader, written[0], 0, LATEST, max_num_offsets=5).old_style_offsets == [COUNT, 0]
    assert _list(leader, written[0], 0, LATEST, max_num_offsets=1).old_style_offsets == [COUNT]
    assert _list(leader, written[0], 0, EARLIEST, max_num_offsets=5).old_style_offsets == [0]


@pytest.mark.parametrize("version", range(5))
def test_offset_for_leader_epoch(version: int, written: tuple[str, list[Record]], leader: RawConnection) -> None:
    """The end of the epoch; of one that is still to come, nothing."""

    def ask(epoch: int) -> Any:
        partition = OffsetForLeaderPartition(leader_epoch=epoch)
        asked = OffsetForLeaderTopic(topic=written[0], partitions=[partition])
        return leader.ask(OffsetForLeaderEpochRequest(topics=[asked]), version).topics[0].partitions[0]

    current, future = ask(0), ask(5)
    assert (current.error_code, current.end_offset) == (0, COUNT)
    assert current.leader_epoch == (0 if version >= 1 else -1)
    assert (future.error_code, future.leader_epoch, future.end_offset) == (0, -1, -1)


def _coordinator(cluster: Cluster, group: str) -> str:
    """Its address, from version 0; the first question of all makes the topic that keeps the offsets.

    Others may know of a coordinator before it does itself, and before all others do.
    """
    places: set[str] = set()

    def ask() -> bool:
        places.clear()
        for address in cluster.bootstrap.split(","):
            with RawConnection(address) as connection:
                answer = connection.ask(FindCoordinatorRequest(key=group), 0)
            assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), answer
            if answer.error_code:
                return False
            places.add(f"{answer.host}:{answer.port}")
        return len(places) == 1

    def serves() -> bool:
        with RawConnection(place) as connection:
            error = connection.ask(OffsetFetchRequest(group_id=group, topics=None), 2).error_code
        assert error in (0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), error
        return bool(error == 0)

    wait_until(ask, "a coordinator that all brokers know")
    [place] = places
    wait_until(serves, "a coordinator that serves")
    return place


@pytest.mark.parametrize("version", range(10))
def test_commit_and_fetch(version: int, cluster: Cluster, written: tuple[str, list[Record]]) -> None:
    """By a consumer that is no member. What is not committed is -1: an error in version 0 alone, that of ZooKeeper."""
    topic, group = written[0], f"offsets-group-{version}"
    with RawConnection(_coordinator(cluster, group)) as connection:
        before = _fetched(connection, group, topic, version)
        assert before[:2] == (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0)
        partition = OffsetCommitRequestPartition(committed_offset=7, committed_metadata="why" if version else None)
        asked = OffsetCommitRequestTopic(name=topic, partitions=[partition])
        committed = connection.ask(OffsetCommitRequest(group_id=group, topics=[asked]), version)
        assert committed.topics[0].partitions[0].error_code == 0
        wait_until(lambda: _fetched(connection, group, topic, version)[0] == 7, "what was committed")
        assert _fetched(connection, group, topic, version) == (7, 0, "why" if version else "")


def _fetched(connection: RawConnection, group: str, topic: str, version: int) -> tuple[int, int, str]:
    """(offset, error, metadata)."""
    old = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    new = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(
        group_id=group, topics=[old], groups=[OffsetFetchRequestGroup(group_id=group, topics=[new])]
    )
    answer = connection.ask(request, version)
    if version >= 8:
        [told] = answer.groups
        assert told.error_code == 0 and told.group_id == group
    else:
        told = answer
    [one] = told.topics[0].partitions
    return one.committed_offset, one.error_code, one.metadata


@pytest.mark.parametrize("version", range(2, 10))
def test_fetch_of_all_offsets(version: int, cluster: Cluster, written: tuple[str, list[Record]]) -> None:
    """Null topics are all; a group of nothing has none."""
    group = f"offsets-nothing-{version}"
    with RawConnection(_coordinator(cluster, group)) as connection:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
        answer = connection.ask(OffsetFetchRequest(group_id=group, topics=None, groups=groups), version)
    told = answer.groups[0] if version >= 8 else answer
    assert (told.error_code, told.topics) == (0, [])


@pytest.mark.parametrize("version", range(1, 10))
def test_commits_that_are_refused(version: int, cluster: Cluster, written: tuple[str, list[Record]]) -> None:
    group = f"offsets-refused-{version}"

    def commit(connection: RawConnection, name: str, metadata: str, **more: Any) -> int:
        partition = OffsetCommitRequestPartition(committed_offset=1, committed_metadata=metadata)
        asked = OffsetCommitRequestTopic(name=name, partitions=[partition])
        answer = connection.ask(OffsetCommitRequest(group_id=group, topics=[asked], **more), version)
        return int(answer.topics[0].partitions[0].error_code)

    with RawConnection(_coordinator(cluster, group)) as connection:
        assert commit(connection, written[0], "x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert commit(connection, "nobody-has-made-this", "") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        member = {"generation_id_or_member_epoch": 3, "member_id": "stranger"}
        refusal = commit(connection, written[0], "", **member)
        assert refusal in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(version: int, cluster: Cluster) -> None:
    """The same broker whoever is asked; from version 4 on for several groups at once."""
    group = "offsets-coordinated"
    expected = _coordinator(cluster, group)
    for address in cluster.bootstrap.split(","):
        with RawConnection(address) as connection:
            answer = connection.ask(FindCoordinatorRequest(key=group, coordinator_keys=[group, "other"]), version)
        if version >= 4:
            assert [one.key for one in answer.coordinators] == [group, "other"]
            answer = answer.coordinators[0]
        assert (answer.error_code, f"{answer.host}:{answer.port}") == (0, expected)
